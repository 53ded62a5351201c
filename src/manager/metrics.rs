//! The `/metrics` endpoint, in the OpenMetrics text format: over TLS with authorization, or over plain
//! HTTP without it. Controllers and webhooks register their own metrics in the registry created here.

mod access;
mod cache;
mod reviews;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use kube::Client;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;

use self::access::Access;
use super::process_metrics::ProcessMetrics;
use super::supervise::{Group, plain};
use super::webhooks::until;
use crate::budget::{FREE_BYTES, METRICS};
use crate::certificates::{self, directory, in_memory};
use crate::config::{Config, MetricsSecurity};
use crate::packaging::names::METRICS_PATH;
use crate::server::{Serving, Slot, long_body};
use crate::shard::Shard;
use crate::webhook::{ServeError, server_config};

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A registry with the metrics of every process: build information and resource usage. Every metric of
/// a shard has its selector as a label.
pub(super) fn registry(shard: Option<&Shard>) -> Registry {
    let selector = shard.map(|shard| shard.selector().to_owned());
    let label = selector.map(|selector| ("shard".into(), selector.into()));
    let mut registry = Registry::with_labels(label.into_iter());
    let build = Info::new([
        ("version", env!("CARGO_PKG_VERSION")),
        ("os", std::env::consts::OS),
        ("arch", std::env::consts::ARCH),
    ]);
    registry.register("quartet_operator_build", "The build that is running", build);
    registry.register_collector(Box::new(ProcessMetrics));
    registry
}

/// Starts the server and the renewal of its certificate in `group`. `client` sends the reviews that
/// authorize readers.
pub(super) fn start(
    config: &Config,
    client: Client,
    listener: TcpListener,
    (mut registry, reads): (Registry, &certificates::Reads),
    group: &mut Group,
) {
    let (certificate, server) = ("metrics certificate", "metrics server");
    let metrics = |registry| reads.of("metrics", registry);
    let stop = group.stopping();
    let shutdown = stop.clone().cancelled_owned();
    let resolver = match &config.metrics_security {
        MetricsSecurity::Plain => {
            let serving = plain("metrics", listener, router(registry, None), METRICS);
            return group.start(server, serving.run(shutdown));
        }
        MetricsSecurity::SelfSigned => {
            let names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
            let (resolver, run) = in_memory(names.to_vec(), metrics(&mut registry));
            group.start(certificate, until(stop, run));
            resolver
        }
        MetricsSecurity::Directory(files) => {
            let (resolver, run) = directory(files.clone(), metrics(&mut registry));
            group.start(certificate, until(stop, run));
            resolver
        }
    };
    let router = router(registry, Some(Access::new(client)));
    let minimum = config.tls_min_version;
    let serving = plain("metrics", listener, router, METRICS);
    group.start(server, async move {
        let tls = Some(server_config(resolver, minimum)?);
        Ok::<_, ServeError>(Serving { tls, ..serving }.run(shutdown).await?)
    });
}

/// The content of the endpoint, and its access control; `None` allows everyone.
struct Served {
    registry: Registry,
    access: Option<Access>,
}

fn router(registry: Registry, access: Option<Access>) -> Router {
    Router::new()
        .route(METRICS_PATH, get(scrape))
        .with_state(Arc::new(Served { registry, access }))
}

async fn scrape(State(served): State<Arc<Served>>, request: Request) -> Response {
    if let Some(access) = &served.access {
        let path = request.uri().path();
        let checked = access.check(request.method(), path, request.headers());
        if let Err(denied) = checked.await {
            return denied.into_response();
        }
    }
    let slot = request.extensions().get::<Arc<Slot>>().cloned();
    // Some collectors read files, and encoding takes long with many resources.
    let text = tokio::task::spawn_blocking(move || {
        let mut text = String::new();
        encode(&mut text, &served.registry).map(|()| text)
    });
    match text.await {
        Ok(Ok(text)) => {
            let body = match text.len() > FREE_BYTES {
                true => long_body(text, (), slot),
                false => text.into(),
            };
            ([(header::CONTENT_TYPE, CONTENT_TYPE)], body).into_response()
        }
        Ok(Err(_)) | Err(_) => {
            tracing::error!("cannot write the metrics");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrape_shows_the_build_and_the_process() {
        let mut text = String::new();
        encode(&mut text, &registry(None)).unwrap();
        let build = format!(
            "quartet_operator_build_info{{version=\"{}\"",
            env!("CARGO_PKG_VERSION")
        );
        assert!(text.contains(&build), "{text}");
        assert!(text.contains("\nprocess_resident_memory_bytes "), "{text}");
        assert!(text.ends_with("# EOF\n"), "{text}");
    }

    #[test]
    fn every_metric_of_a_shard_has_its_selector() {
        let shard = Shard::of("b=c,tier notin (x)").expect("valid");
        let mut text = String::new();
        encode(&mut text, &registry(shard.as_ref())).unwrap();
        let mut series = text.lines().filter(|line| !line.starts_with('#'));
        assert!(series.clone().count() > 5, "{text}");
        assert!(
            series.all(|line| line.contains("{shard=\"b=c,tier!=x\"")),
            "{text}"
        );
    }
}
