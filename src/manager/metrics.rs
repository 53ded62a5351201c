//! The `/metrics` endpoint, in the OpenMetrics text format: over TLS with authorization, or over plain
//! HTTP without it. Controllers and webhooks register their own metrics in the registry created here.

mod access;
mod reviews;

use std::fmt;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use kube::Client;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use self::access::Access;
use super::parts::Group;
use super::process_metrics;
use super::supervise::plain;
use crate::budget::{METRICS, SCRAPE_BYTES, SCRAPES};
use crate::certificates::{self, directory, in_memory};
use crate::config::{Config, MetricsSecurity};
use crate::names::METRICS_PATH;
use quartet_http::server::held;

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// A registry with the metrics of every process: build information and resource usage.
pub(super) fn registry() -> Registry {
    let mut registry = Registry::default();
    let build = Info::new([
        ("version", env!("CARGO_PKG_VERSION")),
        ("os", std::env::consts::OS),
        ("arch", std::env::consts::ARCH),
    ]);
    registry.register("quartet_operator_build", "The build that is running", build);
    process_metrics::register(&mut registry);
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
    let mut metrics = || reads.of("metrics", &mut registry);
    let source = match &config.metrics_security {
        MetricsSecurity::Plain => None,
        MetricsSecurity::SelfSigned => {
            let names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
            Some(in_memory(names.to_vec(), metrics()))
        }
        MetricsSecurity::Directory(files) => Some(directory(files.clone(), metrics())),
    };
    let access = source.is_some().then(|| Access::new(client));
    let mut serving = plain("metrics", listener, router(registry, access), METRICS);
    if let Some((resolver, run)) = source {
        group.start_endless("metrics certificate", run);
        serving.tls = Some((resolver, config.tls_min_version));
    }
    let stop = group.stopping().cancelled_owned();
    group.start("metrics server", serving.run(stop));
}

/// The content of the endpoint, and its access control; `None` allows everyone.
struct Served {
    registry: Registry,
    access: Option<Access>,
    /// Permits for answers that are written or sent.
    memory: Arc<Semaphore>,
}

impl Served {
    fn new(registry: Registry, access: Option<Access>) -> Arc<Self> {
        Arc::new(Self {
            registry,
            access,
            memory: Arc::new(Semaphore::new(SCRAPES)),
        })
    }

    fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::with_capacity(SCRAPE_BYTES);
        encode(&mut text, &self.registry)?;
        text.shrink_to_fit();
        Ok(text)
    }
}

fn router(registry: Registry, access: Option<Access>) -> Router {
    Router::new()
        .route(METRICS_PATH, get(scrape))
        .with_state(Served::new(registry, access))
}

async fn scrape(State(served): State<Arc<Served>>, headers: HeaderMap) -> Response {
    if let Some(access) = &served.access
        && let Some(denial) = access.denial(&headers).await
    {
        return denial;
    }
    let permit = Arc::clone(&served.memory).acquire_owned().await.ok();
    // Some collectors read files, and encoding takes long with many resources. The thread holds the permit,
    // because it does not end if the client disconnects.
    let text = tokio::task::spawn_blocking(move || Ok::<_, fmt::Error>((served.text()?, permit)));
    let Ok(Ok((text, permit))) = text.await else {
        tracing::error!("cannot write the metrics");
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let body = held(text.into_bytes(), permit);
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], body).into_response()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use tokio::time::timeout;

    use super::*;
    use crate::controller::Metrics;
    use crate::controller::cache::cached::CachedResource;
    use crate::controller::cache::store::Store;
    use crate::operators::tests::kinds;

    async fn status(served: &Arc<Served>) -> (StatusCode, Response) {
        let response = scrape(State(Arc::clone(served)), HeaderMap::new()).await;
        (response.status(), response)
    }

    #[tokio::test(start_paused = true)]
    async fn answers_that_nobody_reads_have_a_limit_and_the_next_scrape_waits() {
        let served = Served::new(registry(), None);
        let (first, held) = status(&served).await;
        let (second, _also_held) = status(&served).await;
        assert_eq!([first, second], [StatusCode::OK; 2]);
        let mut third = Box::pin(status(&served));
        assert!(timeout(Duration::from_secs(60), &mut third).await.is_err());
        drop(held);
        assert_eq!(third.await.0, StatusCode::OK);
    }

    /// `SCRAPE_BYTES` leaves 200 KB for all other series.
    #[test]
    fn the_named_conditions_of_every_kind_fit_with_the_longest_names() {
        let mut registry = registry();
        let metrics = Metrics::register(&mut registry);
        for kind in kinds() {
            let resources: Arc<Store<CachedResource>> = Arc::default();
            for number in 0..500 {
                let object = json!({
                    "metadata": {
                        "namespace": "n".repeat(63), "name": format!("{number:0>253}"), "uid": "u",
                        "resourceVersion": "1",
                    },
                    "status": {"conditions": [
                        {"type": "Degraded", "status": "True", "reason": "MinimumReplicasUnavailable"},
                    ]},
                });
                let resource = CachedResource::decode(kind, &object).unwrap();
                resources.applied(Arc::new(resource));
            }
            metrics.resources(&kind.controller_name(), resources);
        }
        let text = Served::new(registry, None).text().unwrap();
        let named = text.matches("\nquartet_operator_resource_condition{");
        assert_eq!(named.count(), kinds().len() * 500);
        assert!(text.len() + 200_000 <= SCRAPE_BYTES, "{}", text.len());
    }

    #[test]
    fn a_scrape_shows_the_build_and_the_process() {
        let mut text = String::new();
        encode(&mut text, &registry()).unwrap();
        let build = format!(
            "quartet_operator_build_info{{version=\"{}\"",
            env!("CARGO_PKG_VERSION")
        );
        assert!(text.contains(&build), "{text}");
        assert!(text.contains("\nprocess_resident_memory_bytes "), "{text}");
        assert!(text.ends_with("# EOF\n"), "{text}");
    }
}
