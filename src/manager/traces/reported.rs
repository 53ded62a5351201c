//! The exporter of the SDK, with a log line when the collector becomes unavailable and available. Does not
//! decide when a batch is exported.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, OTEL_BSP_SCHEDULE_DELAY,
    OTEL_BSP_SCHEDULE_DELAY_DEFAULT, SpanData, SpanExporter,
};

use super::transport::LastError;

/// An exporter whose failures are logged.
#[derive(Debug)]
pub(super) struct Reported<E> {
    exporter: E,
    /// Why the last request failed.
    last_error: LastError,
    /// Whether the last export failed.
    is_away: AtomicBool,
}

impl<E: SpanExporter + 'static> Reported<E> {
    pub(super) fn new(exporter: E, last_error: LastError) -> Self {
        let is_away = AtomicBool::new(false);
        Self {
            exporter,
            last_error,
            is_away,
        }
    }

    /// The SDK's batch processor, which exports on a thread of its own.
    pub(super) fn in_batches(self) -> BatchSpanProcessor {
        let delay = delay(std::env::var(OTEL_BSP_SCHEDULE_DELAY).ok().as_deref());
        let config = BatchConfigBuilder::default().with_scheduled_delay(delay);
        BatchSpanProcessor::new(self, config.build())
    }
}

/// The value of `OTEL_BSP_SCHEDULE_DELAY`, in milliseconds, or the default if it is not a number from 1 on.
/// With 0, the thread of the SDK never waits: it is busy all the time (opentelemetry_sdk 0.33,
/// `src/trace/span_processor.rs`: `recv_timeout(0)` in a loop).
fn delay(variable: Option<&str>) -> Duration {
    let delay: Option<u64> = variable.and_then(|delay| delay.parse().ok());
    let delay = delay.filter(|delay| *delay > 0);
    delay.map_or(OTEL_BSP_SCHEDULE_DELAY_DEFAULT, Duration::from_millis)
}

impl<E: SpanExporter> SpanExporter for Reported<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let exported = self.exporter.export(batch).await;
        let was_away = self.is_away.swap(exported.is_err(), Ordering::Relaxed);
        match &exported {
            Ok(()) if was_away => tracing::info!("traces are exported again"),
            Err(error) if !was_away => {
                let reason = self.last_error.lock().clone();
                let error = reason.unwrap_or_else(|| error.to_string());
                tracing::warn!(%error, "traces cannot be exported; spans are lost until they can");
            }
            _ => {}
        }
        exported
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

#[cfg(test)]
mod tests;
