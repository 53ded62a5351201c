//! The webhooks as parts of the process: certificate source, server, and readiness. They run on every
//! replica, independent of caches and the lease: the informers may need the conversion webhook for
//! their lists.

use std::sync::Arc;

use jiff::Timestamp;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::runtime::Handle;

use super::cluster::Clients;
use super::error::RunError;
use super::health::Endpoint;
use super::namespace::pod_namespace;
use super::parts::Group;
use super::supervise::BEHIND_A_SERVICE;
use crate::config::{CertificateSource, Config};
use crate::kinds::OPERATORS;
use crate::names;
use quartet_certificates::{
    self as certificates, SelfManaged, directory, registered, self_managed,
};
use quartet_webhook::{self as webhook, Handlers, serve};

/// Starts the certificate source and the server in `group`, the server on a runtime of its own. Returns
/// `ready` with the checks of both.
///
/// # Errors
/// The listener cannot change its runtime.
pub(super) fn start(
    config: &Config,
    clients: &Clients,
    (listener, runtime): (TcpListener, &Handle),
    (registry, reads): (&mut Registry, &certificates::Metrics),
    group: &mut Group,
    ready: Endpoint,
) -> Result<Endpoint, RunError> {
    let metrics = webhook::Metrics::register(registry);
    let of_certificate = reads.of("webhook", names::METRICS_PREFIX, registry);
    let (resolver, run) = match &config.certificates {
        CertificateSource::Directory(files) => directory(files.clone(), of_certificate),
        CertificateSource::SelfManaged => {
            let crds = OPERATORS.iter().map(|operator| operator.kind().crd_name());
            let options = SelfManaged {
                namespace: own_namespace(),
                secret: names::WEBHOOK_SECRET.to_owned(),
                service: names::WEBHOOK_SERVICE.to_owned(),
                registered: registered(crds, names::WEBHOOK_CONFIGURATION),
                managed_by: names::PROJECT,
                field_manager: names::WEBHOOK_MANAGER,
            };
            let (calls, watches) = (clients.calls.clone(), clients.watches.clone());
            self_managed(options, calls, watches, of_certificate)
        }
    };
    group.start_endless("webhook certificates", run);
    // All kinds, whichever controllers run: stored objects of all kinds must be readable.
    let kinds: Vec<_> = OPERATORS.iter().map(|operator| operator.kind()).collect();
    let handlers = Handlers::new(&kinds, config.settings.max_replicas, &metrics);
    let listener = listener.into_std().and_then(|listener| {
        let _context = runtime.enter();
        TcpListener::from_std(listener)
    });
    let listener = listener.map_err(RunError::system("move a listener to another runtime"))?;
    let certificates = Arc::clone(&resolver);
    let (minimum, stop) = (config.tls_min_version, group.stopping().cancelled_owned());
    let stopping = BEHIND_A_SERVICE;
    let server = serve(listener, certificates, minimum, handlers, stopping, stop);
    group.start_on(runtime, "webhook server", server);
    Ok(ready.check("webhook", move || resolver.check_at(Timestamp::now())))
}

/// The namespace of this pod, or the default namespace of the installation.
fn own_namespace() -> String {
    pod_namespace().unwrap_or_else(|| names::NAMESPACE.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outside_of_a_pod_the_namespace_is_that_of_the_installation() {
        assert_eq!(own_namespace(), names::NAMESPACE);
    }
}
