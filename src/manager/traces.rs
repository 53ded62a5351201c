//! Traces over OTLP: the batch processor and the exporter of OpenTelemetry's SDK, with a transport
//! of this process. The SDK reads the standard variables (endpoint, headers, sampler, resource, batches);
//! this file reads only those that the SDK lacks. Does not decide what is traced. Used by the start of the
//! process; without an endpoint nothing of it exists.

mod reported;
mod settings;
mod transport;

use std::convert::Infallible;
use std::time::Duration;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{Key, KeyValue};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::{
    EnvResourceDetector, ResourceDetector as _, TelemetryResourceDetector,
};
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use percent_encoding::percent_decode_str;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use reported::Reported;
pub use settings::TracesError;
use settings::{Settings, variable};
use transport::{LastError, Transport};

/// Time limit for the last batches during the stop.
pub(super) const LAST_EXPORT: Duration = Duration::from_millis(800);

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
        let Some(settings) = Settings::read(variable)? else {
            return Ok(None);
        };
        let last_error = LastError::default();
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Transport::new(
                &settings,
                runtime.clone(),
                last_error.clone(),
            )?)
            .with_timeout(settings.timeout)
            .build()?;
        let provider = SdkTracerProvider::builder()
            .with_resource(resource(
                &EnvResourceDetector::new().detect(),
                variable("OTEL_SERVICE_NAME"),
            ))
            .with_span_processor(Reported::new(exporter, last_error).in_batches())
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
        // The exporter has logged why a batch failed.
        let _ = tokio::task::spawn_blocking(shutdown).await;
        Ok(())
    }
}

/// The attributes of this process. `given` are those of `OTEL_RESOURCE_ATTRIBUTES`, whose values are
/// percent-encoded; the SDK does not decode them.
fn resource(given: &Resource, service_name: Option<String>) -> Resource {
    let decoded = given.iter().map(|(key, value)| {
        let value = value.as_str();
        let value = percent_decode_str(&value).decode_utf8_lossy();
        KeyValue::new(key.clone(), value.into_owned())
    });
    let service_name = service_name.filter(|name| !name.is_empty());
    Resource::builder_empty()
        .with_detector(Box::new(TelemetryResourceDetector))
        .with_service_name(env!("CARGO_PKG_NAME"))
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .with_attributes(decoded)
        .with_attributes(service_name.map(|name| KeyValue::new(Key::new("service.name"), name)))
        .build()
}

#[cfg(test)]
mod tests;
