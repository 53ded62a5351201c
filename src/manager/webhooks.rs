//! The webhooks as parts of the process: certificate source, server, and readiness. They run on every
//! replica, independent of caches and the lease: the informers may need the conversion webhook for
//! their lists.

use std::sync::Arc;

use axum::http::StatusCode;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::cluster::Clients;
use super::error::RunError;
use super::handshake::Handshakes;
use super::health::Endpoint;
use super::namespace::pod_namespace;
use super::server_time::ServerTime;
use super::supervise::{BEHIND_A_SERVICE, Group};
use crate::certificates::{
    self, Registered, Resolver, SECRET, SelfManaged, directory, self_managed,
};
use crate::config::{CertificateSource, Config};
use crate::names;
use crate::operators::OPERATORS;
use crate::webhook::{self, Handlers, serve};

/// Starts the certificate source and the server in `group`, the server on a runtime of its own. Returns
/// `ready` with the checks of both.
///
/// # Errors
/// The listener cannot change its runtime.
pub(super) fn start(
    config: &Config,
    clients: &Clients,
    (listener, runtime): (TcpListener, &Handle),
    (registry, reads): (&mut Registry, &certificates::Reads),
    time: ServerTime,
    group: &mut Group,
    ready: Endpoint,
) -> Result<Endpoint, RunError> {
    let metrics = webhook::Metrics::register(registry);
    let of_certificate = reads.of("webhook", registry);
    let resolver = start_source(config, clients, of_certificate, group);
    let port = listener.local_addr().map_or(0, |address| address.port());
    // All kinds, whichever controllers run: stored objects of all kinds must be readable.
    let kinds: Vec<_> = OPERATORS.iter().map(|operator| operator.kind()).collect();
    let handlers = Handlers::new(&kinds, config.settings.max_replicas, &metrics);
    let certificates = Arc::clone(&resolver);
    let (minimum, stop) = (config.tls_min_version, group.stopping().cancelled_owned());
    let listener = listener.into_std().and_then(|listener| {
        let _context = runtime.enter();
        TcpListener::from_std(listener)
    });
    let listener = listener.map_err(|source| RunError::System {
        doing: "move a listener to another runtime",
        source,
    })?;
    group.parts.start_on(
        runtime,
        "webhook server",
        serve(
            listener,
            certificates,
            minimum,
            handlers,
            BEHIND_A_SERVICE,
            stop,
        ),
    );
    Ok(checked(ready, resolver, port, time))
}

/// Adds the readiness checks to `ready`: a certificate that is valid at the time of the API server,
/// and a listener that completes a TLS handshake.
fn checked(ready: Endpoint, resolver: Arc<Resolver>, port: u16, time: ServerTime) -> Endpoint {
    let handshakes = Arc::new(Handshakes::with(port));
    ready.probe("webhook", StatusCode::INTERNAL_SERVER_ERROR, move || {
        let validity = resolver.check_at(time.now());
        let validity = validity.map_err(|reason| reason.to_string());
        let handshakes = Arc::clone(&handshakes);
        async move {
            validity?;
            handshakes.check().await
        }
    })
}

fn start_source(
    config: &Config,
    clients: &Clients,
    metrics: certificates::Metrics,
    group: &mut Group,
) -> Arc<Resolver> {
    let name = "webhook certificates";
    match &config.certificates {
        CertificateSource::Directory(files) => {
            let (resolver, run) = directory(files.clone(), metrics);
            group.start(name, until(group.stopping(), run));
            resolver
        }
        CertificateSource::SelfManaged => {
            let crds = OPERATORS.iter().map(|operator| operator.kind().crd_name());
            let options = SelfManaged {
                namespace: own_namespace(),
                secret: SECRET.to_owned(),
                service: names::WEBHOOK_SERVICE.to_owned(),
                registered: Registered::all(crds, names::WEBHOOK_CONFIGURATION),
            };
            let (calls, watches) = (clients.calls.clone(), clients.watches.clone());
            let (resolver, run) = self_managed(options, calls, watches, metrics);
            group.start(name, until(group.stopping(), run));
            resolver
        }
    }
}

/// The namespace of this pod, or the default namespace of the installation.
fn own_namespace() -> String {
    pod_namespace().unwrap_or_else(|| names::NAMESPACE.to_owned())
}

/// Runs `run`, which never ends by itself, until the stop.
pub(super) async fn until<E>(
    stop: CancellationToken,
    run: impl Future<Output = Result<(), E>>,
) -> Result<(), E> {
    stop.run_until_cancelled(run).await.unwrap_or(Ok(()))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Request;
    use jiff::{SignedDuration, Timestamp};
    use tower::ServiceExt as _;

    use super::*;
    use crate::certificates::in_memory;
    use crate::manager::health;
    use crate::manager::supervise::AT_ONCE;
    use crate::webhook::TlsVersion;

    /// The status of readiness if the API server's clock is ahead of the local clock.
    async fn status(ahead: SignedDuration) -> StatusCode {
        let (resolver, run) = in_memory(vec!["a".to_owned()], certificates::Metrics::default());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let metrics = webhook::Metrics::register(&mut Registry::default());
        let handlers = Handlers::new(&[], 0, &metrics);
        let certificates = Arc::clone(&resolver);
        let serve = serve(
            listener,
            certificates,
            TlsVersion::Tls12,
            handlers,
            AT_ONCE,
            std::future::pending(),
        );
        let time = ServerTime::default();
        let date = Timestamp::now() + ahead;
        time.observe(Some(
            &date.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string(),
        ));
        let ready = checked(Endpoint::new("readyz"), resolver, port, time);
        let router = health::router([ready]);
        let request = Request::get("/readyz").body(Body::empty()).unwrap();
        tokio::select! {
            answer = router.oneshot(request) => answer.unwrap().status(),
            _ = serve => unreachable!(),
            _ = run => unreachable!(),
        }
    }

    #[test]
    fn outside_of_a_pod_the_namespace_is_that_of_the_installation() {
        assert_eq!(own_namespace(), names::NAMESPACE);
    }

    #[tokio::test]
    async fn readiness_judges_the_certificate_by_the_clock_of_the_api_server() {
        assert_eq!(status(SignedDuration::ZERO).await, StatusCode::OK);
        let hour = SignedDuration::from_hours(1);
        assert_eq!(status(hour).await, StatusCode::OK);
        // The certificate is valid for ninety days from an hour before the local time.
        for invalid in [hour * -2, hour * 24 * 91] {
            let status = status(invalid).await;
            assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR, "{invalid}");
        }
    }
}
