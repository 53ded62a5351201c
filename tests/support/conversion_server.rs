//! A server of `/convert` for tests of everything around it, at a URL of its own: the
//! conversion is the real one, the server is as small as it can be. It can be away for a
//! while, hold its answers back, and tell how often it was asked.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::{Body, to_bytes};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use k8s_openapi::ByteString;
use quartet_operator::api::conversion::convert;
use quartet_operator::operators::OPERATORS;
use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// Answers beyond this number are held back; this one is never reached.
const NO_LIMIT: u64 = u64::MAX;

/// A running server; it ends when dropped.
pub(crate) struct ConversionServer {
    address: SocketAddr,
    certificate: String,
    acceptor: TlsAcceptor,
    state: Arc<State>,
    /// The listener and its connections; none while the server is away.
    running: Option<tokio::task::JoinHandle<()>>,
}

struct State {
    calls: AtomicU64,
    limit: watch::Sender<u64>,
}

impl ConversionServer {
    /// A server on a free port of the loopback address.
    pub(crate) async fn start() -> Self {
        let key = KeyPair::generate().expect("a key");
        let names = vec!["127.0.0.1".to_owned()];
        let certificate = CertificateParams::new(names)
            .and_then(|parameters| parameters.self_signed(&key))
            .expect("a certificate");
        let private = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("TLS versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], private)
            .expect("a certificate with its key");
        let mut server = Self {
            address: ([127, 0, 0, 1], 0).into(),
            certificate: certificate.pem(),
            acceptor: TlsAcceptor::from(Arc::new(config)),
            state: Arc::new(State {
                calls: AtomicU64::new(0),
                limit: watch::Sender::new(NO_LIMIT),
            }),
            running: None,
        };
        server.come_back().await;
        server
    }

    /// `spec.conversion` of a CRD that is converted here.
    pub(crate) fn clause(&self) -> Value {
        json!({"strategy": "Webhook", "webhook": {
            "clientConfig": {
                "url": format!("https://{}/convert", self.address),
                "caBundle": ByteString(self.certificate.clone().into_bytes()),
            },
            "conversionReviewVersions": ["v1"],
        }})
    }

    /// How many calls came in.
    pub(crate) fn calls(&self) -> u64 {
        self.state.calls.load(Ordering::Relaxed)
    }

    /// How many calls wait for their answer.
    pub(crate) fn calls_held(&self) -> u64 {
        self.calls().saturating_sub(*self.state.limit.borrow())
    }

    /// Answers so many more calls, and lets those after them wait.
    pub(crate) fn hold_after(&self, calls: u64) {
        self.state.limit.send_replace(self.calls() + calls);
    }

    /// Answers everybody.
    pub(crate) fn release(&self) {
        self.state.limit.send_replace(NO_LIMIT);
    }

    /// Closes port and connections.
    pub(crate) async fn go_away(&mut self) {
        if let Some(running) = self.running.take() {
            running.abort();
            let _ = running.await;
        }
    }

    /// Listens again, where it did before.
    pub(crate) async fn come_back(&mut self) {
        let listener = TcpListener::bind(self.address).await.expect("a port");
        self.address = listener.local_addr().expect("its address");
        let (acceptor, state) = (self.acceptor.clone(), Arc::clone(&self.state));
        self.running = Some(tokio::spawn(accept(listener, acceptor, state)));
    }
}

impl Drop for ConversionServer {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.abort();
        }
    }
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, state: Arc<State>) {
    let mut connections = JoinSet::new(); // aborted with this task
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        let (acceptor, state) = (acceptor.clone(), Arc::clone(&state));
        connections.spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else {
                return;
            };
            let service = hyper::service::service_fn(|request| answer(request, &state));
            let connection = hyper::server::conn::http1::Builder::new();
            let _ = connection
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn answer(
    request: hyper::Request<Incoming>,
    state: &State,
) -> Result<hyper::Response<Body>, Infallible> {
    let number = state.calls.fetch_add(1, Ordering::Relaxed);
    let mut limit = state.limit.subscribe();
    let _ = limit.wait_for(|limit| number < *limit).await;
    let body = to_bytes(Body::new(request.into_body()), usize::MAX).await;
    let review: Value = serde_json::from_slice(&body.unwrap_or_default()).unwrap_or_default();
    let answer = converted(&review["request"]).to_string();
    let mut response = hyper::Response::new(Body::from(answer));
    let json = hyper::header::HeaderValue::from_static("application/json");
    response
        .headers_mut()
        .insert(hyper::header::CONTENT_TYPE, json);
    Ok(response)
}

fn converted(request: &Value) -> Value {
    let objects = request["objects"].as_array().cloned().unwrap_or_default();
    let desired = request["desiredAPIVersion"].as_str().unwrap_or_default();
    let converted: Result<Vec<_>, _> = objects
        .into_iter()
        .map(|object| one(object, desired))
        .collect();
    let mut response = json!({"uid": request["uid"], "result": {"status": "Success"}});
    match converted {
        Ok(objects) => response["convertedObjects"] = objects.into(),
        Err(message) => response["result"] = json!({"status": "Failure", "message": message}),
    }
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": response})
}

fn one(object: Value, desired: &str) -> Result<Value, String> {
    let (group, version) = desired.split_once('/').unwrap_or_default();
    let mut kinds = OPERATORS.iter().map(|operator| operator.kind());
    let kind = kinds
        .find(|kind| kind.group == group && object["kind"] == kind.kind)
        .ok_or_else(|| format!("no kind of ours: {desired}"))?;
    let version = kind
        .version(version)
        .ok_or_else(|| format!("no version: {desired}"))?;
    let converted = convert(kind, object, version).map_err(|error| error.to_string())?;
    Ok(converted.object)
}
