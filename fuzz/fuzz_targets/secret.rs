//! The Secret of self-managed certificates, with any content: it is read without a panic, read back
//! as it was written, and never has more than a few authorities. An input is the values of the
//! keys, separated by a line `%`; a value `=3` is the valid one with number 3 of the list below.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use quartet_operator::certificates::fuzzing::read;

const KEYS: [&str; 7] = [
    "tls.crt",
    "tls.key",
    "ca.crt",
    "next-tls.crt",
    "next-tls.key",
    "next-ca.crt",
    "old-ca.crt",
];

/// Two pairs and their authorities, and a self-signed one.
const GOOD: [&str; 8] = [
    include_str!("../testdata/leaf1.crt"),
    include_str!("../testdata/leaf1.key"),
    include_str!("../testdata/ca1.crt"),
    include_str!("../testdata/leaf2.crt"),
    include_str!("../testdata/leaf2.key"),
    include_str!("../testdata/ca2.crt"),
    include_str!("../../src/certificates/testdata/ec.crt"),
    include_str!("../../src/certificates/testdata/ec.pkcs8.key"),
];

const SEPARATOR: &[u8] = b"\n%\n";

fuzz_target!(|input: &[u8]| {
    let mut values = Vec::new();
    let mut rest = input;
    while let Some(at) = rest.windows(SEPARATOR.len()).position(|it| it == SEPARATOR) {
        values.push(&rest[..at]);
        rest = &rest[at + SEPARATOR.len()..];
    }
    values.push(rest);
    let values = values.into_iter().map(good);
    let keys = KEYS.iter().map(ToString::to_string);
    let data: BTreeMap<_, _> = keys.zip(values).collect();
    let good = GOOD.map(str::as_bytes);
    let is = |key: &str, number: usize| data.get(key).is_some_and(|it| it == good[number]);
    let has_pair = is("tls.crt", 0) && is("tls.key", 1) && is("ca.crt", 2);
    let names = ["webhook.example".to_owned()];
    // Within the validity of the pairs, before it and after it.
    for second in [1_800_000_000, 0, 8_000_000_000] {
        let now = jiff::Timestamp::from_second(second).expect("a time");
        let found = read(data.clone(), &names, now);
        assert!(found || !has_pair, "a good pair is found");
        assert!(!read(data.clone(), &["other.example".to_owned()], now));
    }
});

fn good(value: &[u8]) -> Vec<u8> {
    let number = match value {
        [b'=', digit @ b'0'..=b'7', ..] => usize::from(digit - b'0'),
        _ => return value.to_vec(),
    };
    // The rest is appended, as in a bundle.
    [GOOD[number].as_bytes(), &value[2..]].concat()
}
