//! Traces over OTLP. The batches, retries, sampler and variables are those of OpenTelemetry's SDK. This file
//! adds an HTTP client, and a log line when the collector becomes unavailable and available. Does not decide
//! what is traced. Without an endpoint, nothing of it exists.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use http::Uri;
use http_body_util::{BodyExt as _, Full};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::Config;
use kube::client::ConfigExt as _;
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::{EnvResourceDetector, TelemetryResourceDetector};
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use tokio::runtime::Handle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use quartet_http::error_report;

/// Time limit for the last batches during the stop.
pub(super) const LAST_EXPORT: Duration = Duration::from_millis(800);
/// Default of `OTEL_EXPORTER_OTLP_TIMEOUT`.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Why traces cannot be exported with this configuration.
#[derive(Debug, thiserror::Error)]
pub enum TracesError {
    /// The endpoint is not a URL.
    #[error("OTEL_EXPORTER_OTLP_ENDPOINT: give a URL such as http://collector.monitoring.svc:4318")]
    Endpoint,
    /// The CA certificates of the collector cannot be read.
    #[error("cannot use the certificates of {authorities} for traces")]
    Tls {
        /// Their file.
        authorities: String,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// The exporter rejects its configuration.
    #[error("cannot set up the export of traces")]
    Exporter(#[from] ExporterBuildError),
}

/// The tracer provider, whose batch processor exports spans on a thread of its own.
pub(super) struct Traces {
    provider: SdkTracerProvider,
}

impl Traces {
    /// Creates the provider from the environment; `None` if traces are off. Sends nothing yet. The
    /// exporter sends its requests on `runtime`.
    ///
    /// # Errors
    /// [`TracesError`]
    pub(super) fn prepare(runtime: &Handle) -> Result<Option<Self>, TracesError> {
        let Some(endpoint) = endpoint()? else {
            return Ok(None);
        };
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Collector::new(endpoint, runtime.clone())?)
            .build()?;
        let provider = SdkTracerProvider::builder()
            .with_resource(resource())
            .with_batch_exporter(exporter)
            .build();
        Ok(Some(Self { provider }))
    }

    /// The tracer of this process.
    pub(super) fn tracer(&self) -> SdkTracer {
        self.provider.tracer(env!("CARGO_PKG_NAME"))
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

/// The value of `OTEL_EXPORTER_OTLP_TRACES_` and `name`, or else of the variable without `TRACES_`. An empty
/// one counts as unset.
fn variable(name: &str) -> Option<String> {
    ["TRACES_", ""].iter().find_map(|traces| {
        let value = std::env::var(format!("OTEL_EXPORTER_OTLP_{traces}{name}"));
        value.ok().filter(|value| !value.is_empty())
    })
}

/// The URL of the collector; `None` if traces are off.
fn endpoint() -> Result<Option<Uri>, TracesError> {
    let is = |name, value| std::env::var(name).is_ok_and(|it| it.eq_ignore_ascii_case(value));
    let is_off = is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none");
    let Some(endpoint) = variable("ENDPOINT").filter(|_| !is_off) else {
        return Ok(None);
    };
    match endpoint.parse::<Uri>() {
        Ok(url) if matches!(url.scheme_str(), Some("http" | "https")) => Ok(Some(url)),
        _ => Err(TracesError::Endpoint),
    }
}

/// The attributes of this process. Those of the environment take precedence.
fn resource() -> Resource {
    let resource = Resource::builder_empty()
        .with_service_name(env!("CARGO_PKG_NAME"))
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .with_detector(Box::new(TelemetryResourceDetector))
        .with_detector(Box::new(EnvResourceDetector::new()));
    match std::env::var("OTEL_SERVICE_NAME") {
        Ok(name) if !name.is_empty() => resource.with_service_name(name).build(),
        _ => resource.build(),
    }
}

/// The client of the collector. The SDK has none that works on a thread without a reactor, as that of its
/// batch processor, and does not link HTTP/2 or reqwest.
#[derive(Debug)]
struct Collector {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    /// Time limit of a request and its response. The SDK leaves it to its client.
    limit: Duration,
    runtime: Handle,
    /// Whether the last request failed. Only a change is logged.
    is_away: AtomicBool,
}

impl Collector {
    fn new(endpoint: Uri, runtime: Handle) -> Result<Self, TracesError> {
        let limit = variable("TIMEOUT").and_then(|limit| limit.parse().ok());
        let file = variable("CERTIFICATE").map(PathBuf::from);
        let needs_system = file.is_none() && endpoint.scheme_str() == Some("https");
        // TLS as for the API server, which also reads the file again when it changes.
        let mut config = Config::new(endpoint);
        config.root_cert = (!needs_system).then(Vec::new);
        config.root_cert_file = file.clone();
        let connector = config.rustls_https_connector();
        let connector = connector.map_err(|source| TracesError::Tls {
            authorities: file.map_or("the system".to_owned(), |file| file.display().to_string()),
            source: Box::new(source),
        })?;
        Ok(Self {
            client: Client::builder(TokioExecutor::new()).build(connector),
            limit: limit.map_or(TIMEOUT, Duration::from_millis),
            runtime,
            is_away: AtomicBool::new(false),
        })
    }

    fn log_change(&self, failure: Option<String>) {
        if self.is_away.swap(failure.is_some(), Ordering::Relaxed) == failure.is_some() {
            return;
        }
        match failure {
            Some(error) => {
                tracing::warn!(
                    error,
                    "traces cannot be exported; spans are lost until they can"
                );
            }
            None => tracing::info!("traces are exported again"),
        }
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
            let response = client.request(request.map(Full::new)).await?;
            let (head, body) = response.into_parts();
            let body = body.collect().await?;
            Ok::<_, HttpError>(Response::from_parts(head, body.to_bytes()))
        };
        let exchange = self
            .runtime
            .spawn(async move { timeout(limit, exchange).await? });
        Box::pin(async move {
            let response = exchange.await.unwrap_or_else(|error| Err(error.into()));
            self.log_change(match &response {
                Ok(response) if response.status().is_success() => None,
                Ok(response) => Some(format!("the collector answers {}", response.status())),
                Err(error) => Some(error_report(&**error)),
            });
            response
        })
    }
}

#[cfg(test)]
mod tests;
