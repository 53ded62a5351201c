//! Sends batches of spans to the collector with hyper and rustls, as the other clients here. (The
//! client of opentelemetry-http has features that link HTTP/2.)

use std::time::Duration;

use async_trait::async_trait;
use axum::body::{Body, Bytes, to_bytes};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use opentelemetry_http::{HttpClient, HttpError, Request, Response};
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::{ClientConfig, RootCertStore};

use super::TracesError;
use crate::config::Traces;

/// Longest wait for a TCP connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of a response; collectors send short ones.
const ANSWER_BYTES: usize = 64 * 1024;

/// Posts batches. The caller sets the timeout.
#[derive(Debug)]
pub(super) struct Transport(Client<HttpsConnector<HttpConnector>, Body>);

#[async_trait]
impl HttpClient for Transport {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let answer = self.0.request(request.map(Body::from)).await?;
        let (head, body) = answer.into_parts();
        let body = to_bytes(Body::new(body), ANSWER_BYTES).await?;
        Ok(Response::from_parts(head, body))
    }
}

impl Transport {
    /// A transport that trusts the CA certificates of `config`.
    ///
    /// # Errors
    /// [`TracesError`]
    pub(super) fn new(config: &Traces) -> Result<Self, TracesError> {
        let provider = std::sync::Arc::new(ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(authorities(config)?)
            .with_no_client_auth();
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_max_idle_per_host(1)
            .build(connector);
        Ok(Self(client))
    }
}

fn authorities(config: &Traces) -> Result<RootCertStore, TracesError> {
    let mut trusted = RootCertStore::empty();
    if let Some(file) = &config.authorities {
        let unusable = |source| TracesError::Authorities {
            file: file.clone(),
            source,
        };
        let certificates = CertificateDer::pem_file_iter(file).map_err(unusable)?;
        for certificate in certificates {
            trusted.add(certificate.map_err(unusable)?)?;
        }
        if trusted.is_empty() {
            return Err(unusable(pem::Error::NoItemsFound));
        }
    } else if config.endpoint.starts_with("https:") {
        // rustls may not accept all certificates in the system's list.
        trusted.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    Ok(trusted)
}
