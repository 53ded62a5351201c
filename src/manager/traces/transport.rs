//! Sends batches of spans to the collector with hyper and rustls, as the other clients here. (The
//! client of opentelemetry-http links HTTP/2.) The SDK's thread runs no reactor, so the requests run on
//! the runtime of the process.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::body::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use opentelemetry_http::{HttpClient, HttpError, Request, Response};
use parking_lot::Mutex;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::{ClientConfig, RootCertStore};
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::settings::{Settings, TracesError};
use crate::certificates::pem_problem;
use quartet_http::error_report;

/// Longest wait for a TCP connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of a response; collectors send short ones.
const RESPONSE_BYTES: usize = 64 * 1024;

/// Why the last request failed; `None` if it did not. The SDK replaces the error by a text without a reason.
pub(super) type LastError = Arc<Mutex<Option<String>>>;

/// Posts batches.
#[derive(Debug)]
pub(super) struct Transport {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    /// Time limit of a request and its response.
    timeout: Duration,
    runtime: Handle,
    last_error: LastError,
}

#[async_trait]
impl HttpClient for Transport {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (client, limit) = (self.client.clone(), self.timeout);
        let exchange = async move {
            let response = client.request(request.map(Full::new)).await?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, RESPONSE_BYTES).collect().await?;
            Ok(Response::from_parts(head, body.to_bytes()))
        };
        let exchange = async move { timeout(limit, exchange).await? };
        let exchange = self.runtime.spawn(exchange).await;
        let response: Result<_, HttpError> = exchange.unwrap_or_else(|error| Err(error.into()));
        let error = response.as_ref().err();
        *self.last_error.lock() = error.map(|error| error_report(&**error));
        response
    }
}

impl Transport {
    /// A transport that trusts the CA certificates of `settings`.
    ///
    /// # Errors
    /// [`TracesError`]
    pub(super) fn new(
        settings: &Settings,
        runtime: Handle,
        last_error: LastError,
    ) -> Result<Self, TracesError> {
        let provider = Arc::new(ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(authorities(settings)?)
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
        Ok(Self {
            client,
            timeout: settings.timeout,
            runtime,
            last_error,
        })
    }
}

fn authorities(settings: &Settings) -> Result<RootCertStore, TracesError> {
    let mut trusted = RootCertStore::empty();
    if let Some(file) = &settings.authorities {
        let unusable = |error| TracesError::Authorities {
            file: file.clone(),
            problem: pem_problem(&error),
        };
        let certificates = CertificateDer::pem_file_iter(file).map_err(unusable)?;
        for certificate in certificates {
            trusted.add(certificate.map_err(unusable)?)?;
        }
        if trusted.is_empty() {
            return Err(unusable(pem::Error::NoItemsFound));
        }
    } else if settings.endpoint.scheme_str() == Some("https") {
        // rustls may not accept all certificates in the system's list.
        trusted.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    Ok(trusted)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// Sends a request from a thread without a reactor, as the SDK does, to a collector that responds
    /// with `response`, or not at all.
    async fn send(response: Option<String>) -> Result<Response<Bytes>, HttpError> {
        let timeout = Duration::from_millis(if response.is_some() { 10_000 } else { 100 });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1/traces", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            if let Some(response) = response {
                let _ = stream.read(&mut [0; 4096]).await;
                let _ = stream.write_all(response.as_bytes()).await;
            }
            std::future::pending::<()>().await;
        });
        let settings = Settings {
            endpoint: url.parse().unwrap(),
            timeout,
            authorities: None,
        };
        let transport = Transport::new(&settings, Handle::current(), LastError::default()).unwrap();
        let request = Request::post(url)
            .body(Bytes::from_static(b"spans"))
            .unwrap();
        let sent = std::thread::spawn(move || {
            let executor = tokio::runtime::Builder::new_current_thread().build();
            executor.unwrap().block_on(transport.send_bytes(request))
        });
        tokio::task::spawn_blocking(move || sent.join().unwrap())
            .await
            .unwrap()
    }

    #[tokio::test]
    async fn a_request_is_sent_from_a_thread_without_a_reactor() {
        let response = "HTTP/1.1 202 Accepted\r\ncontent-length: 2\r\n\r\nok";
        let response = send(Some(response.to_owned())).await.unwrap();
        assert_eq!(
            (response.status().as_u16(), &response.body()[..]),
            (202, &b"ok"[..])
        );
    }

    #[tokio::test]
    async fn a_collector_that_does_not_respond_is_not_waited_for() {
        assert!(
            send(None)
                .await
                .unwrap_err()
                .to_string()
                .contains("elapsed")
        );
    }

    #[tokio::test]
    async fn a_long_response_is_an_error() {
        let long = "x".repeat(RESPONSE_BYTES + 1);
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", long.len());
        let error = send(Some(head + &long)).await.unwrap_err().to_string();
        assert!(error.contains("limit"), "{error}");
    }
}
