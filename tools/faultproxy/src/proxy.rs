//! The proxy: its certificate, its port, its connections.

use std::convert::Infallible;
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use k8s_openapi::ByteString;
use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::exchange::exchange;
use crate::journal::{Entry, Journal};
use crate::rule::Rule;
use crate::rules::{Installed, Rules};

/// The timeout of a TLS handshake, unless the network is cut.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The state that all connections share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) upstream: Client,
    pub(crate) rules: Rules,
    pub(crate) journal: Journal,
    /// Whether the network is cut.
    network: watch::Sender<bool>,
}

/// A running proxy. It and all its connections end when it is dropped.
pub struct Proxy {
    /// Where it listens.
    pub address: SocketAddr,
    /// Its authority, as PEM.
    pub certificate: String,
    shared: Shared,
    accepting: JoinHandle<Infallible>,
}

impl Proxy {
    /// Listens on a free loopback port and forwards everything with the identity of `kubeconfig`.
    ///
    /// # Errors
    /// The kubeconfig cannot be used, or there is no port.
    pub async fn start(kubeconfig: Kubeconfig) -> Result<Self, Box<dyn Error + Send + Sync>> {
        Self::start_at((Ipv4Addr::LOCALHOST, 0).into(), kubeconfig).await
    }

    /// Like [`Proxy::start`], at this address, for example that of a proxy that was dropped.
    ///
    /// # Errors
    /// Likewise.
    pub async fn start_at(
        address: SocketAddr,
        kubeconfig: Kubeconfig,
    ) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let options = KubeConfigOptions::default();
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        // Faults come from rules and timeouts from the client.
        config.default_retry = false;
        config.read_timeout = None;
        config.write_timeout = None;
        let shared = Shared {
            upstream: Client::try_from(config)?,
            rules: Rules::none(),
            journal: Journal::default(),
            network: watch::Sender::new(false),
        };
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der())?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)?;
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let accepting = accept(listener, TlsAcceptor::from(Arc::new(tls)), shared.clone());
        Ok(Proxy {
            address,
            certificate: made.cert.pem(),
            accepting: tokio::spawn(accepting),
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

    /// Sets the seed of all random choices of rules that are installed from now on, so that the
    /// same rules select the same requests again. Zero by default.
    pub fn seed(&self, seed: u64) {
        self.shared.rules.seed(seed);
    }

    /// Installs a rule.
    pub fn install(&self, rule: Rule) -> Installed {
        self.shared.rules.install(rule)
    }

    /// Removes every rule.
    pub fn clear(&self) {
        self.shared.rules.clear();
    }

    /// Cuts the network: no bytes and no end pass in either direction any more, as when a firewall has
    /// dropped its state; on new connections neither, until [`Proxy::mend`].
    pub fn cut(&self) {
        self.shared.network.send_replace(true);
    }

    /// Lets new connections through again. Those that were cut off stay cut off.
    pub fn mend(&self) {
        self.shared.network.send_replace(false);
    }

    /// Returns all requests so far, in the order of arrival.
    pub fn journal(&self) -> Vec<Entry> {
        self.shared.journal.read()
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
    let mut network = shared.network.subscribe();
    let mut serving = pin!(async move {
        let Ok(Ok(stream)) = timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)).await else {
            return;
        };
        let service = service_fn(move |request| exchange(shared.clone(), request));
        let _ = http1::Builder::new()
            .timer(TokioTimer::new())
            .serve_connection(TokioIo::new(stream), service)
            .await;
    });
    if !*network.borrow_and_update() {
        tokio::select! {
            biased;
            _ = network.changed() => {}
            () = &mut serving => return,
        }
    }
    // Cut off: the connection stays open, and nobody reads or writes.
    std::future::pending().await
}
