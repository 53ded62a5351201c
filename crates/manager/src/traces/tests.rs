//! The SDK's batch processor and exporter with the client of this file, and a collector that is a script. The
//! thread of the processor cannot be paused: only the test of a stop measures time. `tests/manager` and
//! `tests/cluster` test the variables.

use std::net::SocketAddr;

use opentelemetry::Key;
use opentelemetry::trace::Tracer as _;
use opentelemetry_otlp::WithExportConfig as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::*;
use crate::tests::APPLICATION;

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

/// A collector that answers each request with `response`, or with nothing, and sends its first line.
async fn collector(response: Option<String>) -> (SocketAddr, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, received) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut bytes = [0; 16 * 1024];
            let length = stream.read(&mut bytes).await.unwrap();
            let text = String::from_utf8_lossy(&bytes[..length]);
            let _ = sender.send(text.lines().next().unwrap_or_default().to_owned());
            match &response {
                Some(response) => drop(stream.write_all(response.as_bytes()).await),
                None => drop(tokio::spawn(
                    async move { stream.read(&mut [0]).await.ok() },
                )),
            }
        }
    });
    (address, received)
}

fn client(address: SocketAddr, limit: Duration) -> Collector {
    let client = Collector::new(&format!("http://{address}"), &Handle::current());
    Collector {
        limit,
        ..client.unwrap()
    }
}

/// Exports to `address` as [`Traces::prepare`] does.
fn traces(address: SocketAddr) -> Traces {
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(client(address, TIMEOUT))
        .with_endpoint(format!("http://{address}/v1/traces"));
    let provider = SdkTracerProvider::builder().with_batch_exporter(exporter.build().unwrap());
    let provider = provider.build();
    Traces { provider }
}

#[tokio::test]
async fn a_stop_exports_the_remaining_spans() {
    let (address, mut received) = collector(Some(OK.to_owned())).await;
    let traces = traces(address);
    drop(traces.tracer("test").start("a"));
    let stop = CancellationToken::new();
    stop.cancel();
    let Ok(()) = traces.run(stop).await;
    let request = received.try_recv().unwrap();
    assert_eq!(request, "POST /v1/traces HTTP/1.1");
}

#[tokio::test]
async fn a_stop_does_not_wait_for_a_collector_that_hangs() {
    let (address, mut received) = collector(None).await;
    let traces = traces(address);
    drop(traces.tracer("test").start("a"));
    let stop = CancellationToken::new();
    stop.cancel();
    let began = Instant::now();
    let Ok(()) = traces.run(stop).await;
    let took = began.elapsed();
    assert!(took >= LAST_EXPORT && took < 10 * LAST_EXPORT, "{took:?}");
    assert!(received.try_recv().is_ok());
}

#[tokio::test]
async fn a_collector_that_does_not_respond_is_an_error() {
    let (address, _received) = collector(None).await;
    let request = Request::post(format!("http://{address}/v1/traces"));
    let request = request.body(Bytes::from_static(b"spans")).unwrap();
    let client = client(address, Duration::from_millis(100));
    let error = client.send_bytes(request).await.unwrap_err();
    assert!(error.to_string().contains("elapsed"), "{error}");
}

#[test]
fn the_process_has_a_name_and_a_version() {
    for (key, expected) in [
        ("service.name", "quartet-operator"),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("telemetry.sdk.language", "rust"),
    ] {
        let value = resource(&APPLICATION).get(&Key::new(key));
        assert_eq!(value.expect(key).to_string(), expected);
    }
}
