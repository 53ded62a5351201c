//! The files of a serving certificate, possibly read during a write: a usable pair, or an error. An
//! input is `tls.crt`, a line `%`, and `tls.key`; one that begins with a DER SEQUENCE is encoded as
//! PEM first, because mutations would otherwise not get past base64.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pem::Pem;
use quartet_certificates::{ServingPair, Validity};
use rustls::SignatureScheme;

const CERTIFICATE: &str = include_str!("../../crates/certificates/src/testdata/ec.crt");
const KEY: &str = include_str!("../../crates/certificates/src/testdata/ec.pkcs8.key");

const SEPARATOR: &[u8] = b"\n%\n";
const SEQUENCE: u8 = 0x30;

fuzz_target!(|input: &[u8]| {
    if input.first() == Some(&SEQUENCE) {
        let _ = Validity::of(input);
        let text = |label: &str| pem::encode(&Pem::new(label, input));
        check(text("CERTIFICATE").as_bytes(), KEY.as_bytes());
        for label in ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"] {
            check(CERTIFICATE.as_bytes(), text(label).as_bytes());
        }
        return;
    }
    let split = input
        .windows(SEPARATOR.len())
        .position(|window| window == SEPARATOR);
    match split {
        Some(at) => check(&input[..at], &input[at + SEPARATOR.len()..]),
        // Some tools write both into one file.
        None => check(input, input),
    }
});

fn check(chain: &[u8], key: &[u8]) {
    match ServingPair::from_pem(chain, key) {
        Ok(pair) => {
            assert!(!pair.validity.to_string().is_empty());
            let served = pair.key;
            assert!(!served.cert.is_empty());
            let schemes = [
                SignatureScheme::ECDSA_NISTP256_SHA256,
                SignatureScheme::ECDSA_NISTP384_SHA384,
                SignatureScheme::RSA_PSS_SHA256,
                SignatureScheme::ED25519,
            ];
            let signer = served.key.choose_scheme(&schemes);
            let signed = signer.expect("a key signs by some scheme").sign(b"hello");
            assert!(signed.is_ok_and(|signature| !signature.is_empty()));
            let again = ServingPair::from_pem(chain, key).expect("is a pair");
            assert_eq!(again.validity, pair.validity);
        }
        Err(error) => {
            let mut messages = vec![error.to_string()];
            messages.extend(error.source().map(ToString::to_string));
            for message in messages {
                assert!(!message.is_empty());
                // Errors are logged: none has bytes of a file, which would be a list, or the text.
                assert!(!message.contains('[') && message.len() < 200, "{message}");
            }
        }
    }
}
