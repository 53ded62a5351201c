//! The proxy: its certificate, its port, its connections.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use k8s_openapi::ByteString;
use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::event::EventRule;
use crate::exchange::exchange;
use crate::gate::{Gate, Network};
use crate::journal::{Journal, Recorder};
use crate::rule::Rule;
use crate::rules::{Installed, Rules};
use crate::shared::Shared;

/// The timeout of a TLS handshake, unless the network is cut.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Why the proxy cannot work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kubeconfig, or a certificate, cannot be used.
    #[error("a fault proxy cannot be set up: {0}")]
    SetUp(String),
    /// No port is available.
    #[error("a fault proxy cannot listen")]
    Listen(#[from] io::Error),
}

fn set_up(error: impl std::fmt::Display) -> Error {
    Error::SetUp(error.to_string())
}

/// A running proxy. It and all its connections end when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    certificate: String,
    shared: Shared,
    accepting: JoinHandle<Infallible>,
}

impl Proxy {
    /// Listens on a free loopback port and forwards everything with the identity of `kubeconfig`.
    ///
    /// # Errors
    /// [`Error`]: the kubeconfig cannot be used, or there is no port.
    pub async fn start(kubeconfig: Kubeconfig) -> Result<Self, Error> {
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
        let mut config = config.map_err(set_up)?;
        // Faults come from rules and timeouts from the client.
        config.default_retry = false;
        config.read_timeout = None;
        config.write_timeout = None;
        let upstream = Client::try_from(config).map_err(set_up)?;

        let key = KeyPair::generate().map_err(set_up)?;
        let names = vec!["127.0.0.1".to_owned()];
        let certificate = CertificateParams::new(names).map_err(set_up)?;
        let certificate = certificate.self_signed(&key).map_err(set_up)?;
        let private = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(set_up)?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], private)
            .map_err(set_up)?;

        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let shared = Shared {
            upstream,
            rules: Rules::none(),
            recorder: Recorder::default(),
            user_agent: Arc::default(),
            network: Network::default(),
        };
        Ok(Proxy {
            address: listener.local_addr()?,
            certificate: certificate.pem(),
            accepting: tokio::spawn(accept(
                listener,
                TlsAcceptor::from(Arc::new(tls)),
                shared.clone(),
            )),
            shared,
        })
    }

    /// Returns a kubeconfig of this proxy, as JSON, for a client that impersonates `user` in
    /// `groups`.
    pub fn kubeconfig(&self, user: &str, groups: &[&str]) -> Value {
        // In base64, as in a kubeconfig.
        let authority = ByteString(self.certificate.clone().into_bytes());
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "proxy",
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
            "clusters": [{"name": "proxy", "cluster": {
                "server": format!("https://{}", self.address),
                "certificate-authority-data": authority,
            }}],
            "users": [{"name": "proxy", "user": {"as": user, "as-groups": groups}}],
        })
    }

    /// From now on the API server sees this user agent instead of the client's own.
    pub fn disguise(&self, user_agent: &'static str) {
        let _ = self
            .shared
            .user_agent
            .set(HeaderValue::from_static(user_agent));
    }

    /// Sets the seed of all random choices of rules that are installed from now on, so that the
    /// same rules select the same requests again. Zero by default.
    pub fn seed(&self, seed: u64) {
        self.shared.rules.seed(seed);
    }

    /// Installs a rule.
    pub fn install(&self, rule: Rule) -> Installed {
        self.shared.rules.install(rule)
    }

    /// Installs a rule for events.
    pub fn install_on_events(&self, rule: EventRule) -> Installed {
        self.shared.rules.install_on_events(rule)
    }

    /// Removes every rule.
    pub fn clear(&self) {
        self.shared.rules.clear();
    }

    /// Cuts the network: existing connections pass nothing any more, and new ones neither until
    /// [`Proxy::mend`].
    pub fn cut(&self) {
        self.shared.network.cut();
    }

    /// Lets new connections through again.
    pub fn mend(&self) {
        self.shared.network.mend();
    }

    /// Returns the journal so far.
    pub fn journal(&self) -> Journal {
        self.shared.recorder.read()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, tls: TlsAcceptor, shared: Shared) -> Infallible {
    // Aborted with this task, when the proxy is dropped.
    let mut connections = JoinSet::new();
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            connections.spawn(connection(stream, tls.clone(), shared.clone()));
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn connection(stream: TcpStream, tls: TlsAcceptor, shared: Shared) {
    let _ = stream.set_nodelay(true);
    // A client whose connection the proxy closes gets a reset, on purpose.
    let _ = stream.set_zero_linger();
    let gate = Gate::new(stream, shared.network.clone());
    let Ok(Ok(stream)) = timeout(HANDSHAKE_TIMEOUT, tls.accept(gate)).await else {
        return;
    };
    let service = service_fn(move |request| exchange(shared.clone(), request));
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
}
