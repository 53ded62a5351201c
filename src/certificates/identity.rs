//! A serving certificate and the authority that clients must trust for it, with the times of their use.
//! Pure; creation is in `issue`, storage in `contents`.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use tower::BoxError;

use super::pair::{CertificateError, ServingPair, certificates};
use super::validity::Validity;

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

    /// Whether it has expired at `now`.
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.validity.not_after < now
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

#[cfg(test)]
mod tests {
    use super::super::issue::tests::pair_for;
    use super::*;

    /// The API server rejects a caBundle with such a certificate, and so every write of it.
    #[test]
    fn an_authority_whose_dates_alone_are_valid_is_omitted() {
        let at = |text: &str| text.parse().unwrap();
        let (chain, _) = pair_for(
            "localhost",
            at("2026-01-01T00:00:00Z"),
            at("2027-01-01T00:00:00Z"),
        );
        let good = certificates(chain.as_bytes()).unwrap().remove(0);
        let mut bytes = good.to_vec();
        let (length, bit_string, octet_string) = (bytes.len(), 0x03, 0x04);
        let is_signature =
            |&at: &usize| bytes[at] == bit_string && at + 2 + usize::from(bytes[at + 1]) == length;
        let signature = (0..length - 2).find(is_signature).unwrap();
        bytes[signature] = octet_string;
        assert!(Validity::of(&bytes).is_some());
        let bad = pem::encode(&pem::Pem::new("CERTIFICATE", bytes));
        let found = Authority::all_in(format!("{bad}\n{chain}").as_bytes());
        let found: Vec<_> = found.iter().map(|it| it.der.clone()).collect();
        assert_eq!(found, [good]);
    }
}
