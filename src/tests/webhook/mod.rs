//! The whole server over real TLS connections: responses and robustness.

mod admission;
mod annotation;
mod conversion;
mod malformed;
mod rules;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::tests::workload::kinds;
use quartet_webhook::{Handlers, Metrics, Stopping, TlsVersion, serve};

/// Returns its only certificate.
#[derive(Debug)]
struct OneCertificate(Arc<CertifiedKey>);

impl ResolvesServerCert for OneCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

/// A server on its own port, and the state of its clients.
struct Server {
    address: SocketAddr,
    registry: Registry,
    tls: ClientConfig,
}

impl Server {
    async fn start() -> Self {
        Self::start_with(TlsVersion::Tls12, 1000).await
    }

    async fn start_with(minimum: TlsVersion, max_replicas: u32) -> Self {
        let issued = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let certificate = issued.cert.der().clone();
        let key = PrivateKeyDer::try_from(issued.signing_key.serialize_der()).unwrap();
        let key = ring::sign::any_supported_type(&key).unwrap();
        let certified = CertifiedKey::new(vec![certificate.clone()], key);
        let resolver = Arc::new(OneCertificate(Arc::new(certified)));

        let mut roots = RootCertStore::empty();
        roots.add(certificate).unwrap();
        let mut tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];

        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry, "quartet_operator");
        let handlers = Handlers::new(&kinds(), max_replicas, &metrics);
        let (grace, drain) = (Duration::ZERO, Duration::ZERO);
        let (stopping, stop) = (Stopping { grace, drain }, std::future::pending());
        tokio::spawn(serve(listener, resolver, minimum, handlers, stopping, stop));
        Self {
            address,
            registry,
            tls,
        }
    }

    async fn connect(&self) -> Client {
        self.try_connect(self.tls.clone()).await.unwrap()
    }

    async fn try_connect(&self, tls: ClientConfig) -> std::io::Result<Client> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from("localhost").unwrap();
        let connector = TlsConnector::from(Arc::new(tls));
        let stream = connector.connect(name, stream).await?;
        Ok(Client { stream })
    }

    /// One call on its own connection.
    async fn post(&self, path: &str, body: &Value) -> Reply {
        self.connect().await.post(path, body).await.unwrap()
    }

    fn metrics(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).unwrap();
        text
    }

    /// The value of one series, 0 if it does not exist.
    fn metric(&self, series: &str) -> f64 {
        let text = self.metrics();
        let mut lines = text.lines();
        let value = lines.find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.map_or(0.0, |value| value.parse().unwrap())
    }
}

/// A connection.
struct Client {
    stream: TlsStream<TcpStream>,
}

/// A response.
#[derive(Debug)]
struct Reply {
    code: u16,
    head: String,
    body: Vec<u8>,
}

impl Reply {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| {
            let shown = &self.body[..self.body.len().min(500)];
            panic!("{error}: {}", String::from_utf8_lossy(shown))
        })
    }

    /// The value of a header.
    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (header, value) = line.split_once(": ")?;
            header.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

impl Client {
    async fn post(&mut self, path: &str, body: &Value) -> std::io::Result<Reply> {
        self.send(path, body.to_string().as_bytes()).await
    }

    async fn send(&mut self, path: &str, body: &[u8]) -> std::io::Result<Reply> {
        let length = body.len();
        let head =
            format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n");
        self.exchange(&[head.as_bytes(), body].concat()).await
    }

    /// Writes `request` and reads one response. A server that rejects early may respond before
    /// everything is written.
    async fn exchange(&mut self, request: &[u8]) -> std::io::Result<Reply> {
        let (mut from, mut to) = tokio::io::split(&mut self.stream);
        let write = async {
            let _ = to.write_all(request).await;
            let _ = to.flush().await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = write => unreachable!(),
            reply = read_reply(&mut from) => reply,
        }
    }
}

async fn read_reply(from: &mut (impl tokio::io::AsyncRead + Unpin)) -> std::io::Result<Reply> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(from.read_u8().await?);
    }
    let head = String::from_utf8(head).unwrap();
    let code = head.split(' ').nth(1).unwrap().parse().unwrap();
    let mut reply = Reply {
        code,
        head,
        body: Vec::new(),
    };
    let length = reply.header("content-length").unwrap_or("0");
    reply.body = vec![0; length.parse().unwrap()];
    from.read_exact(&mut reply.body).await?;
    Ok(reply)
}

const MEMCACHED_SPOKE: &str = "/validate-cache-example-com-v1alpha1-memcached";
const MEMCACHED_HUB: &str = "/validate-cache-example-com-v1-memcached";

/// A review of the creation of `object`.
fn creation(object: &Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {"uid": "u-1", "operation": "CREATE", "name": object["metadata"]["name"],
            "object": object, "oldObject": null, "options": {"kind": "CreateOptions"}},
    })
}

/// A review of an update.
fn update(old: &Value, new: &Value) -> Value {
    let mut review = creation(new);
    review["request"]["operation"] = json!("UPDATE");
    review["request"]["oldObject"] = old.clone();
    review
}

fn memcached(version: &str, spec: Value) -> Value {
    json!({"apiVersion": format!("cache.example.com/{version}"), "kind": "Memcached",
        "metadata": {"name": "x", "namespace": "n", "uid": "u"}, "spec": spec})
}

/// A review that requests `objects` in the version `desired`.
fn conversion(desired: &str, objects: &[Value]) -> Value {
    json!({
        "kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1",
        "request": {"uid": "u-2", "desiredAPIVersion": desired, "objects": objects},
    })
}
