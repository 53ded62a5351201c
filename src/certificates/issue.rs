//! Creates an authority and the one serving certificate that it signs, for the names of a Service. No
//! other file creates keys.

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use time::OffsetDateTime;
use tower::BoxError;

use super::identity::{Identity, Texts};
use super::pair::CertificateError;

/// Lifetime of a certificate: cert-manager's default. It is renewed after two thirds.
pub(super) const LIFE: SignedDuration = SignedDuration::from_hours(90 * 24);
/// How long before its creation a certificate is valid, for API servers whose clock is behind:
/// cert-manager, kubeadm and client-go's certificate package allow 5 minutes to an hour.
pub(super) const BACKDATED: SignedDuration = SignedDuration::from_hours(1);

/// A new authority and serving certificate for `names` (DNS names or IP addresses).
///
/// # Errors
/// A name is not valid in a certificate, or the clock is not between the years 1950 and 9999.
pub(super) fn issue(names: &[String], now: Timestamp) -> Result<Identity, CertificateError> {
    let texts = texts(names, now);
    let texts = texts.map_err(|error| {
        CertificateError(format!("cannot create a certificate at {now}: {error}"))
    });
    Identity::from_texts(texts?, names)
}

fn texts(names: &[String], now: Timestamp) -> Result<Texts, BoxError> {
    let validity = (
        offset(now.checked_sub(BACKDATED)?)?,
        offset(now.checked_add(LIFE)?)?,
    );
    let authority_key = KeyPair::generate()?;
    // A unique subject, so that clients can distinguish the authorities in a bundle.
    let subject = format!("quartet-operator webhooks, {}", now.as_second());
    let mut authority = parameters(&subject, Vec::new(), validity)?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    let authority_certificate = authority.self_signed(&authority_key)?;

    let key = KeyPair::generate()?;
    let subject = "quartet-operator webhook server";
    let mut leaf = parameters(subject, names.to_vec(), validity)?;
    leaf.use_authority_key_identifier_extension = true;
    leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let certificate = leaf.signed_by(&key, &Issuer::new(authority, authority_key))?;
    Ok([
        certificate.pem(),
        key.serialize_pem(),
        authority_certificate.pem(),
    ])
}

fn parameters(
    subject: &str,
    names: Vec<String>,
    (not_before, not_after): (OffsetDateTime, OffsetDateTime),
) -> Result<CertificateParams, rcgen::Error> {
    let mut parameters = CertificateParams::new(names)?;
    parameters.distinguished_name = DistinguishedName::new();
    parameters
        .distinguished_name
        .push(DnType::CommonName, subject);
    parameters.not_before = not_before;
    parameters.not_after = not_after;
    Ok(parameters)
}

fn offset(at: Timestamp) -> Result<OffsetDateTime, time::error::ComponentRange> {
    OffsetDateTime::from_unix_timestamp(at.as_second())
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::validity::Validity;
    use super::*;

    /// A self-signed pair for localhost, valid for an hour on both sides of now.
    pub(in super::super) fn pair() -> (String, String) {
        let now = Timestamp::now();
        let hour = SignedDuration::from_hours(1);
        pair_for("localhost", now - hour, now + hour)
    }

    /// A self-signed pair: certificate and key.
    pub(in super::super) fn pair_for(
        name: &str,
        not_before: Timestamp,
        not_after: Timestamp,
    ) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let validity = (offset(not_before).unwrap(), offset(not_after).unwrap());
        let certificate = parameters("test", vec![name.to_owned()], validity)
            .unwrap()
            .self_signed(&key)
            .unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    #[test]
    fn a_certificate_is_valid_an_hour_ago_and_for_ninety_days() {
        let now = Timestamp::from_second(1_795_246_772).unwrap();
        let made = issue(&["a.b.svc".to_owned()], now).unwrap();
        let validity = Validity {
            not_before: now - BACKDATED,
            not_after: now + LIFE,
        };
        assert_eq!(made.pair.validity(), validity);
        assert!(made.is_valid_at(now));
    }

    #[test]
    fn names_and_addresses_are_in_the_certificate_and_others_are_not() {
        let names = ["a.b.svc", "127.0.0.1", "::1"].map(str::to_owned);
        let made = issue(&names, Timestamp::now()).unwrap();
        let texts = (*made.texts).clone();
        assert!(Identity::from_texts(texts.clone(), &names).is_ok());
        let other = Identity::from_texts(texts, &["c.b.svc".to_owned()]).unwrap_err();
        let message = other.to_string();
        assert!(
            message.starts_with("a client would reject the certificate: "),
            "{message}"
        );
    }

    #[test]
    fn an_authority_that_did_not_sign_is_noticed() {
        let names = ["a.b.svc".to_owned()];
        let made = issue(&names, Timestamp::now()).unwrap();
        let other = issue(&names, Timestamp::now()).unwrap();
        let [certificate, key, _] = (*made.texts).clone();
        let mixed = [certificate, key, other.texts[2].clone()];
        assert!(Identity::from_texts(mixed, &names).is_err());
    }

    #[test]
    fn a_key_is_never_in_the_debug_form() {
        let made = issue(&["a.b.svc".to_owned()], Timestamp::now()).unwrap();
        assert!(!format!("{made:?}").contains("PRIVATE KEY"));
    }
}
