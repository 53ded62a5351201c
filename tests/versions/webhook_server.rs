//! The manager's webhook server in this process, at a URL of its own, for tests of its environment.
//! It can be stopped for a while, and returns its counters.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::ByteString;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use quartet_operator::packaging::kinds;
use quartet_versions::{Kind, Version};
use quartet_webhook::{Handlers, Metrics, Stopping, TlsVersion, serve};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// The URL of a webhook server, and the authority of its certificate.
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    /// PEM.
    pub(crate) authority: String,
}

impl Endpoint {
    /// Returns `spec.conversion` of a CRD for this server.
    pub(crate) fn conversion(&self) -> Value {
        json!({"strategy": "Webhook", "webhook": {
            "clientConfig": self.client_config("/convert"),
            "conversionReviewVersions": ["v1"],
        }})
    }

    /// Returns the configuration of our validating webhooks for this server.
    pub(crate) fn validation(&self) -> Value {
        let packaged = include_str!("../../config/webhook/manifests.yaml");
        let mut configuration: Value = serde_saphyr::from_str(packaged).expect("YAML");
        for webhook in configuration["webhooks"].as_array_mut().expect("webhooks") {
            let path = webhook["clientConfig"]["service"]["path"].take();
            webhook["clientConfig"] = self.client_config(path.as_str().expect("a path"));
            // The most, for a machine under load.
            webhook["timeoutSeconds"] = json!(30);
        }
        configuration
    }

    fn client_config(&self, path: &str) -> Value {
        json!({
            "url": format!("https://{}{path}", self.address),
            "caBundle": ByteString(self.authority.clone().into_bytes()),
        })
    }
}

type Serving = JoinHandle<std::io::Result<()>>;

/// A running server, stopped when dropped.
pub(crate) struct WebhookServer {
    pub(crate) endpoint: Endpoint,
    certificate: Arc<OneCertificate>,
    metrics: Metrics,
    registry: Registry,
    /// None while the server is stopped.
    running: Mutex<Option<Serving>>,
}

#[derive(Debug)]
struct OneCertificate(Arc<CertifiedKey>);

impl ResolvesServerCert for OneCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

impl WebhookServer {
    /// Starts a server on a free port of the loopback address, without a limit for the number of pods,
    /// because objects of the original operators must be writable.
    pub(crate) async fn start() -> Self {
        let issued = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()])
            .expect("a certificate");
        let key = PrivateKeyDer::try_from(issued.signing_key.serialize_der()).expect("a key");
        let key = rustls::crypto::ring::sign::any_supported_type(&key).expect("a key");
        let certified = CertifiedKey::new(vec![issued.cert.der().clone()], key);
        let mut registry = Registry::default();
        let server = Self {
            endpoint: Endpoint {
                address: ([127, 0, 0, 1], devcluster::free_port().expect("a port")).into(),
                authority: issued.cert.pem(),
            },
            certificate: Arc::new(OneCertificate(Arc::new(certified))),
            metrics: Metrics::register(&mut registry, "quartet_operator"),
            registry,
            running: Mutex::default(),
        };
        server.restart().await;
        server
    }

    /// Returns the sum of all series whose name and labels begin with this.
    fn counted(&self, prefix: &str) -> f64 {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("metrics");
        text.lines()
            .filter(|line| line.starts_with(prefix))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum()
    }

    /// Returns the number of converted objects so far.
    pub(crate) fn conversions(&self) -> f64 {
        self.counted("quartet_operator_conversions_total{")
    }

    /// Returns the number of decisions on objects of this kind in this version so far.
    pub(crate) fn decisions(&self, kind: &Kind, version: &Version) -> f64 {
        self.counted(&format!(
            "quartet_operator_admission_decisions_total{{kind=\"{}\",version=\"{}\",",
            kind.kind, version.name
        ))
    }

    /// Closes port and connections, as the exit of the process does.
    pub(crate) async fn stop_serving(&self) {
        let running = self.set_running(None);
        if let Some(running) = running {
            running.abort();
            let _ = running.await;
        }
    }

    fn set_running(&self, next: Option<Serving>) -> Option<Serving> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *running, next)
    }

    /// Listens again on the same port, which stayed reserved.
    pub(crate) async fn restart(&self) {
        let listener = TcpListener::bind(self.endpoint.address).await;
        let listener = listener.expect("a port");
        let stopping = Stopping {
            grace: Duration::ZERO,
            drain: Duration::ZERO,
        };
        let serving = tokio::spawn(serve(
            listener,
            Arc::clone(&self.certificate) as Arc<dyn ResolvesServerCert>,
            TlsVersion::Tls13,
            Handlers::new(&kinds(), 0, &self.metrics),
            stopping,
            std::future::pending(),
        ));
        self.set_running(Some(serving));
    }
}

impl Drop for WebhookServer {
    fn drop(&mut self) {
        if let Some(running) = self.set_running(None) {
            running.abort();
        }
    }
}
