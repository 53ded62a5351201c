//! A certificate chain and its private key in PEM, validated to match. Pure; independent of the source.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error as TlsError, InconsistentKeys, SignatureScheme};

use super::validity::Validity;

/// A chain and its key, ready to be served.
#[derive(Debug, Clone)]
pub struct ServingPair {
    key: Arc<CertifiedKey>,
    validity: Validity,
}

/// Why a chain and a key are not valid.
#[derive(Debug, thiserror::Error)]
pub enum PairError {
    /// One of the texts is not valid PEM.
    #[error("the {what} is not PEM: {problem}")]
    Pem {
        /// `certificate` or `private key`.
        what: &'static str,
        /// The cause, without a part of the text.
        problem: String,
    },
    /// The first text contains no certificate.
    #[error("the file contains no certificate")]
    NoCertificate,
    /// The second text contains no key, or an encrypted one.
    #[error("the file contains no unencrypted private key (PKCS#8, PKCS#1 or SEC1)")]
    NoKey,
    /// The content of a CERTIFICATE block is not a certificate with dates as in RFC 5280.
    #[error("the certificate cannot be read, or its dates do not have the form of RFC 5280")]
    Certificate,
    /// The key is not valid, or cannot sign.
    #[error("the private key cannot be used")]
    Key(#[source] TlsError),
    /// Both are valid, but do not match.
    #[error("the private key does not match the certificate")]
    Mismatch,
}

impl ServingPair {
    /// Reads a chain, the server's own certificate first, and its key: PKCS#8, PKCS#1 or SEC1. Ignores
    /// text around the PEM blocks. Does not check dates.
    ///
    /// # Errors
    /// [`PairError`]
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, PairError> {
        let chain = certificates(chain)?;
        let leaf = chain.first().ok_or(PairError::NoCertificate)?;
        let validity = Validity::of(leaf).ok_or(PairError::Certificate)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| match error {
            pem::Error::NoItemsFound => PairError::NoKey,
            error => PairError::not_pem("private key", &error),
        })?;
        let key =
            CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(|error| {
                match error {
                    TlsError::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                        PairError::Mismatch
                    }
                    TlsError::InvalidCertificate(_) => PairError::Certificate,
                    error => PairError::Key(error),
                }
            })?;
        sign_once(&key).map_err(PairError::Key)?;
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

impl PairError {
    /// Of the certificate, too: some tools write the key into the same file.
    fn not_pem(what: &'static str, error: &pem::Error) -> Self {
        let problem = pem_problem(error);
        Self::Pem { what, problem }
    }
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
    const SCHEMES: [SignatureScheme; 4] = [
        SignatureScheme::ECDSA_NISTP256_SHA256,
        SignatureScheme::ECDSA_NISTP384_SHA384,
        SignatureScheme::RSA_PSS_SHA256,
        SignatureScheme::ED25519,
    ];
    let signer = key
        .key
        .choose_scheme(&SCHEMES)
        .ok_or_else(|| TlsError::General("it signs by no scheme that clients take".to_owned()))?;
    signer.sign(b"any message").map(|_| ())
}

/// All certificates of a PEM text.
///
/// # Errors
/// A block is not closed or not base64.
pub(super) fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, PairError> {
    CertificateDer::pem_slice_iter(text)
        .collect::<Result<_, _>>()
        .map_err(|error| PairError::not_pem("certificate", &error))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::issue::tests::pair;
    use super::*;
    use quartet_http::error_report;

    fn rejected(chain: &str, key: &str) -> PairError {
        ServingPair::from_pem(chain.as_bytes(), key.as_bytes()).unwrap_err()
    }

    #[test]
    fn keys_of_every_notation_are_read() {
        for (name, chain, key) in [
            (
                "PKCS#8, EC",
                include_str!("testdata/ec.crt"),
                include_str!("testdata/ec.pkcs8.key"),
            ),
            (
                "SEC1 after its parameters",
                include_str!("testdata/ec.crt"),
                include_str!("testdata/ec.sec1.key"),
            ),
            (
                "PKCS#8, RSA",
                include_str!("testdata/rsa.crt"),
                include_str!("testdata/rsa.pkcs8.key"),
            ),
            (
                "PKCS#1",
                include_str!("testdata/rsa.crt"),
                include_str!("testdata/rsa.pkcs1.key"),
            ),
        ] {
            let read = ServingPair::from_pem(chain.as_bytes(), key.as_bytes());
            assert!(read.is_ok(), "{name}: {read:?}");
        }
    }

    #[test]
    fn a_key_that_is_read_but_cannot_sign_is_rejected() {
        let (chain, key) = (
            include_str!("testdata/rsa.crt"),
            include_str!("testdata/rsa.damaged.key"),
        );
        assert!(matches!(rejected(chain, key), PairError::Key(_)));
    }

    #[test]
    fn a_chain_is_served_whole_and_judged_by_its_first_certificate() {
        let (leaf, key) = pair();
        let chain = format!(
            "subject=a comment\n{leaf}\n{}",
            include_str!("testdata/rsa.crt")
        );
        let read = ServingPair::from_pem(chain.as_bytes(), key.as_bytes()).unwrap();
        assert_eq!(read.certified_key().cert.len(), 2);
        let alone = ServingPair::from_pem(leaf.as_bytes(), key.as_bytes()).unwrap();
        assert_eq!(read.validity(), alone.validity());
    }

    #[test]
    fn each_error_has_its_own_variant() {
        let (chain, key) = pair();
        let (_, other) = pair();
        assert!(matches!(rejected("", &key), PairError::NoCertificate));
        assert!(matches!(rejected(&key, &key), PairError::NoCertificate));
        assert!(matches!(rejected(&chain, ""), PairError::NoKey));
        assert!(matches!(rejected(&chain, &chain), PairError::NoKey));
        assert!(matches!(rejected(&chain, &other), PairError::Mismatch));
        let rsa = include_str!("testdata/rsa.pkcs1.key");
        assert!(matches!(rejected(&chain, rsa), PairError::Mismatch));
        let cut = &chain[..chain.len() / 2];
        assert!(matches!(rejected(cut, &key), PairError::Pem { .. }));
        let empty = "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n";
        assert!(matches!(rejected(empty, &key), PairError::Certificate));
        let no_key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        assert!(matches!(rejected(&chain, no_key), PairError::Key(_)));
        let encrypted = key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
        assert!(matches!(rejected(&chain, &encrypted), PairError::NoKey));
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
            for error in [rejected(&chain, &bad), rejected(&bad, &key)] {
                assert!(matches!(error, PairError::Pem { .. }), "{error:?}");
                let report = format!("{} {error:?}", error_report(&error));
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
}
