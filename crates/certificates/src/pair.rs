//! A certificate chain and its private key in PEM, validated to match, and the validity period of a
//! certificate. Pure; independent of the source.

use std::fmt;
use std::sync::Arc;

use der::asn1::{AnyRef, GeneralizedTime, UtcTime};
use der::{Decode as _, SliceReader, Tag};
use jiff::Timestamp;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error as TlsError, InconsistentKeys};

/// A chain and its key, ready to be served.
#[derive(Debug, Clone)]
pub struct ServingPair {
    key: Arc<CertifiedKey>,
    validity: Validity,
}

/// Why a certificate cannot be used or made. It contains no part of a key.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct CertificateError(pub(super) String);

impl ServingPair {
    /// Reads a chain, the server's own certificate first, and its key: PKCS#8, PKCS#1 or SEC1. Ignores
    /// text around the PEM blocks. Does not check dates.
    ///
    /// # Errors
    /// A text is not PEM, has no certificate or no unencrypted key, or they do not match.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, CertificateError> {
        let chain = certificates(chain)?;
        let leaf = chain.first();
        let leaf = leaf.ok_or_else(|| CertificateError(NO_CERTIFICATE.to_owned()))?;
        let validity = Validity::of(leaf);
        let validity = validity.ok_or_else(|| CertificateError(UNREADABLE.to_owned()))?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| match error {
            pem::Error::NoItemsFound => CertificateError(NO_KEY.to_owned()),
            error => not_pem("private key", &error),
        })?;
        let key = CertifiedKey::from_der(chain, key, &ring::default_provider());
        let key = key.and_then(|key| sign_once(&key).map(|()| key));
        let key = key.map_err(|error| {
            CertificateError(match error {
                TlsError::InconsistentKeys(InconsistentKeys::KeyMismatch) => MISMATCH.to_owned(),
                TlsError::InvalidCertificate(_) => UNREADABLE.to_owned(),
                error => format!("the private key cannot be used: {error}"),
            })
        })?;
        Ok(Self {
            key: Arc::new(key),
            validity,
        })
    }

    /// The validity period of the server's own certificate.
    pub fn validity(&self) -> Validity {
        self.validity
    }

    /// The key and chain for rustls.
    pub fn certified_key(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.key)
    }
}

const NO_CERTIFICATE: &str = "the file contains no certificate";
const NO_KEY: &str = "the file contains no unencrypted private key (PKCS#8, PKCS#1 or SEC1)";
const UNREADABLE: &str =
    "the certificate cannot be read, or its dates do not have the form of RFC 5280";
const MISMATCH: &str = "the private key does not match the certificate";

/// Also of a certificate without a part of the text: some tools write the key into the same file.
fn not_pem(what: &str, error: &pem::Error) -> CertificateError {
    CertificateError(format!("the {what} is not PEM: {}", pem_problem(error)))
}

/// What is wrong with a text that is not PEM, without a part of it: the messages of `pem::Error` contain
/// bytes of the text, which may be a private key, and errors are logged.
pub(crate) fn pem_problem(error: &pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { .. } => "a block is not closed; is it on one line?".into(),
        pem::Error::IllegalSectionStart { .. } => {
            "a block begins wrongly; is it on one line?".into()
        }
        pem::Error::Base64Decode(_) => "a block is not base64".into(),
        pem::Error::NoItemsFound => "it has no block".into(),
        pem::Error::Io(error) => error.to_string(),
        _ => "it cannot be read".into(),
    }
}

/// Signs once, as each handshake does: a damaged RSA key may be parsed and match its certificate, but
/// fail to sign.
fn sign_once(key: &CertifiedKey) -> Result<(), TlsError> {
    let provider = ring::default_provider();
    let schemes = provider
        .signature_verification_algorithms
        .supported_schemes();
    let signer = key
        .key
        .choose_scheme(&schemes)
        .ok_or_else(|| TlsError::General("it signs by no scheme that clients take".to_owned()))?;
    signer.sign(b"any message").map(drop)
}

/// All certificates of a PEM text.
///
/// # Errors
/// A block is not closed or not base64.
pub(super) fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    CertificateDer::pem_slice_iter(text)
        .collect::<Result<_, _>>()
        .map_err(|error| not_pem("certificate", &error))
}

/// The validity period of a certificate in seconds, both ends included, read from its DER (RFC 5280
/// §4.1.2.5). Reads only what leads to these two dates; rustls checks the rest before it is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// First second.
    pub not_before: Timestamp,
    /// Last second.
    pub not_after: Timestamp,
}

impl Validity {
    /// Reads it from a certificate in DER. `None` if that is no DER, or a date is not valid or before 1970.
    pub fn of(certificate: &[u8]) -> Option<Self> {
        let read = || {
            let mut certificate = inside(&mut SliceReader::new(certificate)?)?;
            // `TBSCertificate`: version (absent in version 1), serial number, signature algorithm, issuer,
            // validity.
            let mut fields = inside(&mut certificate)?;
            if Tag::peek(&fields)?.is_context_specific() {
                AnyRef::decode(&mut fields)?;
            }
            for _ in ["serial number", "signature algorithm", "issuer"] {
                AnyRef::decode(&mut fields)?;
            }
            let mut dates = inside(&mut fields)?;
            let (not_before, not_after) = (date(&mut dates)?, date(&mut dates)?);
            der::Result::Ok(Self {
                not_before,
                not_after,
            })
        };
        read().ok()
    }

    /// Whether `now` is within the period.
    pub fn contains(&self, now: Timestamp) -> bool {
        self.not_before <= now && now <= self.not_after
    }
}

impl fmt::Display for Validity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = (self.not_before, self.not_after);
        write!(formatter, "valid from {from} to {to}")
    }
}

/// The content of the next value.
fn inside<'a>(reader: &mut SliceReader<'a>) -> der::Result<SliceReader<'a>> {
    SliceReader::new(AnyRef::decode(reader)?.value())
}

fn date(dates: &mut SliceReader<'_>) -> der::Result<Timestamp> {
    let since_1970 = match Tag::peek(dates)? {
        Tag::UtcTime => UtcTime::decode(dates)?.to_unix_duration(),
        _ => GeneralizedTime::decode(dates)?.to_unix_duration(),
    };
    // `99991231235959Z` is the end of a certificate without one (RFC 5280 §4.1.2.5). A `Timestamp` ends a day
    // earlier.
    let date = Timestamp::UNIX_EPOCH.checked_add(since_1970);
    Ok(date.unwrap_or(Timestamp::MAX))
}

#[cfg(test)]
mod tests;
