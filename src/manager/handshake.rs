//! Checks the webhook listener: a TLS handshake on loopback, as by the API server. The names in the
//! certificate are not checked here; the API server checks them.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use super::health::CheckResult;

/// Timeout; the default timeout of a kubelet probe is a second.
const TIMEOUT: Duration = Duration::from_millis(800);

/// How long the result of a handshake is that of other requests, too: anybody may ask for `/readyz`, and
/// a handshake costs much more than the request.
const SHARED: Duration = Duration::from_millis(500);

/// A check by handshakes with the listener at `port`, whose results requests share.
#[derive(Debug, Default)]
pub(super) struct Handshakes {
    port: u16,
    /// Held during a handshake, so that others wait for its result.
    last: Mutex<Option<(Instant, CheckResult)>>,
}

impl Handshakes {
    pub(super) fn with(port: u16) -> Self {
        Self {
            port,
            ..Self::default()
        }
    }

    /// The result of a handshake that is not older than [`SHARED`].
    pub(super) async fn check(&self) -> CheckResult {
        let mut last = self.last.lock().await;
        if let Some((at, result)) = last.as_ref()
            && at.elapsed() < SHARED
        {
            return result.clone();
        }
        let result = handshake(self.port).await;
        *last = Some((Instant::now(), result.clone()));
        result
    }
}

/// Performs a TLS handshake with the listener at `port` of this machine.
async fn handshake(port: u16) -> CheckResult {
    let attempt = async {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        let connector = TlsConnector::from(Arc::new(client().map_err(io::Error::other)?));
        let name = ServerName::from(Ipv4Addr::LOCALHOST);
        connector.connect(name, stream).await.map(drop)
    };
    match timeout(TIMEOUT, attempt).await {
        Ok(ended) => ended.map_err(|error| error.to_string()),
        Err(_elapsed) => Err(format!("no handshake on port {port} within {TIMEOUT:?}")),
    }
}

fn client() -> Result<ClientConfig, Error> {
    let provider = Arc::new(ring::default_provider());
    let verifier = Arc::new(AnyName(provider.signature_verification_algorithms));
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(config
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth())
}

/// Accepts every certificate whose key signed the handshake.
#[derive(Debug)]
struct AnyName(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::{Duration, Handshakes, SHARED, handshake};

    #[tokio::test]
    async fn requests_at_the_same_time_share_a_handshake_and_its_result() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let checks = Handshakes::with(listener.local_addr().unwrap().port());
        let accepted = async {
            for _ in 0..2 {
                let (stream, _) = listener.accept().await.unwrap();
                drop(stream);
            }
            let more = tokio::time::timeout(Duration::from_millis(50), listener.accept());
            assert!(more.await.is_err(), "one handshake for each moment");
        };
        let asked = async {
            for _ in 0..2 {
                let (one, other) = tokio::join!(checks.check(), checks.check());
                assert!(one.is_err() && one == other);
                tokio::time::sleep(SHARED).await;
            }
        };
        tokio::join!(accepted, asked);
    }

    #[tokio::test]
    async fn a_port_where_nobody_listens_or_nobody_speaks_tls_fails() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            // Accepts the connection and closes it.
            drop(listener.accept().await);
        });
        assert!(handshake(port).await.is_err());
        assert!(handshake(port).await.is_err(), "nobody listens any more");
    }
}
