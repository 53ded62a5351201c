//! What is made is valid, and what a client would reject is not. Also pairs for the tests of other files.

use super::*;

/// A self-signed pair for localhost, valid for an hour on both sides of now.
pub(crate) fn pair() -> (String, String) {
    let now = Timestamp::now();
    let hour = SignedDuration::from_hours(1);
    pair_for("localhost", now - hour, now + hour)
}

/// A self-signed pair: certificate and key.
pub(crate) fn pair_for(
    name: &str,
    not_before: Timestamp,
    not_after: Timestamp,
) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let validity = Validity {
        not_before,
        not_after,
    };
    let parameters = parameters("test", vec![name.to_owned()], validity).unwrap();
    let certificate = parameters.self_signed(&key).unwrap();
    (certificate.pem(), key.serialize_pem())
}

#[test]
fn a_certificate_is_valid_an_hour_ago_and_for_ninety_days() {
    let now = Timestamp::from_second(1_795_246_772).unwrap();
    let made = issue(&["a.b.svc".to_owned()], now, LIFE).unwrap();
    let validity = Validity {
        not_before: now - BACKDATED,
        not_after: now + LIFE,
    };
    assert_eq!(made.pair.validity, validity);
    let texts = (*made.texts).clone();
    for (hours, is_valid) in [(-2, false), (0, true), (2159, true), (2161, false)] {
        let at = now + SignedDuration::from_hours(hours);
        let read = Identity::from_texts(texts.clone(), &["a.b.svc".to_owned()], at);
        assert_eq!(read.is_ok(), is_valid, "{hours} hours");
    }
}

#[test]
fn names_and_addresses_are_in_the_certificate_and_others_are_not() {
    let names = ["a.b.svc", "127.0.0.1", "::1"].map(str::to_owned);
    let made = issue(&names, Timestamp::now(), LIFE).unwrap();
    let texts = (*made.texts).clone();
    assert!(Identity::from_texts(texts.clone(), &names, Timestamp::now()).is_ok());
    let other = Identity::from_texts(texts, &["c.b.svc".to_owned()], Timestamp::now()).unwrap_err();
    let message = other.to_string();
    assert!(message.contains("not valid for name"), "{message}");
}

#[test]
fn an_authority_that_did_not_sign_is_noticed() {
    let names = ["a.b.svc".to_owned()];
    let made = issue(&names, Timestamp::now(), LIFE).unwrap();
    let other = issue(&names, Timestamp::now(), LIFE).unwrap();
    let [certificate, key, _] = (*made.texts).clone();
    let mixed = [certificate, key, other.texts[2].clone()];
    assert!(Identity::from_texts(mixed, &names, Timestamp::now()).is_err());
}

#[test]
fn a_key_is_never_in_the_debug_form() {
    let made = issue(&["a.b.svc".to_owned()], Timestamp::now(), LIFE).unwrap();
    assert!(!format!("{made:?}").contains("PRIVATE KEY"));
}

/// The API server rejects a caBundle with such a certificate, and so every write of it.
#[test]
fn an_authority_whose_dates_alone_are_valid_is_omitted() {
    let at = |text: &str| text.parse().unwrap();
    let (from, to) = (at("2026-01-01T00:00:00Z"), at("2027-01-01T00:00:00Z"));
    let (chain, _) = pair_for("localhost", from, to);
    let good = certificates(chain.as_bytes()).unwrap().remove(0);
    let mut bytes = good.to_vec();
    let (length, bit_string, octet_string) = (bytes.len(), 0x03, 0x04);
    let is_signature =
        |&at: &usize| bytes[at] == bit_string && at + 2 + usize::from(bytes[at + 1]) == length;
    let signature = (0..length - 2).find(is_signature).unwrap();
    bytes[signature] = octet_string;
    assert!(Validity::of(&bytes).is_some());
    let bad = pem::encode(&pem::Pem::new("CERTIFICATE", bytes));
    let found = authorities(format!("{bad}\n{chain}").as_bytes());
    assert_eq!(found, [good]);
}
