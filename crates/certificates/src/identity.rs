//! A serving certificate and the authority that clients must trust for it, with the times of their use.
//! Creates them, for the names of a Service; no other file creates keys. Storage is in `contents`.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use tower::BoxError;

use super::pair::{CertificateError, ServingPair, Validity, certificates};

/// Lifetime of a certificate: cert-manager's default. It is renewed after two thirds.
pub(super) const LIFE: SignedDuration = SignedDuration::from_hours(90 * 24);
/// How long before its creation a certificate is valid, for API servers whose clock is behind:
/// cert-manager, kubeadm and client-go's certificate package allow 5 minutes to an hour.
pub(super) const BACKDATED: SignedDuration = SignedDuration::from_hours(1);

/// A serving pair and the certificate of its authority, as PEM and parsed.
///
/// The authority signs one certificate, and its key is then discarded, so it cannot be stolen. Every
/// renewal also replaces the authority.
#[derive(Clone)]
pub struct Identity {
    pub texts: Arc<Texts>,
    pub pair: ServingPair,
    pub authority: Authority,
}

/// The PEM texts of an identity, as stored: its certificate, its key, and the authority's certificate.
pub type Texts = [String; 3];

/// The certificate of an authority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authority {
    der: CertificateDer<'static>,
    validity: Validity,
}

impl Identity {
    /// Parses an identity and verifies, as a client would, that the authority signed it for each of
    /// `names`. Does not check whether it is valid now.
    pub fn from_texts(texts: Texts, names: &[String]) -> Result<Self, CertificateError> {
        let [certificate, key, authority] = &texts;
        let pair = ServingPair::from_pem(certificate.as_bytes(), key.as_bytes())?;
        let authorities = Authority::all_in(authority.as_bytes());
        let Ok([authority]) = <[Authority; 1]>::try_from(authorities) else {
            let message = "the authority is not one certificate";
            return Err(CertificateError(message.to_owned()));
        };
        let accepted = check_as_client(&pair, &authority, names);
        accepted.map_err(|error| {
            CertificateError(format!("a client would reject the certificate: {error}"))
        })?;
        Ok(Self {
            texts: Arc::new(texts),
            pair,
            authority,
        })
    }

    /// Whether a client accepts it at the time `now`.
    pub fn is_valid_at(&self, now: Timestamp) -> bool {
        self.pair.validity().contains(now) && self.authority.validity.contains(now)
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
        write!(formatter, "Identity({})", self.pair.validity())
    }
}

impl Authority {
    /// The certificates in a bundle; invalid ones are omitted.
    pub fn all_in(bundle: &[u8]) -> Vec<Self> {
        let certificates = certificates(bundle).unwrap_or_default();
        let authority = |der: CertificateDer<'static>| {
            ParsedCertificate::try_from(&der).ok()?;
            Some(Self {
                validity: Validity::of(&der)?,
                der,
            })
        };
        certificates.into_iter().filter_map(authority).collect()
    }

    /// The certificate as a PEM block.
    pub fn to_pem(&self) -> String {
        pem::encode_config(
            &pem::Pem::new("CERTIFICATE", self.der.as_ref()),
            pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF),
        )
    }
}

fn check_as_client(
    pair: &ServingPair,
    authority: &Authority,
    names: &[String],
) -> Result<(), BoxError> {
    let key = pair.certified_key();
    let mut roots = RootCertStore::empty();
    roots.add(authority.der.clone())?;
    let provider = Arc::new(ring::default_provider());
    let client = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
    let began = u64::try_from(pair.validity().not_before.as_second()).unwrap_or_default();
    let began = UnixTime::since_unix_epoch(Duration::from_secs(began));
    let (leaf, intermediates) = key.cert.split_first().ok_or("there is none")?;
    for name in names {
        let server = ServerName::try_from(name.as_str())?;
        client.verify_server_cert(leaf, intermediates, &server, &[], began)?;
    }
    Ok(())
}

/// A new authority and serving certificate for `names` (DNS names or IP addresses).
///
/// # Errors
/// A name is not valid in a certificate, or the clock is not between the years 1970 and 9999.
pub(super) fn issue(names: &[String], now: Timestamp) -> Result<Identity, CertificateError> {
    let texts = texts(names, now);
    let texts = texts.map_err(|error| {
        CertificateError(format!("cannot create a certificate at {now}: {error}"))
    });
    Identity::from_texts(texts?, names)
}

fn texts(names: &[String], now: Timestamp) -> Result<Texts, BoxError> {
    let validity = Validity {
        not_before: now.checked_sub(BACKDATED)?,
        not_after: now.checked_add(LIFE)?,
    };
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
    validity: Validity,
) -> Result<CertificateParams, BoxError> {
    // rcgen has dates of the crate `time`, and one function that makes them.
    let date = |at: Timestamp| {
        let since_1970 = Duration::from_secs(u64::try_from(at.as_second())?);
        Ok::<_, BoxError>(date_time_ymd(1970, 1, 1) + since_1970)
    };
    let mut parameters = CertificateParams::new(names)?;
    parameters.distinguished_name = DistinguishedName::new();
    parameters
        .distinguished_name
        .push(DnType::CommonName, subject);
    parameters.not_before = date(validity.not_before)?;
    parameters.not_after = date(validity.not_after)?;
    Ok(parameters)
}

#[cfg(test)]
pub(super) mod tests;
