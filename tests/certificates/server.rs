//! A webhook server that presents the certificates of several replicas in turn, rejects objects
//! named `refused`, and converts by changing the apiVersion.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{Response, header};
use axum::routing::post;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use quartet_certificates::Resolver;
use rustls::ServerConfig;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// Presents the certificates of several replicas in turn, as a Service would.
#[derive(Debug, Default)]
pub(crate) struct Alternating {
    pub(crate) resolvers: Mutex<Vec<Arc<Resolver>>>,
    turn: AtomicUsize,
}

impl ResolvesServerCert for Alternating {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let resolvers = self.resolvers.lock().unwrap();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        resolvers.get(turn % resolvers.len().max(1))?.resolve(hello)
    }
}

/// Serves webhooks and closes each connection, so that each call has a handshake.
pub(crate) async fn serve(listener: TcpListener, resolvers: Arc<Alternating>) {
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_cert_resolver(resolvers);
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let router = Router::new()
        .route(
            "/validate",
            post(async |body: Bytes| answer(validate(&body))),
        )
        .route("/convert", post(async |body: Bytes| answer(convert(&body))));
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, router) = (acceptor.clone(), router.clone());
        tokio::spawn(async move {
            if let Ok(stream) = acceptor.accept(stream).await {
                let service = TowerToHyperService::new(router);
                let _ = http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            }
        });
    }
}

fn answer(review: Value) -> Response<Body> {
    Response::builder()
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::CONNECTION, "close")
        .body(Body::from(review.to_string()))
        .unwrap()
}

fn validate(body: &[u8]) -> Value {
    let review: Value = serde_json::from_slice(body).unwrap();
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": {
            "uid": review["request"]["uid"],
            "allowed": review["request"]["name"] != "refused",
            "status": {"message": "the test said no"},
        },
    })
}

fn convert(body: &[u8]) -> Value {
    let mut review: Value = serde_json::from_slice(body).unwrap();
    let mut objects = review["request"]["objects"].take();
    for object in objects.as_array_mut().unwrap() {
        object["apiVersion"] = review["request"]["desiredAPIVersion"].clone();
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "response": {
            "uid": review["request"]["uid"], "result": {"status": "Success"}, "convertedObjects": objects,
        },
    })
}
