//! Traces over OTLP: the batch processor and the exporter of OpenTelemetry's SDK, with counters of spans
//! and a transport. The SDK reads the standard variables (endpoint, headers, sampler, resource, batches);
//! this file reads only those that the SDK lacks. Does not decide what is traced. Used by the start of the
//! process; without an endpoint nothing of it exists.

mod counted;
mod transport;

use std::convert::Infallible;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use http::Uri;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{Key, KeyValue};
use opentelemetry_otlp::{
    ExporterBuildError, OTEL_EXPORTER_OTLP_TIMEOUT_DEFAULT, SpanExporter, WithExportConfig as _,
    WithHttpConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::{
    EnvResourceDetector, ResourceDetector as _, TelemetryResourceDetector,
};
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use percent_encoding::percent_decode_str;
use prometheus_client::registry::Registry;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use counted::Spans;
use transport::Transport;

/// Time limit for the last batches during the stop.
pub(super) const LAST_EXPORT: Duration = Duration::from_millis(800);

/// Why traces cannot be exported with this configuration.
#[derive(Debug, thiserror::Error)]
pub enum TracesError {
    /// A variable has an invalid value.
    #[error("{variable}: give {expected}")]
    Variable {
        /// Its name.
        variable: &'static str,
        /// The valid values.
        expected: &'static str,
    },
    /// The CA certificates of the collector cannot be read.
    #[error("cannot use {} of OTEL_EXPORTER_OTLP_CERTIFICATE as certificates in PEM", file.display())]
    Authorities {
        /// Their file.
        file: PathBuf,
        /// The cause.
        source: rustls::pki_types::pem::Error,
    },
    /// TLS cannot be set up.
    #[error("cannot set up TLS for traces")]
    Tls(#[from] rustls::Error),
    /// The exporter rejects its configuration.
    #[error("cannot set up the export of traces")]
    Exporter(#[from] ExporterBuildError),
}

/// The tracer provider, whose batch processor exports spans on a thread of its own.
pub(super) struct Traces {
    provider: SdkTracerProvider,
    spans: Spans,
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
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Transport::new(&settings, runtime.clone())?)
            .with_timeout(settings.timeout)
            .build()?;
        let spans = Spans::default();
        let provider = SdkTracerProvider::builder()
            .with_resource(resource(
                &EnvResourceDetector::new().detect(),
                variable("OTEL_SERVICE_NAME"),
            ))
            .with_span_processor(spans.processor(exporter))
            .build();
        Ok(Some(Self { provider, spans }))
    }

    /// The tracer of this process.
    pub(super) fn tracer(&self) -> SdkTracer {
        self.provider.tracer(env!("CARGO_PKG_NAME"))
    }

    /// Registers the counters of spans in `registry`.
    pub(super) fn register(&self, registry: &mut Registry) {
        self.spans.register(registry);
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

/// The variables that the SDK does not read, or does not check.
#[derive(Debug, PartialEq)]
struct Settings {
    /// The URL of the collector, `http` or `https`.
    endpoint: Uri,
    /// Time limit of one request, and of one export with its retries.
    timeout: Duration,
    /// A file with the CA certificates for the collector; `None` uses those of the system.
    authorities: Option<PathBuf>,
}

impl Settings {
    /// `None` if there is no endpoint, or if traces are disabled. Variables for traces take precedence
    /// over those for all signals; an empty value counts as unset.
    fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, TracesError> {
        let first = |names: &[&'static str]| {
            names.iter().find_map(|name| {
                let value = variable(name).filter(|value| !value.is_empty());
                value.map(|value| (*name, value))
            })
        };
        match first(&["OTEL_TRACES_EXPORTER"]) {
            Some((_, value)) if value == "none" => return Ok(None),
            Some((variable, value)) if value != "otlp" => {
                let expected = "otlp or none";
                return Err(TracesError::Variable { variable, expected });
            }
            _ => {}
        }
        let is_disabled = first(&["OTEL_SDK_DISABLED"])
            .is_some_and(|(_, value)| value.eq_ignore_ascii_case("true"));
        let endpoint = first(&[
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            "OTEL_EXPORTER_OTLP_ENDPOINT",
        ]);
        let Some((variable, endpoint)) = endpoint.filter(|_| !is_disabled) else {
            return Ok(None);
        };
        let endpoint: Option<Uri> = endpoint.parse().ok();
        let endpoint = endpoint
            .filter(|url| matches!(url.scheme_str(), Some("http" | "https")))
            .ok_or(TracesError::Variable {
                variable,
                expected: "a URL such as http://collector.monitoring.svc:4318",
            })?;
        let timeout = match first(&[
            "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
            "OTEL_EXPORTER_OTLP_TIMEOUT",
        ]) {
            None => OTEL_EXPORTER_OTLP_TIMEOUT_DEFAULT,
            Some((variable, value)) => {
                let limit: Result<NonZeroU32, _> = value.parse();
                let expected = "a number of milliseconds greater than 0";
                let limit = limit.map_err(|_| TracesError::Variable { variable, expected })?;
                Duration::from_millis(limit.get().into())
            }
        };
        let authorities = first(&[
            "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE",
            "OTEL_EXPORTER_OTLP_CERTIFICATE",
        ]);
        Ok(Some(Self {
            endpoint,
            timeout,
            authorities: authorities.map(|(_, file)| file.into()),
        }))
    }
}

/// An environment variable. Invalid UTF-8 becomes a value that is no URL, number or file.
fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
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
