//! The queue and its task with a scripted exporter, in paused time.

use std::sync::{Arc, Mutex};

use opentelemetry::InstrumentationScope;
use opentelemetry::trace::{
    SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry_sdk::trace::{SpanEvents, SpanLinks};
use tokio::sync::Notify;
use tokio::time::sleep;

use super::*;
use crate::manager::telemetry::tests::log_lines;

const LIMIT: Duration = Duration::from_secs(10);
const LAST: Duration = Duration::from_millis(800);

/// What the exporter does with a batch.
#[derive(Debug, Clone, Copy)]
enum Behaviour {
    Takes,
    Refuses,
    Hangs,
}

#[derive(Debug, Clone)]
struct Collector {
    behaviour: Arc<Mutex<Behaviour>>,
    batches: Arc<Mutex<Vec<usize>>>,
}

impl SpanExporter for Collector {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let behaviour = *self.behaviour.lock().unwrap();
        match behaviour {
            Behaviour::Takes => {
                self.batches.lock().unwrap().push(batch.len());
                Ok(())
            }
            Behaviour::Refuses => Err(OTelSdkError::InternalFailure("no".to_owned())),
            Behaviour::Hangs => std::future::pending().await,
        }
    }
}

/// A running export.
struct Stage {
    collector: Collector,
    entrance: Entrance,
    spans: Spans,
    stop: Arc<Notify>,
    running: tokio::task::JoinHandle<()>,
}

impl Stage {
    fn set(behaviour: Behaviour) -> Self {
        let collector = Collector {
            behaviour: Arc::new(Mutex::new(behaviour)),
            batches: Arc::default(),
        };
        let spans = Spans::default();
        let (entrance, export) = queue(collector.clone(), LIMIT, spans.clone());
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let stopped = async move { stopped.notified().await };
        Self {
            collector,
            entrance,
            spans,
            stop,
            running: tokio::spawn(export.run(stopped, LAST)),
        }
    }

    fn end_spans(&self, count: usize) {
        for _ in 0..count {
            self.entrance.on_end(span(TraceFlags::SAMPLED));
        }
    }

    fn batches(&self) -> Vec<usize> {
        self.collector.batches.lock().unwrap().clone()
    }

    fn behaves(&self, behaviour: Behaviour) {
        *self.collector.behaviour.lock().unwrap() = behaviour;
    }

    /// Spans that were exported, failed and were dropped.
    fn counted(&self) -> [u64; 3] {
        ["exported", "failed", "dropped"].map(|result| self.spans.counter(result).get())
    }

    /// Stops the export; returns how long that took.
    async fn stop(self) -> Duration {
        let began = Instant::now();
        self.stop.notify_one();
        self.running.await.unwrap();
        began.elapsed()
    }
}

fn span(flags: TraceFlags) -> SpanData {
    let context = SpanContext::new(
        TraceId::from(1),
        SpanId::from(2),
        flags,
        false,
        TraceState::default(),
    );
    SpanData {
        span_context: context,
        parent_span_id: SpanId::INVALID,
        parent_span_is_remote: false,
        span_kind: SpanKind::Internal,
        name: "a".into(),
        start_time: std::time::UNIX_EPOCH,
        end_time: std::time::UNIX_EPOCH,
        attributes: Vec::new(),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: Status::Unset,
        instrumentation_scope: InstrumentationScope::default(),
    }
}

#[tokio::test(start_paused = true)]
async fn spans_wait_for_others_but_not_longer_than_the_delay() {
    let stage = Stage::set(Behaviour::Takes);
    stage.end_spans(3);
    sleep(DELAY - Duration::from_millis(1)).await;
    assert_eq!(stage.batches(), [0; 0]);
    sleep(Duration::from_millis(2)).await;
    assert_eq!(stage.batches(), [3]);
    // Full batches are exported at once.
    stage.end_spans(2 * BATCH + 1);
    sleep(Duration::from_millis(1)).await;
    assert_eq!(stage.batches(), [3, BATCH, BATCH]);
    sleep(DELAY).await;
    assert_eq!(stage.batches(), [3, BATCH, BATCH, 1]);
    assert_eq!(stage.counted(), [2 * BATCH as u64 + 4, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_span_that_is_not_sampled_is_not_exported() {
    let stage = Stage::set(Behaviour::Takes);
    stage.entrance.on_end(span(TraceFlags::NOT_SAMPLED));
    sleep(2 * DELAY).await;
    assert_eq!(stage.counted(), [0, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn what_no_collector_takes_is_counted_and_waits_for_nothing() {
    let stage = Stage::set(Behaviour::Hangs);
    stage.end_spans(BATCH);
    sleep(Duration::from_millis(1)).await;
    // The first batch is in progress; the queue holds its capacity and no more.
    stage.end_spans(QUEUE + 7);
    assert_eq!(stage.counted(), [0, 0, 7]);
    sleep(LIMIT + Duration::from_secs(1)).await;
    assert_eq!(stage.counted(), [0, BATCH as u64, 7]);
    stage.behaves(Behaviour::Refuses);
    sleep(LIMIT).await;
    assert_eq!(stage.counted(), [0, (BATCH + QUEUE) as u64, 7]);
    stage.behaves(Behaviour::Takes);
    stage.end_spans(1);
    sleep(DELAY + Duration::from_secs(1)).await;
    assert_eq!(stage.batches(), [1]);
}

#[test]
fn a_collector_that_goes_away_and_comes_back_is_logged_once_each() {
    let (lines, writer) = log_lines();
    tracing::subscriber::with_default(writer, || {
        let mut log = ExportLog {
            spans: Spans::default(),
            is_away: false,
        };
        let no = || Err(OTelSdkError::InternalFailure("no".to_owned()));
        for exported in [Ok(()), no(), Ok(()), no(), no(), Ok(()), Ok(())] {
            log.note(1, exported);
        }
    });
    let lines = lines.written();
    let said = ["traces cannot be exported", "traces are exported again"].repeat(2);
    assert_eq!(lines.len(), said.len(), "{lines:?}");
    for (line, said) in lines.iter().zip(said) {
        assert!(line.contains(said), "{line}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_exports_what_waits() {
    let stage = Stage::set(Behaviour::Takes);
    stage.end_spans(BATCH + 1);
    sleep(Duration::from_millis(1)).await;
    stage.end_spans(1);
    let batches = Arc::clone(&stage.collector.batches);
    assert!(stage.stop().await < Duration::from_millis(1));
    assert_eq!(*batches.lock().unwrap(), [BATCH, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_a_collector_that_hangs() {
    for under_way in [0, BATCH] {
        let stage = Stage::set(Behaviour::Hangs);
        stage.end_spans(under_way);
        sleep(Duration::from_millis(1)).await;
        stage.end_spans(1);
        let took = stage.stop().await;
        assert!(
            took >= LAST && took < LAST + Duration::from_millis(5),
            "{took:?}"
        );
    }
}
