//! A real Prometheus and promtool, built from source: started, queried over HTTP, stopped.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use testkit::built;
use testkit::{Limit, http};

/// The most time to wait for any state, on an idle machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

/// The folder with `prometheus` and `promtool`.
fn programs() -> PathBuf {
    built("hack/prometheus")
}

/// Runs promtool in `folder` and panics with its output if it fails.
pub(crate) fn promtool(folder: &Path, arguments: &[&str]) {
    let run = Command::new(programs().join("promtool"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("promtool runs");
    let said = [run.stdout, run.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(
        run.status.success(),
        "promtool {arguments:?}: {}",
        said.concat()
    );
    println!("{}", said.concat());
}

/// A Prometheus that scrapes one target each second, until dropped.
pub(crate) struct Prometheus {
    child: Child,
    address: String,
}

impl Prometheus {
    /// Starts Prometheus with its files below `folder`.
    pub(crate) fn start(folder: &Path, job: &str, target: &str) -> Self {
        let configuration = json!({
            "global": { "scrape_interval": "1s", "scrape_timeout": "1s" },
            "scrape_configs": [{ "job_name": job, "static_configs": [{ "targets": [target] }] }],
        });
        let file = folder.join("prometheus.json");
        std::fs::write(&file, configuration.to_string()).unwrap();
        let log = std::fs::File::create(folder.join("prometheus.log")).unwrap();
        let address = free_address();
        let child = Command::new(programs().join("prometheus"))
            .arg(format!("--config.file={}", file.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.join("data").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("prometheus starts");
        Self { child, address }
    }

    /// Returns the number of series of `query` now.
    pub(crate) fn series(&self, query: &str) -> usize {
        let answer = self.get("query", query);
        answer
            .pointer("/data/result")
            .and_then(Value::as_array)
            .map_or(0, Vec::len)
    }

    /// Returns the selectors in `query`, each as a query.
    pub(crate) fn selectors(&self, query: &str) -> Vec<String> {
        let answer = self.get("parse_query", query);
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        let mut selectors = Vec::new();
        collect_selectors(&answer["data"], &mut selectors);
        selectors
    }

    /// Waits until Prometheus answers.
    pub(crate) async fn ready(&self) {
        let mut limit = Limit::new(DEADLINE);
        while TcpStream::connect(&self.address).is_err() {
            limit.pause(|| "Prometheus does not start").await;
        }
    }

    fn get(&self, what: &str, query: &str) -> Value {
        self.ask(&format!("{what}?query={}", percent_encoded(query)))
    }

    fn ask(&self, what: &str) -> Value {
        let path = format!("/api/v1/{what}");
        let (_, body) = http::get(&self.address, &path);
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{what}: {error}: {body}"))
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_address() -> String {
    format!("127.0.0.1:{}", devcluster::free_port().unwrap())
}

fn percent_encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Finds the vector selectors of a syntax tree, at any depth.
fn collect_selectors(node: &Value, selectors: &mut Vec<String>) {
    if matches!(
        node["type"].as_str(),
        Some("vectorSelector" | "matrixSelector")
    ) {
        let matchers: Vec<_> = node["matchers"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|matcher| {
                let text = |field: &str| matcher[field].as_str().unwrap_or_default().to_owned();
                format!("{}{}{:?}", text("name"), text("type"), text("value"))
            })
            .collect();
        selectors.push(format!("{{{}}}", matchers.join(",")));
    }
    match node {
        Value::Object(fields) => fields
            .values()
            .for_each(|value| collect_selectors(value, selectors)),
        Value::Array(items) => items
            .iter()
            .for_each(|item| collect_selectors(item, selectors)),
        _ => {}
    }
}
