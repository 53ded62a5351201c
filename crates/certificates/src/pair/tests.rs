//! Pairs in files of every notation and with every mistake, and dates of certificates.

use proptest::prelude::*;

use super::super::identity::tests::{pair, pair_for};
use super::*;

fn rejected(chain: &str, key: &str) -> String {
    let rejected = ServingPair::from_pem(chain.as_bytes(), key.as_bytes());
    rejected.unwrap_err().to_string()
}

#[test]
fn keys_of_every_notation_are_read() {
    let ec = include_str!("../testdata/ec.crt");
    let rsa = include_str!("../testdata/rsa.crt");
    let sec1 = "SEC1 after its parameters";
    for (name, chain, key) in [
        ("PKCS#8 EC", ec, include_str!("../testdata/ec.pkcs8.key")),
        (sec1, ec, include_str!("../testdata/ec.sec1.key")),
        ("PKCS#8 RSA", rsa, include_str!("../testdata/rsa.pkcs8.key")),
        ("PKCS#1", rsa, include_str!("../testdata/rsa.pkcs1.key")),
    ] {
        let read = ServingPair::from_pem(chain.as_bytes(), key.as_bytes());
        assert!(read.is_ok(), "{name}: {read:?}");
    }
}

#[test]
fn a_chain_is_served_whole_and_judged_by_its_first_certificate() {
    let (leaf, key) = pair();
    let authority = include_str!("../testdata/rsa.crt");
    let chain = format!("subject=a comment\n{leaf}\n{authority}");
    let read = ServingPair::from_pem(chain.as_bytes(), key.as_bytes()).unwrap();
    assert_eq!(read.key.cert.len(), 2);
    let alone = ServingPair::from_pem(leaf.as_bytes(), key.as_bytes()).unwrap();
    assert_eq!(read.validity, alone.validity);
}

#[test]
fn each_error_has_its_own_message() {
    let (chain, key) = pair();
    let (_, other) = pair();
    assert_eq!(rejected("", &key), NO_CERTIFICATE);
    assert_eq!(rejected(&key, &key), NO_CERTIFICATE);
    assert_eq!(rejected(&chain, ""), NO_KEY);
    assert_eq!(rejected(&chain, &chain), NO_KEY);
    assert_eq!(rejected(&chain, &other), MISMATCH);
    let rsa = include_str!("../testdata/rsa.pkcs1.key");
    assert_eq!(rejected(&chain, rsa), MISMATCH);
    let cut = &chain[..chain.len() / 2];
    assert!(rejected(cut, &key) == NOT_PEM);
    let empty = "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n";
    assert_eq!(rejected(empty, &key), UNREADABLE);
    let no_key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    assert!(rejected(&chain, no_key).starts_with(UNUSABLE));
    let encrypted = key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    assert_eq!(rejected(&chain, &encrypted), NO_KEY);
}

#[test]
fn an_error_says_nothing_of_a_key_that_is_not_pem_in_either_file() {
    let (chain, key) = pair();
    let lines = key.lines().filter(|line| !line.starts_with('-'));
    let body: String = lines.collect();
    assert!(body.len() > 100, "{body}");
    for bad in [
        key.replace('\n', " "),
        key.replace('\n', "\\n"),
        key.replace("-----END PRIVATE KEY-----", ""),
        key.replace(&body[8..16], "????????"),
    ] {
        for report in [rejected(&chain, &bad), rejected(&bad, &key)] {
            assert!(report.contains(" is not PEM; "), "{report}");
            // A list of bytes.
            assert!(!report.contains('['), "{report}");
            for place in 0..=body.len() - 8 {
                assert!(!report.contains(&body[place..place + 8]), "{report}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_pair_cut_short_anywhere_is_rejected(chain_cut in 0_usize..400, key_cut in 0_usize..150) {
        let (chain, key) = pair();
        // What follows the last dash of the closing line, a newline, is not needed.
        prop_assert!(ServingPair::from_pem(&chain.as_bytes()[..chain_cut], key.as_bytes()).is_err());
        prop_assert!(ServingPair::from_pem(chain.as_bytes(), &key.as_bytes()[..key_cut]).is_err());
    }
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// A certificate with these dates, as encoded by rcgen: UTCTime before 2050, as RFC 5280 requires,
/// and GeneralizedTime from then on.
fn certificate_for(not_before: Timestamp, not_after: Timestamp) -> Vec<u8> {
    let (chain, _) = pair_for("localhost", not_before, not_after);
    certificates(chain.as_bytes()).unwrap().remove(0).to_vec()
}

#[test]
fn dates_before_and_after_2050_are_read_to_the_second() {
    let (from, to) = (at("2026-11-21T07:39:01Z"), at("2093-01-02T03:04:05Z"));
    let read = Validity::of(&certificate_for(from, to)).unwrap();
    assert_eq!((read.not_before, read.not_after), (from, to));
}

#[test]
fn both_ends_are_valid_and_the_seconds_around_them_are_not() {
    let (from, to) = (at("2026-01-01T00:00:00Z"), at("2026-01-02T00:00:00Z"));
    let validity = Validity::of(&certificate_for(from, to)).unwrap();
    let second = jiff::SignedDuration::from_secs(1);
    assert!(validity.contains(from) && validity.contains(to));
    assert!(!validity.contains(from - second) && !validity.contains(to + second));
}

/// A certificate whose last date is these bytes.
fn until(bytes: &[u8; 15]) -> Vec<u8> {
    let mut certificate = certificate_for(at("2026-01-01T00:00:00Z"), at("9999-12-30T21:23:16Z"));
    let date = b"99991230212316Z";
    let mut windows = certificate.windows(date.len());
    let place = windows.position(|it| it == date).unwrap();
    certificate[place..place + date.len()].copy_from_slice(bytes);
    certificate
}

#[test]
fn a_certificate_that_never_expires_is_valid_to_the_last_time() {
    let validity = Validity::of(&until(b"99991231235959Z")).unwrap();
    assert_eq!(validity.not_before, at("2026-01-01T00:00:00Z"));
    assert_eq!(validity.not_after, Timestamp::MAX);
    assert!(validity.contains(at("9999-12-30T21:00:00Z")));
}
