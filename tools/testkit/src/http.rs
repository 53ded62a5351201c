//! HTTP requests to the servers of a manager: status code and body of a response.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, StreamOwned,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::{DEADLINE, load_factor};

/// The timeout of a readiness probe, as the kubelet's default.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// `GET path` over plain HTTP, on a new connection.
///
/// # Panics
/// If there is no response in time.
pub fn get(address: &str, path: &str) -> (u16, String) {
    exchange(connect(address), path, &[])
}

/// `GET path` over TLS without verification of the certificate, with more header lines.
///
/// # Panics
/// If there is no response in time.
pub fn get_tls(address: &str, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate))
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").expect("a name");
    let connection = ClientConnection::new(Arc::new(config), name).expect("a connection");
    exchange(
        StreamOwned::new(connection, connect(address)),
        path,
        headers,
    )
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    let patience = DEADLINE.mul_f64(load_factor());
    stream.set_read_timeout(Some(patience)).expect("a deadline");
    stream
}

/// HTTP/1.0: the response ends with the connection, and is not chunked.
fn exchange(mut stream: impl Read + Write, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
    let headers = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"));
    let headers: String = headers.collect();
    let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("a response");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    (code.expect("a status"), body.to_owned())
}

/// Returns the status code of a GET, as a probe; none if there is no response within a
/// second, on an idle machine.
pub async fn probe(address: SocketAddr, path: &str) -> Option<u16> {
    let asked = async {
        let mut stream = tokio::net::TcpStream::connect(address).await.ok()?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: probe\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        answer.split(' ').nth(1)?.parse().ok()
    };
    tokio::time::timeout(PROBE_TIMEOUT.mul_f64(load_factor()), asked)
        .await
        .ok()
        .flatten()
}

#[derive(Debug)]
struct AnyCertificate;

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify_tls12_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}
