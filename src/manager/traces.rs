//! Traces over OTLP: a bounded queue of spans and a task that sends them in batches, each with a
//! deadline. If the collector is slow or unavailable, spans are dropped and counted. Does not decide
//! what is traced. Not used without an endpoint.

mod export;
mod transport;

use std::path::PathBuf;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{
    ExporterBuildError, Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::{ResourceDetector as _, TelemetryResourceDetector};
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider, SpanExporter as _};
use prometheus_client::registry::Registry;

use super::shutdown::Shutdown;
use crate::config;
use export::{Export, Spans, queue};
use transport::Transport;

/// Time limit for the last batches during the stop.
pub(super) const LAST_EXPORT: Duration = Duration::from_millis(800);

/// Why traces cannot be exported with this configuration.
#[derive(Debug, thiserror::Error)]
pub enum TracesError {
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

/// The tracer provider and the export task.
pub(super) struct Traces {
    /// Dropping it stops the creation of spans.
    provider: SdkTracerProvider,
    export: Export<SpanExporter>,
    spans: Spans,
}

impl Traces {
    /// Creates everything but the task. Sends nothing, and needs no runtime.
    ///
    /// # Errors
    /// [`TracesError`]
    pub(super) fn prepare(config: &config::Traces) -> Result<Self, TracesError> {
        let mut headers = std::collections::HashMap::new();
        for (name, value) in &config.headers {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            headers.insert(name.to_string(), value);
        }
        let mut exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Transport::new(config)?)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(&config.endpoint)
            .with_timeout(config.timeout)
            .with_headers(headers)
            .build()?;
        let resource = resource(&config.resource);
        exporter.set_resource(&resource);
        let spans = Spans::default();
        let (processor, export) = queue(exporter, config.timeout, spans.clone());
        let provider = SdkTracerProvider::builder()
            .with_resource(resource)
            .with_sampler(sampler(config.sampler))
            .with_span_processor(processor)
            .build();
        Ok(Self {
            provider,
            export,
            spans,
        })
    }

    /// The tracer of this process.
    pub(super) fn tracer(&self) -> SdkTracer {
        self.provider.tracer(env!("CARGO_PKG_NAME"))
    }

    /// Registers the counters of spans in `registry`.
    pub(super) fn register(&self, registry: &mut Registry) {
        self.spans.register(registry);
    }

    /// Exports spans until `stop`, and then the remaining ones for at most [`LAST_EXPORT`].
    ///
    /// # Errors
    /// None: an unavailable collector is not an error.
    pub(super) async fn export(self, stop: Shutdown) -> Result<(), std::convert::Infallible> {
        let Self {
            provider, export, ..
        } = self;
        export.run(stop.stopped(), LAST_EXPORT).await;
        drop(provider);
        Ok(())
    }
}

fn resource(attributes: &[(String, String)]) -> Resource {
    let attributes = attributes.iter().cloned();
    Resource::builder_empty()
        .with_attributes(
            TelemetryResourceDetector
                .detect()
                .iter()
                .map(|(key, value)| KeyValue::new(key.clone(), value.clone())),
        )
        .with_attributes(attributes.map(|(key, value)| KeyValue::new(key, value)))
        .build()
}

fn sampler(config::Sampler { by_parent, ratio }: config::Sampler) -> Sampler {
    let own = match ratio {
        1.0 => Sampler::AlwaysOn,
        0.0 => Sampler::AlwaysOff,
        ratio => Sampler::TraceIdRatioBased(ratio),
    };
    match by_parent {
        true => Sampler::ParentBased(Box::new(own)),
        false => own,
    }
}
