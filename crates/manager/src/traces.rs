//! Traces over OTLP. The batches, retries, sampler, variables and log lines are those of OpenTelemetry's SDK.
//! This file adds an HTTP client. Does not decide what is traced. Without an endpoint, nothing of it exists.

use std::convert::Infallible;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use axum::http::Uri;
use futures::future::BoxFuture;
use kube::client::Body;
use kube::{Client, Config};
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{SpanExporter, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::{EnvResourceDetector, TelemetryResourceDetector};
pub(super) use opentelemetry_sdk::trace::SdkTracer as Tracer;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::runtime::Handle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::registry::LookupSpan;

use super::{Application, RunError};

/// Time limit for the last batches during the stop.
pub(super) const LAST_EXPORT: Duration = Duration::from_millis(800);
/// Default of `OTEL_EXPORTER_OTLP_TIMEOUT`.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The tracer provider, whose batch processor exports spans on a thread of its own.
pub(super) struct Traces {
    provider: SdkTracerProvider,
}

impl Traces {
    /// Creates the provider from the environment; `None` if traces are off. Sends nothing yet. The
    /// exporter sends its requests on `runtime`.
    ///
    /// # Errors
    /// [`RunError::Configuration`]
    pub(super) fn prepare(
        application: &Application,
        runtime: &Handle,
    ) -> Result<Option<Self>, RunError> {
        let is = |name, value| std::env::var(name).is_ok_and(|it| it.eq_ignore_ascii_case(value));
        let is_off = is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none");
        let Some(endpoint) = variable("ENDPOINT").filter(|_| !is_off) else {
            return Ok(None);
        };
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Collector::new(&endpoint, runtime)?)
            .build()
            .map_err(RunError::configuration(
                "cannot set up the export of traces",
            ))?;
        let provider = SdkTracerProvider::builder()
            .with_resource(resource(application))
            .with_batch_exporter(exporter)
            .build();
        Ok(Some(Self { provider }))
    }

    /// The tracer of this process.
    pub(super) fn tracer(&self, name: &'static str) -> Tracer {
        self.provider.tracer(name)
    }

    /// Waits for `stop`, and then exports the remaining spans for at most [`LAST_EXPORT`].
    ///
    /// # Errors
    /// None: an unavailable collector is not an error.
    pub(super) async fn run(self, stop: CancellationToken) -> Result<(), Infallible> {
        stop.cancelled().await;
        // Blocks, and needs the runtime for its requests.
        let shutdown = move || self.provider.shutdown_with_timeout(LAST_EXPORT);
        // The reason of a failure was logged.
        let _ = tokio::task::spawn_blocking(shutdown).await;
        Ok(())
    }
}

/// The spans of `tracing` as those of `tracer`.
pub(super) fn layer<S: Subscriber + for<'s> LookupSpan<'s>>(tracer: Tracer) -> impl Layer<S> {
    tracing_opentelemetry::layer()
        .with_tracer(tracer)
        .with_location(false)
        .with_target(false)
        .with_threads(false)
        .with_tracked_inactivity(false)
}

/// The value of `OTEL_EXPORTER_OTLP_TRACES_` and `name`, or else of the variable without `TRACES_`. An empty
/// one counts as unset.
fn variable(name: &str) -> Option<String> {
    ["TRACES_", ""].iter().find_map(|traces| {
        let value = std::env::var(format!("OTEL_EXPORTER_OTLP_{traces}{name}"));
        value.ok().filter(|value| !value.is_empty())
    })
}

/// The attributes of this process. Those of the environment take precedence.
fn resource(application: &Application) -> Resource {
    let resource = Resource::builder_empty()
        .with_service_name(application.brand.name)
        .with_attribute(KeyValue::new("service.version", application.version))
        .with_detector(Box::new(TelemetryResourceDetector))
        .with_detector(Box::new(EnvResourceDetector::new()));
    match std::env::var("OTEL_SERVICE_NAME") {
        Ok(name) if !name.is_empty() => resource.with_service_name(name).build(),
        _ => resource.build(),
    }
}

/// The client of the collector. The SDK has none that works on a thread without a reactor, as that of its
/// batch processor, and does not link HTTP/2 or reqwest.
struct Collector {
    /// kube's client, for its TLS, which also reads the certificates again when they change.
    client: Client,
    /// Time limit of a request and its response. The SDK leaves it to its client.
    limit: Duration,
    runtime: Handle,
}

impl Collector {
    fn new(endpoint: &str, runtime: &Handle) -> Result<Self, RunError> {
        // kube puts this before the path of each request.
        let base = endpoint.parse::<Uri>().ok().and_then(|url| {
            let scheme = url
                .scheme_str()
                .filter(|it| matches!(*it, "http" | "https"))?;
            format!("{scheme}://{}", url.authority()?)
                .parse::<Uri>()
                .ok()
        });
        let Some(base) = base else {
            let problem = "OTEL_EXPORTER_OTLP_ENDPOINT: give a URL such as \
                           http://collector.monitoring.svc:4318";
            return Err(RunError::Configuration(problem.to_owned(), None));
        };
        let file = variable("CERTIFICATE").map(PathBuf::from);
        let needs_system = file.is_none() && base.scheme_str() == Some("https");
        let limit = variable("TIMEOUT").and_then(|limit| limit.parse().ok());
        let mut config = Config::new(base);
        config.default_retry = false;
        config.root_cert = (!needs_system).then(Vec::new);
        config.root_cert_file.clone_from(&file);
        let _context = runtime.enter();
        let file = file.map_or("the system".to_owned(), |file| file.display().to_string());
        let problem = format!("cannot use the certificates of {file} for traces");
        let client = Client::try_from(config).map_err(RunError::configuration(problem))?;
        Ok(Self {
            client,
            limit: limit.map_or(TIMEOUT, Duration::from_millis),
            runtime: runtime.clone(),
        })
    }
}

impl fmt::Debug for Collector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Collector")
    }
}

impl HttpClient for Collector {
    fn send_bytes<'a, 'b>(
        &'a self,
        request: Request<Bytes>,
    ) -> BoxFuture<'b, Result<Response<Bytes>, HttpError>>
    where
        'a: 'b,
    {
        let (client, limit) = (self.client.clone(), self.limit);
        let exchange = async move {
            let (head, body) = client.send(request.map(Body::from)).await?.into_parts();
            Ok::<_, HttpError>(Response::from_parts(head, body.collect_bytes().await?))
        };
        let exchange = async move { timeout(limit, exchange).await? };
        let exchange = self.runtime.spawn(exchange);
        Box::pin(async move { exchange.await? })
    }
}

#[cfg(test)]
mod tests;
