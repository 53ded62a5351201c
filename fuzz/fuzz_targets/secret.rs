//! The Secret of self-managed certificates, with any content: it is read without a panic, read back
//! as it was written, and never has more than a few authorities. An input is the values of the
//! keys, separated by a line `%`; a value `=3` is the valid one with number 3 of the list below.
#![no_main]

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use libfuzzer_sys::fuzz_target;
use quartet_certificates::contents::{Contents, MAX_OLD};
use quartet_certificates::plan::plan;

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
    include_str!("../../crates/certificates/src/testdata/ec.crt"),
    include_str!("../../crates/certificates/src/testdata/ec.pkcs8.key"),
];

/// A second in which both pairs are valid.
const VALID: i64 = 1_800_000_000;

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
    for second in [VALID, 0, 8_000_000_000] {
        let now = Timestamp::from_second(second).expect("a time");
        let found = read(data.clone(), &names, now);
        let is_valid = second == VALID;
        assert!(!found || is_valid, "a pair that is not valid is absent");
        assert!(found || !has_pair || !is_valid, "a good pair is found");
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

/// Reads this data for `names` and checks the invariants: contents survive a round trip, each authority
/// occurs once, and the plan keeps no more than the limit. Returns whether a pair was found.
fn read(data: BTreeMap<String, Vec<u8>>, names: &[String], now: Timestamp) -> bool {
    let data = data
        .into_iter()
        .map(|(key, value)| (key, ByteString(value)));
    let contents = Contents::read(&data.collect(), names, now);
    assert!(contents.old.len() <= MAX_OLD);
    assert_eq!(Contents::read(&contents.data(), names, now), contents);
    let trusted = contents.trusted();
    for (index, authority) in trusted.iter().enumerate().skip(2) {
        assert!(!trusted[..index].contains(authority));
    }
    for serving in [None, contents.current.as_ref()] {
        let settled = Duration::from_secs(60);
        // No new pair is created here: a plan that needs one returns this error.
        let Ok(planned) = plan(now, Some(&contents), serving, &[], settled, || Err(())) else {
            continue;
        };
        if let Some(write) = planned.write {
            assert!(write != contents && write.old.len() <= MAX_OLD);
            let current = write.current.as_ref();
            assert!(current.is_some_and(|it| it.pair.validity.contains(now)));
        }
        assert!(!planned.pause.is_zero());
    }
    contents.current.is_some() || contents.next.is_some()
}
