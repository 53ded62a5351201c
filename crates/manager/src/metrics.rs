//! The `/metrics` endpoint, in the OpenMetrics text format: over TLS with authorization, or over plain
//! HTTP without it. Controllers and webhooks register their own metrics in the registry created here.

mod access;

use std::fmt::Error;
use std::fs;
use std::net::TcpListener;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use jiff::Timestamp;
use kube::Client;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use quartet_http::server::held;
use rustix::param::page_size;
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::Semaphore;

use self::access::{Access, PATH};
use super::limits::{METRICS, SCRAPE_BYTES, SCRAPES};
use super::stop::{Group, plain};
use super::{Application, RunError};
use crate::config::Config;
use quartet_certificates::{self as certificates, directory, in_memory};

/// The hosts of the self-signed certificate.
const LOCAL: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A registry with the metrics of every process: build information and resource usage. Create it at the
/// start of the process.
pub(super) fn registry(application: &Application) -> Registry {
    let mut registry = Registry::default();
    let build = Info::new([
        ("version", application.version),
        ("os", std::env::consts::OS),
        ("arch", std::env::consts::ARCH),
    ]);
    let name = format!("{}_build", application.metrics_prefix());
    registry.register(name, "The build that is running", build);
    let start = Timestamp::now().as_millisecond() as f64 / 1000.0;
    registry.register(
        "process_start_time_seconds",
        "Start time of the process since unix epoch in seconds",
        ConstGauge::new(start),
    );
    registry.register_collector(Box::new(Usage));
    registry
}

/// The `process_*` metrics of Prometheus client libraries that dashboards use, read at each scrape.
#[derive(Debug)]
struct Usage;

impl Collector for Usage {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), Error> {
        let mut write = |name, help, metric: &dyn EncodeMetric| {
            metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
        };
        let used = clock_gettime(ClockId::ProcessCPUTime);
        let seconds = used.tv_sec as f64 + used.tv_nsec as f64 / 1e9;
        let help = "Total user and system CPU time spent in seconds";
        write("process_cpu_seconds", help, &ConstCounter::new(seconds))?;
        // Its second number counts the resident pages.
        let sizes = fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let pages = sizes.split(' ').nth(1).and_then(|pages| pages.parse().ok());
        let bytes = pages.unwrap_or(0_u64) * page_size() as u64;
        let help = "Resident memory size in bytes";
        let name = "process_resident_memory_bytes";
        write(name, help, &ConstGauge::new(bytes))?;
        // One of them is the directory that is read.
        let files = fs::read_dir("/proc/self/fd").map_or(1, Iterator::count) as u64;
        let help = "Number of open file descriptors";
        write("process_open_fds", help, &ConstGauge::new(files - 1))
    }
}

/// Starts the server and the renewal of its certificate in `group`. `client` sends the reviews that
/// authorize readers.
///
/// # Errors
/// The listener cannot be used.
pub(super) fn start(
    application: &Application,
    config: &Config,
    client: Client,
    listener: TcpListener,
    mut registry: Registry,
    reads: &certificates::Metrics,
    group: &mut Group,
) -> Result<(), RunError> {
    let source = config.metrics_secure.then(|| {
        let metrics = reads.of("metrics", &application.metrics_prefix(), &mut registry);
        match config.metrics_files() {
            Some(files) => directory(files, metrics),
            None => in_memory(&LOCAL.map(str::to_owned), metrics),
        }
    });
    let access = source.is_some().then(|| Access::new(client));
    let mut serving = plain("metrics", listener, router(registry, access), METRICS)?;
    if let Some((resolver, run)) = source {
        group.start_endless("metrics certificate", run);
        serving.tls = Some((resolver, config.tls_min_version));
    }
    let stop = group.stopping().cancelled_owned();
    group.start("metrics server", serving.run(stop));
    Ok(())
}

/// The content of the endpoint, and its access control; `None` allows everyone.
struct Served {
    registry: Registry,
    access: Option<Access>,
    /// Permits for answers that are written or sent.
    memory: Arc<Semaphore>,
}

fn served(registry: Registry, access: Option<Access>) -> Arc<Served> {
    Arc::new(Served {
        registry,
        access,
        memory: Arc::new(Semaphore::new(SCRAPES)),
    })
}

fn router(registry: Registry, access: Option<Access>) -> Router {
    let scrapes = Router::new().route(PATH, get(scrape));
    scrapes.with_state(served(registry, access))
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
    let text = tokio::task::spawn_blocking(move || {
        let mut text = String::with_capacity(SCRAPE_BYTES);
        encode(&mut text, &served.registry)?;
        text.shrink_to_fit();
        Ok::<_, Error>((text, permit))
    });
    let Ok(Ok((text, permit))) = text.await else {
        tracing::error!("cannot write the metrics");
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let body = held(text.into_bytes(), permit);
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], body).into_response()
}

#[cfg(test)]
mod tests;
