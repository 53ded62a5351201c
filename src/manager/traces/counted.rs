//! Counts what becomes of spans, around the SDK's batch processor and an exporter, and logs when the
//! collector becomes unavailable and available. The SDK reports dropped spans only at its shutdown. Does
//! not decide when a batch is exported.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use opentelemetry::Context;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, OTEL_BSP_SCHEDULE_DELAY,
    OTEL_BSP_SCHEDULE_DELAY_DEFAULT, Span, SpanData, SpanExporter, SpanProcessor,
};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::transport::LastError;

/// Default of `OTEL_BSP_MAX_QUEUE_SIZE`. About 2 MiB.
const QUEUE: usize = 2048;
/// Largest queue, about 64 MiB. The SDK allocates all of it at the start.
const LARGEST_QUEUE: usize = 65_536;

/// Counters of spans by result, the length of the queue, and the last error of the transport.
#[derive(Debug, Clone, Default)]
pub(super) struct Spans {
    ended: Family<Labels, Counter>,
    queued: Arc<AtomicUsize>,
    pub(super) last_error: LastError,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    result: &'static str,
}

impl Spans {
    pub(super) fn register(&self, registry: &mut Registry) {
        for result in ["exported", "failed", "dropped"] {
            self.count(result, 0);
        }
        registry.register(
            "quartet_operator_trace_spans",
            "Spans by what became of them: exported, failed to be, or dropped as too many waited",
            self.ended.clone(),
        );
    }

    fn count(&self, result: &'static str, spans: usize) {
        let spans = u64::try_from(spans).unwrap_or(u64::MAX);
        self.ended.get_or_create(&Labels { result }).inc_by(spans);
    }

    /// A batch processor with a thread of its own, whose spans are counted here.
    pub(super) fn processor<E: SpanExporter + 'static>(&self, exporter: E) -> Counted {
        let capacity = capacity(std::env::var("OTEL_BSP_MAX_QUEUE_SIZE").ok().as_deref());
        let exporter = CountedExporter {
            exporter,
            spans: self.clone(),
            is_away: AtomicBool::new(false),
        };
        let delay = delay(std::env::var(OTEL_BSP_SCHEDULE_DELAY).ok().as_deref());
        let config = BatchConfigBuilder::default()
            .with_max_queue_size(capacity)
            .with_scheduled_delay(delay);
        Counted {
            batches: BatchSpanProcessor::new(exporter, config.build()),
            spans: self.clone(),
            capacity,
        }
    }
}

/// The value of `OTEL_BSP_MAX_QUEUE_SIZE`, or the default if it is not a number from 1 to
/// [`LARGEST_QUEUE`].
fn capacity(variable: Option<&str>) -> usize {
    let size = variable.and_then(|size| size.parse().ok());
    size.filter(|size| (1..=LARGEST_QUEUE).contains(size))
        .unwrap_or(QUEUE)
}

/// The value of `OTEL_BSP_SCHEDULE_DELAY`, in milliseconds, or the default if it is not a number from 1 on.
/// With 0, the thread of the SDK never waits: it is busy all the time (opentelemetry_sdk 0.33,
/// `src/trace/span_processor.rs`: `recv_timeout(0)` in a loop).
fn delay(variable: Option<&str>) -> Duration {
    let delay: Option<u64> = variable.and_then(|delay| delay.parse().ok());
    let delay = delay.filter(|delay| *delay > 0);
    delay.map_or(OTEL_BSP_SCHEDULE_DELAY_DEFAULT, Duration::from_millis)
}

/// A batch processor. Drops the spans for which the queue of `batches` has no space.
#[derive(Debug)]
pub(super) struct Counted {
    batches: BatchSpanProcessor,
    spans: Spans,
    capacity: usize,
}

impl SpanProcessor for Counted {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.batches.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        let more = |queued| (queued < self.capacity).then_some(queued + 1);
        let queued = &self.spans.queued;
        match queued.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more) {
            Ok(_) => self.batches.on_end(span),
            Err(_) => self.spans.count("dropped", 1),
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.batches.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.batches.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.batches.set_resource(resource);
    }
}

/// An exporter whose results are counted and logged.
#[derive(Debug)]
struct CountedExporter<E> {
    exporter: E,
    spans: Spans,
    /// Whether the last export failed.
    is_away: AtomicBool,
}

impl<E: SpanExporter> SpanExporter for CountedExporter<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let sent = batch.len();
        // The processor has taken them from its queue.
        self.spans.queued.fetch_sub(sent, Ordering::SeqCst);
        let exported = self.exporter.export(batch).await;
        let was_away = self.is_away.swap(exported.is_err(), Ordering::Relaxed);
        match &exported {
            Ok(()) => {
                self.spans.count("exported", sent);
                if was_away {
                    tracing::info!("traces are exported again");
                }
            }
            Err(error) => {
                self.spans.count("failed", sent);
                if !was_away {
                    let reason = self.spans.last_error.lock().clone();
                    let error = reason.unwrap_or_else(|| error.to_string());
                    tracing::warn!(%error, "traces cannot be exported; spans are lost until they can");
                }
            }
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
