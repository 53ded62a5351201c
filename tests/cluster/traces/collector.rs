//! A real OpenTelemetry Collector, built from source. It receives OTLP over HTTP and writes what it
//! receives to a file, one JSON object per batch.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tokio::net::TcpStream;

use testkit::{DEADLINE, Limit, built};

/// A running collector, stopped when dropped.
pub(crate) struct Collector {
    child: Child,
    received: PathBuf,
}

impl Collector {
    /// Starts a collector with its files below `folder`, and waits until it listens at `address`.
    pub(crate) async fn start(folder: &Path, address: &str) -> Self {
        let received = folder.join("traces.json");
        let configuration = json!({
            "receivers": {"otlp": {"protocols": {"http": {"endpoint": address}}}},
            "exporters": {"file": {"path": received, "append": true}},
            "service": {
                "telemetry": {"metrics": {"level": "none"}},
                "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["file"]}},
            },
        });
        let file = folder.join("collector.yaml");
        std::fs::write(&file, configuration.to_string()).expect("a file");
        let log = std::fs::File::create(folder.join("collector.log")).expect("a file");
        let child = Command::new(built("hack/collector").join("collector"))
            .arg(format!("--config={}", file.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("the collector starts");
        let mut limit = Limit::new(DEADLINE);
        while let Err(error) = TcpStream::connect(address).await {
            limit.pause(|| format!("{address}: {error}")).await;
        }
        Self { child, received }
    }

    /// Returns all spans that it has received and written so far, with their attributes, and those of
    /// their process in `resource`, as objects.
    pub(crate) fn spans(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.received).unwrap_or_default();
        // The last line may be incomplete.
        let batches = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut spans = Vec::new();
        for batch in batches {
            for of_process in items(&batch["resourceSpans"]) {
                for scope in items(&of_process["scopeSpans"]) {
                    for span in items(&scope["spans"]) {
                        let mut span = span.clone();
                        span["resource"] = attributes(&of_process["resource"]);
                        span["attributes"] = attributes(&span);
                        spans.push(span);
                    }
                }
            }
        }
        spans
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// Returns the attributes of `of` as one object.
fn attributes(of: &Value) -> Value {
    let pairs = items(&of["attributes"]).map(|pair| {
        let name = pair["key"].as_str().unwrap_or_default().to_owned();
        let value = &pair["value"];
        // OTLP's JSON encodes integers as strings.
        let value = match value["intValue"].as_str() {
            Some(number) => json!(number.parse::<i64>().expect("a number")),
            None => value["stringValue"].clone(),
        };
        (name, value)
    });
    Value::Object(pairs.collect())
}
