//! The yardstick: a TLS server of the same crates as the manager's (axum, hyper, rustls with
//! ring) that does no work. What it takes is what transport takes on this machine, now.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderValue, header};
use axum::response::IntoResponse;
use axum::routing::post;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::NoServerSessionStorage;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tower::Service as _;

/// Answers every body with a short one, as long as that of an admission review.
pub(crate) const FIXED_PATH: &str = "/fixed";
/// Answers every body with itself.
pub(crate) const ECHO_PATH: &str = "/echo";

const FIXED: &[u8] = br#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"705ab4f5-6393-11e8-b7cc-42010a800002","allowed":true}}"#;
/// As in the manager.
const BODY_LIMIT: usize = 64 * 1024 * 1024;
/// As in the manager.
const MAX_THREADS: usize = 4;

/// Serves on `address`, with `tls.crt` and `tls.key` of the folder `certificates`, until the
/// process is ended.
pub(crate) fn serve(address: SocketAddr, certificates: &Path) -> io::Result<Infallible> {
    let config = Arc::new(config(certificates)?);
    let cores = std::thread::available_parallelism()?.get();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores.min(MAX_THREADS))
        .enable_all()
        .build()?;
    runtime.block_on(accept(address, TlsAcceptor::from(config)))
}

/// A server's side of TLS, with `tls.crt` and `tls.key` of `folder`.
pub(crate) fn config(folder: &Path) -> io::Result<ServerConfig> {
    let certificate =
        CertificateDer::from_pem_file(folder.join("tls.crt")).map_err(io::Error::other)?;
    let key = PrivateKeyDer::from_pem_file(folder.join("tls.key")).map_err(io::Error::other)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| {
            builder
                .with_no_client_auth()
                .with_single_cert(vec![certificate], key)
        })
        .map_err(io::Error::other)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(config)
}

async fn accept(address: SocketAddr, tls: TlsAcceptor) -> io::Result<Infallible> {
    let listener = TcpListener::bind(address).await?;
    let router = Router::new()
        .route(
            FIXED_PATH,
            post(async |_: Bytes| json(Bytes::from_static(FIXED))),
        )
        .route(ECHO_PATH, post(async |body: Bytes| json(body)))
        .layer(axum::extract::DefaultBodyLimit::max(BODY_LIMIT));
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(connection(stream, tls.clone(), router.clone()));
    }
}

fn json(body: Bytes) -> impl IntoResponse {
    let json = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, json)], body)
}

async fn connection(stream: TcpStream, tls: TlsAcceptor, router: Router) {
    let _ = stream.set_nodelay(true);
    let Ok(stream) = tls.accept(stream).await else {
        return; // Also those that only begin a handshake.
    };
    let service = service_fn(|request| router.clone().call(request));
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}
