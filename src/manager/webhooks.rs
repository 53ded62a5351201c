//! The webhooks as parts of the process: where their certificate is from, the server, and
//! when they are ready. They run on every replica and wait for no cache and no lease: the
//! informers themselves may need conversions to be answered.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;

use super::RunError;
use super::cluster::Clients;
use super::handshake::handshake;
use super::health::Endpoint;
use super::parts::Parts;
use super::shutdown::Shutdown;
use crate::config::{CertificateSource, Config};
use crate::operators::OPERATORS;
use crate::packaging::{self, names};
use crate::webhook::certificates::{
    self, Registered, Registration, Resolver, SECRET, SelfManaged, directory, registered,
    self_managed,
};
use crate::webhook::{self, Handlers, Stopping, serve};

/// The stop of the webhook server; together below what the whole work has to stop.
const STOPPING: Stopping = Stopping {
    // Until the API servers have learnt that this replica goes.
    grace: Duration::from_secs(2),
    // The timeout of an admission is 5 s, but one that takes more than this is lost.
    drain: Duration::from_millis(1500),
};

/// Where a pod finds the name of its namespace.
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// A webhook server that was started.
pub(super) struct Webhooks {
    resolver: Arc<Resolver>,
    port: u16,
}

impl Webhooks {
    /// Starts the certificate source and the server among `parts`.
    ///
    /// # Errors
    /// When the certificate source cannot be used as it is configured.
    pub(super) fn start(
        config: &Config,
        clients: &Clients,
        listener: TcpListener,
        (registry, reads): (&mut Registry, &certificates::Reads),
        parts: &mut Parts,
        shutdown: &Shutdown,
    ) -> Result<Self, RunError> {
        let metrics = webhook::Metrics::register(registry);
        let of_certificate = reads.of("webhook", registry);
        let resolver = start_source(config, clients, of_certificate, parts, shutdown)?;
        let port = listener.local_addr().map_or(0, |address| address.port());
        // All kinds, whichever controllers run: a stored object of any must be readable.
        let kinds: Vec<_> = OPERATORS.iter().map(|operator| operator.kind()).collect();
        let handlers = Handlers::new(&kinds, config.settings.max_replicas, &metrics);
        let certificates = Arc::clone(&resolver);
        let (minimum, stop) = (config.tls_min_version, shutdown.clone().stopped());
        parts.start(
            "webhook server",
            serve(listener, certificates, minimum, handlers, STOPPING, stop),
        );
        Ok(Self { resolver, port })
    }

    /// Adds what readiness depends on to `ready`: a certificate that is valid now, and a
    /// listener that shakes hands.
    pub(super) fn check(self, ready: Endpoint) -> Endpoint {
        let Self { resolver, port } = self;
        ready.probe("webhook", StatusCode::INTERNAL_SERVER_ERROR, move || {
            let validity = resolver.is_valid_now().map_err(|reason| reason.to_string());
            async move {
                validity?;
                handshake(port).await
            }
        })
    }
}

fn start_source(
    config: &Config,
    clients: &Clients,
    metrics: certificates::Metrics,
    parts: &mut Parts,
    shutdown: &Shutdown,
) -> Result<Arc<Resolver>, RunError> {
    let name = "webhook certificates";
    match &config.certificates {
        CertificateSource::Directory(files) => {
            let (resolver, run) = directory(files.clone(), metrics);
            parts.start(name, until(shutdown.clone(), run));
            Ok(resolver)
        }
        CertificateSource::SelfManaged => {
            let options = SelfManaged {
                namespace: own_namespace(),
                secret: SECRET.to_owned(),
                service: names::WEBHOOK_SERVICE.to_owned(),
                registered: registered_objects(),
            };
            let (calls, watches) = (clients.calls.clone(), clients.watches.clone());
            let (resolver, run) = self_managed(options, calls, watches, metrics);
            parts.start(name, until(shutdown.clone(), run));
            Ok(resolver)
        }
        CertificateSource::Url { url, force } => {
            let kinds = packaging::kinds();
            let options = Registration {
                url: url.clone(),
                force: *force,
                server: clients.server.clone(),
                webhook_configuration: packaging::webhook::validating_webhook_configuration(&kinds),
                crds: kinds
                    .iter()
                    .map(|kind| packaging::crd::both_versions(kind))
                    .collect(),
            };
            let stop = shutdown.clone().stopped();
            let (resolver, run) = registered(options, clients.calls.clone(), metrics, stop)?;
            parts.start(name, run);
            Ok(resolver)
        }
    }
}

/// The objects that carry the caBundle.
fn registered_objects() -> Vec<Registered> {
    let crds = OPERATORS.iter().map(|operator| {
        let kind = operator.kind();
        Registered::Converted(format!("{}.{}", kind.plural, kind.group))
    });
    let configuration = Registered::Validating(names::WEBHOOK_CONFIGURATION.to_owned());
    crds.chain([configuration]).collect()
}

/// The namespace that this pod is in, or the one that it is installed into by default.
fn own_namespace() -> String {
    let told = std::fs::read_to_string(NAMESPACE_FILE);
    told.map_or_else(
        |_| names::NAMESPACE.to_owned(),
        |name| name.trim().to_owned(),
    )
}

/// `run`, which never ends by itself, until it is time to stop.
pub(super) async fn until<E>(
    shutdown: Shutdown,
    run: impl Future<Output = Result<(), E>>,
) -> Result<(), E> {
    tokio::select! {
        ended = run => ended,
        () = shutdown.stopped() => Ok(()),
    }
}
