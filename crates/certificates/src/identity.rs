//! A serving certificate and the authority that clients must trust for it. Creates them, for the names of a
//! Service; no other file creates keys. Storage is in `contents`.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use tower::BoxError;

use super::pair::{ServingPair, Validity, certificates};

/// Lifetime of a certificate: cert-manager's default. It is renewed after two thirds.
pub(super) const LIFE: SignedDuration = SignedDuration::from_hours(90 * 24);
/// How long before its creation a certificate is valid, for API servers whose clock is behind:
/// cert-manager, kubeadm and client-go's certificate package allow 5 minutes to an hour.
pub(super) const BACKDATED: SignedDuration = SignedDuration::from_hours(1);

/// The certificate of an authority.
pub(super) type Authority = CertificateDer<'static>;

/// A serving pair and the certificate of its authority, as PEM and parsed.
///
/// The authority signs one certificate, and its key is then discarded, so it cannot be stolen. Every
/// renewal also replaces the authority.
#[derive(Clone)]
pub struct Identity {
    pub(super) texts: Arc<Texts>,
    pub pair: ServingPair,
    pub authority: Authority,
}

/// The PEM texts of an identity, as stored: its certificate, its key, and the authority's certificate.
pub(super) type Texts = [String; 3];

impl Identity {
    /// Parses an identity, and verifies as a client would at the time `now` that the authority signed it for
    /// each of `names`.
    pub(super) fn from_texts(
        texts: Texts,
        names: &[String],
        now: Timestamp,
    ) -> Result<Self, BoxError> {
        let [certificate, key, authority] = &texts;
        let pair = ServingPair::from_pem(certificate.as_bytes(), key.as_bytes())?;
        let authority = <[Authority; 1]>::try_from(authorities(authority.as_bytes()));
        let [authority] = authority.map_err(|_| "the authority is not one certificate")?;
        let mut roots = RootCertStore::empty();
        roots.add(authority.clone())?;
        let provider = Arc::new(ring::default_provider());
        let client = WebPkiServerVerifier::builder_with_provider(roots.into(), provider).build()?;
        let now = UnixTime::since_unix_epoch(Duration::from_secs(now.as_second().try_into()?));
        let key = &pair.key;
        for name in names {
            let name = ServerName::try_from(name.as_str())?;
            client.verify_server_cert(key.end_entity_cert()?, &key.cert, &name, &[], now)?;
        }
        Ok(Self {
            texts: Arc::new(texts),
            pair,
            authority,
        })
    }
}

impl PartialEq for Identity {
    fn eq(&self, other: &Self) -> bool {
        self.texts == other.texts
    }
}

/// Without the key, so it may be logged.
impl std::fmt::Debug for Identity {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Identity({})", self.pair.validity)
    }
}

/// The certificates in a bundle (PEM). Omits those that an API server would reject.
pub(super) fn authorities(bundle: &[u8]) -> Vec<Authority> {
    let mut authorities = certificates(bundle).unwrap_or_default();
    authorities
        .retain(|der| ParsedCertificate::try_from(der).is_ok() && Validity::of(der).is_some());
    authorities
}

/// Authorities as a PEM bundle.
pub(super) fn bundle(authorities: &[Authority]) -> String {
    let lines = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    let blocks = authorities
        .iter()
        .map(|der| pem::Pem::new("CERTIFICATE", der.as_ref()));
    blocks
        .map(|block| pem::encode_config(&block, lines))
        .collect()
}

/// A new authority and serving certificate for `names` (DNS names or IP addresses), valid for `life`.
///
/// # Errors
/// A name is not valid in a certificate, or the clock is not between the years 1970 and 9999.
pub(super) fn issue(
    names: &[String],
    now: Timestamp,
    life: SignedDuration,
) -> Result<Identity, BoxError> {
    let validity = Validity {
        not_before: now.checked_sub(BACKDATED)?,
        not_after: now.checked_add(life)?,
    };
    let authority_key = KeyPair::generate()?;
    // A unique subject, so that clients can distinguish the authorities in a bundle.
    let subject = format!("webhooks, {}", now.as_second());
    let mut authority = parameters(&subject, Vec::new(), validity)?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    let root = authority.self_signed(&authority_key)?;

    let key = KeyPair::generate()?;
    let mut leaf = parameters("webhook server", names.to_vec(), validity)?;
    leaf.use_authority_key_identifier_extension = true;
    leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let certificate = leaf.signed_by(&key, &Issuer::new(authority, authority_key))?;
    let texts = [certificate.pem(), key.serialize_pem(), root.pem()];
    Identity::from_texts(texts, names, now)
}

fn parameters(
    subject: &str,
    names: Vec<String>,
    validity: Validity,
) -> Result<CertificateParams, BoxError> {
    // rcgen has dates of the crate `time`, and one function that makes them.
    let date = |at: Timestamp| {
        let since_1970 = Duration::from_secs(u64::try_from(at.as_second())?);
        Ok::<_, BoxError>(date_time_ymd(1970, 1, 1) + since_1970)
    };
    let mut parameters = CertificateParams::new(names)?;
    let name = &mut parameters.distinguished_name;
    name.push(DnType::CommonName, subject);
    parameters.not_before = date(validity.not_before)?;
    parameters.not_after = date(validity.not_after)?;
    Ok(parameters)
}

#[cfg(test)]
pub(super) mod tests;
