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
use tower::BoxError;

/// A chain and its key, ready to be served.
#[derive(Debug, Clone)]
pub struct ServingPair {
    /// The key and chain for rustls.
    pub key: Arc<CertifiedKey>,
    /// The validity period of the server's own certificate.
    pub validity: Validity,
}

impl ServingPair {
    /// Reads a chain, the server's own certificate first, and its key: PKCS#8, PKCS#1 or SEC1. Ignores
    /// text around the PEM blocks. Does not check dates.
    ///
    /// # Errors
    /// A text is not PEM, has no certificate or no unencrypted key, or they do not match. The error
    /// contains no part of a text, which may be a private key: some tools write both into one file.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, BoxError> {
        let chain = certificates(chain)?;
        let leaf = chain.first().ok_or(NO_CERTIFICATE)?;
        let validity = Validity::of(leaf).ok_or(UNREADABLE)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| match error {
            pem::Error::NoItemsFound => NO_KEY,
            _ => KEY_NOT_PEM,
        })?;
        let provider = ring::default_provider();
        let key = CertifiedKey::from_der(chain, key, &provider).map_err(|error| match error {
            TlsError::InconsistentKeys(InconsistentKeys::KeyMismatch) => MISMATCH.to_owned(),
            error => format!("{UNUSABLE}: {error}"),
        })?;
        // As in each handshake: a damaged RSA key may be parsed and match its certificate, but fail to sign.
        let algorithms = provider.signature_verification_algorithms;
        let signer = key.key.choose_scheme(&algorithms.supported_schemes());
        let signature = signer.ok_or(UNUSABLE)?.sign(b"any message");
        signature.map_err(|error| format!("{UNUSABLE}: {error}"))?;
        Ok(Self {
            key: Arc::new(key),
            validity,
        })
    }
}

const NO_CERTIFICATE: &str = "the file contains no certificate";
const NO_KEY: &str = "the file contains no unencrypted private key (PKCS#8, PKCS#1 or SEC1)";
const NOT_PEM: &str = "the certificate is not PEM; is a block on one line, or not closed?";
const KEY_NOT_PEM: &str = "the private key is not PEM; is it on one line, or not closed?";
const UNREADABLE: &str =
    "the certificate cannot be read, or its dates do not have the form of RFC 5280";
const MISMATCH: &str = "the private key does not match the certificate";
const UNUSABLE: &str = "the certificate or its private key cannot be used";

/// All certificates of a PEM text.
///
/// # Errors
/// A block is not closed or not base64.
pub(super) fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, BoxError> {
    let certificates = CertificateDer::pem_slice_iter(text).collect::<Result<_, _>>();
    certificates.map_err(|_| NOT_PEM.into())
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
            // `TBSCertificate`: version (absent in version 1), serial number, signature algorithm, issuer,
            // validity.
            let mut fields = inside(&mut inside(&mut SliceReader::new(certificate)?)?)?;
            if Tag::peek(&fields)?.is_context_specific() {
                AnyRef::decode(&mut fields)?;
            }
            for _ in ["serial number", "signature algorithm", "issuer"] {
                AnyRef::decode(&mut fields)?;
            }
            let mut dates = inside(&mut fields)?;
            der::Result::Ok(Self {
                not_before: date(&mut dates)?,
                not_after: date(&mut dates)?,
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
