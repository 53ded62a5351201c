//! TLS configuration: ring, version 1.2 or 1.3, HTTP/1.1 only. Independent of the source of the
//! certificates.

use std::str::FromStr;
use std::sync::Arc;

use axum_server::tls_rustls::RustlsConfig;
use rustls::crypto::ring;
use rustls::server::{NoServerSessionStorage, ResolvesServerCert};
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, SupportedProtocolVersion};

/// The minimum TLS version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2 and 1.3.
    Tls12,
    /// TLS 1.3 only.
    Tls13,
}

impl FromStr for TlsVersion {
    type Err = &'static str;

    /// Parses the names that the Kubernetes components accept, or the bare number.
    fn from_str(text: &str) -> Result<Self, &'static str> {
        match text {
            "VersionTLS12" | "1.2" => Ok(Self::Tls12),
            "VersionTLS13" | "1.3" => Ok(Self::Tls13),
            _ => Err("give VersionTLS12 or VersionTLS13"),
        }
    }
}

/// The TLS configuration of a server that resolves `certificates` at each handshake.
pub(super) fn config(
    certificates: Arc<dyn ResolvesServerCert>,
    minimum: TlsVersion,
) -> Result<RustlsConfig, rustls::Error> {
    let versions: &[&SupportedProtocolVersion] = match minimum {
        TlsVersion::Tls12 => &[&TLS13, &TLS12],
        TlsVersion::Tls13 => &[&TLS13],
    };
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions)?
        .with_no_client_auth()
        .with_cert_resolver(certificates);
    // API servers offer only HTTP/1.1 to webhooks (kubernetes#82090). HTTP/2, which had
    // denial-of-service bugs (CVE-2023-44487, RUSTSEC-2024-0332), is not linked in.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // API servers do not resume sessions, so a ticket only costs a write and memory.
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(RustlsConfig::from_config(Arc::new(config)))
}
