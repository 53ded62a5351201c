//! The SDK's processor with a scripted exporter. Its thread cannot be paused: the tests wait for what it
//! does, and only the one of a stop measures time.

use std::sync::{Arc, mpsc};

use futures::FutureExt as _;
use opentelemetry::trace::{Tracer as _, TracerProvider as _};
use opentelemetry_otlp::{WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::error::OTelSdkError;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::manager::telemetry::tests::log_lines;
use crate::manager::traces::settings::Settings;
use crate::manager::traces::transport::Transport;
use crate::manager::traces::{LAST_EXPORT, Traces};

/// Default of `OTEL_BSP_MAX_EXPORT_BATCH_SIZE`.
const BATCH: usize = 512;
/// Default of `OTEL_BSP_MAX_QUEUE_SIZE`.
const QUEUE: usize = 2048;

/// Reports each batch, and waits for a permit.
#[derive(Debug)]
struct Collector {
    batches: mpsc::Sender<usize>,
    permits: Arc<Semaphore>,
    is_down: Arc<AtomicBool>,
}

impl SpanExporter for Collector {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let _ = self.batches.send(batch.len());
        self.permits.acquire().await.unwrap().forget();
        match self.is_down.load(Ordering::SeqCst) {
            true => Err(OTelSdkError::InternalFailure("no".to_owned())),
            false => Ok(()),
        }
    }
}

/// A provider that exports to a [`Collector`].
struct Fixture {
    traces: Traces,
    batches: mpsc::Receiver<usize>,
    permits: Arc<Semaphore>,
}

impl Fixture {
    fn new(sampler: Sampler, permits: usize) -> Self {
        let (sender, batches) = mpsc::channel();
        let permits = Arc::new(Semaphore::new(permits));
        let collector = Collector {
            batches: sender,
            permits: Arc::clone(&permits),
            is_down: Arc::default(),
        };
        let provider = SdkTracerProvider::builder()
            .with_sampler(sampler)
            .with_span_processor(Reported::new(collector, LastError::default()).in_batches())
            .build();
        Self {
            traces: Traces { provider },
            batches,
            permits,
        }
    }

    fn end_spans(&self, count: usize) {
        let tracer = self.traces.provider.tracer("test");
        for _ in 0..count {
            drop(tracer.start("a"));
        }
    }
}

#[test]
fn sampled_spans_are_exported_and_others_are_not() {
    for (sampler, exported) in [(Sampler::AlwaysOn, 3), (Sampler::AlwaysOff, 0)] {
        let fixture = Fixture::new(sampler, 9);
        fixture.end_spans(3);
        fixture.traces.provider.force_flush().unwrap();
        assert_eq!(fixture.batches.try_iter().sum::<usize>(), exported);
    }
}

#[test]
fn spans_that_a_collector_does_not_accept_wait_up_to_the_length_of_the_queue() {
    let fixture = Fixture::new(Sampler::AlwaysOn, 0);
    fixture.end_spans(BATCH);
    assert_eq!(fixture.batches.recv(), Ok(BATCH));
    // The first batch is in progress; the queue holds its capacity and no more.
    fixture.end_spans(QUEUE + 7);
    fixture.permits.add_permits(9);
    fixture.traces.provider.force_flush().unwrap();
    assert_eq!(fixture.batches.try_iter().sum::<usize>(), QUEUE);
}

#[test]
fn a_collector_that_goes_away_and_comes_back_is_logged_once_each() {
    let (lines, writer) = log_lines();
    tracing::subscriber::with_default(writer, || {
        let (batches, _received) = mpsc::channel();
        let is_down = Arc::new(AtomicBool::new(false));
        let collector = Collector {
            batches,
            permits: Arc::new(Semaphore::new(9)),
            is_down: Arc::clone(&is_down),
        };
        let exporter = Reported::new(collector, LastError::default());
        for down in [false, true, false, true, true, false, false] {
            is_down.store(down, Ordering::SeqCst);
            let exported = exporter.export(Vec::new()).now_or_never();
            assert_eq!(exported.map(|exported| exported.is_err()), Some(down));
        }
    });
    let lines = lines.written();
    let expected = ["traces cannot be exported", "traces are exported again"].repeat(2);
    assert_eq!(lines.len(), expected.len(), "{lines:?}");
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.contains(expected), "{line}");
    }
}

#[tokio::test]
async fn a_line_about_a_failed_export_names_the_error_of_the_transport() {
    let (lines, writer) = log_lines();
    let _logs = tracing::subscriber::set_default(writer);
    // It is closed at the end of the statement.
    let closed = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr();
    let endpoint = format!("http://{}", closed.unwrap());
    let settings = Settings {
        endpoint: endpoint.parse().unwrap(),
        timeout: Duration::from_secs(10),
        authorities: None,
    };
    let last_error = LastError::default();
    let transport = Transport::new(&settings, Handle::current(), last_error.clone()).unwrap();
    let exporter = opentelemetry_otlp::SpanExporter::builder()
        .with_http()
        .with_http_client(transport)
        .with_endpoint(endpoint)
        // Shorter than the pause before a retry.
        .with_timeout(Duration::from_millis(1));
    let exporter = Reported::new(exporter.build().unwrap(), last_error);
    assert!(exporter.export(Vec::new()).await.is_err());
    let lines = lines.written();
    let is_it = |line: &&String| line.contains("traces cannot be exported");
    let line = lines.iter().find(is_it).unwrap();
    assert!(line.contains("refused"), "{line}");
}

#[tokio::test]
async fn a_stop_exports_the_remaining_spans() {
    let fixture = Fixture::new(Sampler::AlwaysOn, 9);
    fixture.end_spans(BATCH + 2);
    let stop = CancellationToken::new();
    stop.cancel();
    let Ok(()) = fixture.traces.run(stop).await;
    assert_eq!(fixture.batches.iter().sum::<usize>(), BATCH + 2);
}

#[tokio::test]
async fn a_stop_does_not_wait_for_a_collector_that_hangs() {
    for in_progress in [0, BATCH] {
        let fixture = Fixture::new(Sampler::AlwaysOn, 0);
        fixture.end_spans(in_progress);
        if in_progress > 0 {
            assert_eq!(fixture.batches.recv(), Ok(in_progress));
        }
        fixture.end_spans(1);
        let stop = CancellationToken::new();
        stop.cancel();
        let began = Instant::now();
        let Ok(()) = fixture.traces.run(stop).await;
        let took = began.elapsed();
        assert!(took >= LAST_EXPORT && took < 10 * LAST_EXPORT, "{took:?}");
        fixture.permits.add_permits(9);
    }
}

#[test]
fn a_delay_is_never_so_short_that_the_thread_does_not_wait() {
    let default = [None, Some("0"), Some("-1"), Some("0.5"), Some("soon")];
    let seconds = default.map(|variable| delay(variable).as_secs());
    assert_eq!(seconds, [5; 5]);
    assert_eq!(delay(Some("1")), Duration::from_millis(1));
    assert_eq!(delay(Some("60000")), Duration::from_secs(60));
}
