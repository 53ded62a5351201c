//! The webhooks as parts of the process: certificate source, server, and readiness. They run on every
//! replica, independent of caches and the lease: the informers may need the conversion webhook for
//! their lists.

use std::sync::Arc;

use jiff::Timestamp;
use prometheus_client::registry::Registry;
use quartet_webhook::{Handlers, Metrics, serve};
use tokio::runtime::Handle;

use super::cluster::Cluster;
use super::health::{self, Check};
use super::stop::{BEHIND_A_SERVICE, Group};
use super::{Application, RunError, listen};
use crate::config::{CertMode, Config};
use quartet_certificates::{
    self as certificates, SelfManaged, directory, registered, self_managed,
};

/// Starts the certificate source and the server in `group`, the server on `runtime`. Returns the check of the
/// certificate.
///
/// # Errors
/// The port is not available.
pub(super) fn start(
    application: &Application,
    config: &Config,
    cluster: &Cluster,
    runtime: &Handle,
    registry: &mut Registry,
    reads: &certificates::Metrics,
    group: &mut Group,
) -> Result<Option<Check>, RunError> {
    let port = format!(":{}", config.webhook_port);
    let Some(listener) = listen("webhooks", "--webhook-port", &port)? else {
        return Ok(None);
    };
    // All kinds, whichever controllers run: stored objects of all kinds must be readable.
    let kinds = application.operators.iter().map(|operator| operator.kind());
    let kinds: Vec<_> = kinds.collect();
    let prefix = application.metrics_prefix();
    let metrics = Metrics::register(registry, &prefix);
    let of_certificate = reads.of("webhook", &prefix, registry);
    let (resolver, run) = match config.cert_mode {
        CertMode::Directory => directory(config.webhook_files(), of_certificate),
        CertMode::SelfManaged => {
            let namespace = cluster.pod_namespace.clone();
            let crds = kinds.iter().map(|kind| kind.crd_name());
            let options = SelfManaged {
                namespace: namespace.unwrap_or_else(|| application.namespace()),
                secret: application.webhook_secret(),
                service: application.webhook_service(),
                registered: registered(crds, &application.webhook_configuration()),
                managed_by: application.brand.name,
                field_manager: application.named("webhook"),
            };
            self_managed(options, cluster.client.clone(), of_certificate)
        }
    };
    group.start_endless("webhook certificates", run);
    let handlers = Handlers::new(&kinds, config.settings.max_replicas, &metrics);
    let (certificates, minimum) = (Arc::clone(&resolver), config.tls_min_version);
    let stop = group.stopping().cancelled_owned();
    group.start_on(runtime, "webhook server", async move {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let stopping = BEHIND_A_SERVICE;
        serve(listener, certificates, minimum, handlers, stopping, stop).await
    });
    let failure = move || resolver.check_at(Timestamp::now()).err();
    Ok(Some(health::check("webhook", failure)))
}
