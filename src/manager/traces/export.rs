//! The queue of ended spans and its export task. The SDK's own batch processor needs a thread, and does
//! not report how many spans it dropped.

use std::pin::pin;
use std::time::Duration;

use futures::future::{Either, select};
use opentelemetry::Context;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{Span, SpanData, SpanExporter, SpanProcessor};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::time::{Instant, timeout, timeout_at};

/// Maximum number of queued spans: the SDK's default, `OTEL_BSP_MAX_QUEUE_SIZE`. About 2 MiB.
const QUEUE: usize = 2048;
/// Maximum number of spans in one export: `OTEL_BSP_MAX_EXPORT_BATCH_SIZE`.
const BATCH: usize = 512;
/// Maximum delay between the first span of a batch and its export: `OTEL_BSP_SCHEDULE_DELAY`.
const DELAY: Duration = Duration::from_secs(5);

/// Counters of spans by result.
#[derive(Debug, Clone, Default)]
pub(super) struct Spans {
    ended: Family<Labels, Counter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    result: &'static str,
}

impl Spans {
    pub(super) fn register(&self, registry: &mut Registry) {
        for result in ["exported", "failed", "dropped"] {
            let _ = self.counter(result);
        }
        registry.register(
            "quartet_operator_trace_spans",
            "Spans by what became of them: exported, failed to be, or dropped as too many waited",
            self.ended.clone(),
        );
    }

    fn counter(&self, result: &'static str) -> Counter {
        self.ended.get_or_create(&Labels { result }).clone()
    }

    fn count(&self, result: &'static str, spans: usize) {
        let spans = u64::try_from(spans).unwrap_or(u64::MAX);
        self.counter(result).inc_by(spans);
    }
}

/// The sender of the queue.
#[derive(Debug)]
pub(super) struct Entrance {
    sender: Sender<SpanData>,
    dropped: Counter,
}

impl SpanProcessor for Entrance {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if !span.span_context.is_sampled() {
            return;
        }
        if self.sender.try_send(span).is_err() {
            self.dropped.inc();
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// The receiver of the queue.
pub(super) struct Export<E> {
    waiting: Receiver<SpanData>,
    exporter: E,
    /// Timeout of one export.
    limit: Duration,
    log: ExportLog,
}

/// Records the results of exports: counts each, and logs when the collector becomes unavailable and
/// available.
struct ExportLog {
    spans: Spans,
    is_away: bool,
}

/// A queue of spans for `exporter`, with the timeout `limit` for each export.
pub(super) fn queue<E>(exporter: E, limit: Duration, spans: Spans) -> (Entrance, Export<E>) {
    let (sender, waiting) = mpsc::channel(QUEUE);
    let entrance = Entrance {
        sender,
        dropped: spans.counter("dropped"),
    };
    let export = Export {
        waiting,
        exporter,
        limit,
        log: ExportLog {
            spans,
            is_away: false,
        },
    };
    (entrance, export)
}

impl<E: SpanExporter> Export<E> {
    /// Exports until `stop`, and then the remaining spans for at most `last`.
    pub(super) async fn run(mut self, stop: impl Future<Output = ()>, last: Duration) {
        let mut stop = pin!(stop);
        loop {
            let mut batch = Vec::new();
            tokio::select! {
                biased;
                () = &mut stop => return self.finish(batch, Instant::now() + last).await,
                () = collect(&mut self.waiting, &mut batch) => {}
            }
            if batch.is_empty() {
                // The provider was dropped.
                return;
            }
            let stopping_until = {
                let sending = pin!(send(&self.exporter, batch, self.limit));
                match select(sending, &mut stop).await {
                    Either::Left(((sent, exported), _)) => {
                        self.log.note(sent, exported);
                        None
                    }
                    Either::Right(((), sending)) => {
                        let until = Instant::now() + last;
                        if let Ok((sent, exported)) = timeout_at(until, sending).await {
                            self.log.note(sent, exported);
                        }
                        Some(until)
                    }
                }
            };
            if let Some(until) = stopping_until {
                return self.finish(Vec::new(), until).await;
            }
        }
    }

    /// Exports `batch` and all queued spans, until the deadline.
    async fn finish(&mut self, mut batch: Vec<SpanData>, until: Instant) {
        self.waiting.close();
        while Instant::now() < until {
            while batch.len() < BATCH
                && let Ok(span) = self.waiting.try_recv()
            {
                batch.push(span);
            }
            if batch.is_empty() {
                return;
            }
            let left = until.saturating_duration_since(Instant::now());
            let batch = std::mem::take(&mut batch);
            let (sent, exported) = send(&self.exporter, batch, left.min(self.limit)).await;
            self.log.note(sent, exported);
        }
    }
}

/// Waits for a span, and then for others until `batch` is full or the delay of the first has passed.
/// Cancel-safe: received spans are in `batch`.
async fn collect(waiting: &mut Receiver<SpanData>, batch: &mut Vec<SpanData>) {
    waiting.recv_many(batch, BATCH).await;
    let due = Instant::now() + DELAY;
    while batch.len() < BATCH {
        let room = BATCH - batch.len();
        match timeout_at(due, waiting.recv_many(batch, room)).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

/// Exports a batch within `limit`; returns the number of spans and the result.
async fn send(
    exporter: &impl SpanExporter,
    batch: Vec<SpanData>,
    limit: Duration,
) -> (usize, OTelSdkResult) {
    let sent = batch.len();
    let exported = timeout(limit, exporter.export(batch)).await;
    (sent, exported.unwrap_or(Err(OTelSdkError::Timeout(limit))))
}

impl ExportLog {
    fn note(&mut self, sent: usize, exported: OTelSdkResult) {
        match exported {
            Ok(()) => {
                self.spans.count("exported", sent);
                if std::mem::take(&mut self.is_away) {
                    tracing::info!("traces are exported again");
                }
            }
            Err(error) => {
                self.spans.count("failed", sent);
                if !std::mem::replace(&mut self.is_away, true) {
                    tracing::warn!(%error, "traces cannot be exported; spans are lost until they can");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
