//! Reads the alerts and dashboards, which are edited by hand.

use std::path::Path;

use quartet_operator::names::METRICS_SERVICE;
use serde::Deserialize;
use serde_json::Value;

/// The label matchers of every dashboard query.
const SELECTION: &str = r#"job=~"$job",namespace=~"$namespace",pod=~"$pod""#;

/// The dashboards below `grafana`.
pub(crate) const DASHBOARDS: [&str; 3] = [
    "controller-runtime-metrics.json",
    "controller-resources-metrics.json",
    "webhooks.json",
];

#[derive(Deserialize)]
pub(crate) struct Dashboard {
    panels: Vec<Panel>,
}

/// A graph, or the heading of a row.
#[derive(Deserialize)]
struct Panel {
    #[serde(default)]
    targets: Vec<Query>,
}

/// A query, which gives one or more lines of a graph.
#[derive(Deserialize)]
pub(crate) struct Query {
    expr: String,
}

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"))
}

impl Dashboard {
    /// Reads the dashboard in this file of `grafana`.
    pub(crate) fn read(file: &str) -> Self {
        serde_json::from_str(&read(&format!("grafana/{file}"))).expect("a dashboard")
    }

    /// Returns every query of every panel.
    pub(crate) fn queries(&self) -> impl Iterator<Item = &Query> {
        self.panels.iter().flat_map(|panel| &panel.targets)
    }
}

impl Query {
    /// Returns the PromQL with the variables set to "all".
    pub(crate) fn expression_for_all(&self) -> String {
        self.expr
            .replace(SELECTION, &format!("job=\"{METRICS_SERVICE}\""))
            .replace("$__rate_interval", "1m")
    }
}

/// Returns the rules in the format of a Prometheus rule file.
pub(crate) fn rule_file() -> Value {
    let rules: Value = serde_saphyr::from_str(&read("config/prometheus/rules.yaml")).expect("YAML");
    rules["spec"].clone()
}

/// Returns the name and the query of every alert.
pub(crate) fn alerts() -> Vec<(String, String)> {
    let rules = rule_file();
    let rules = rules["groups"][0]["rules"].as_array().expect("rules");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    rules
        .iter()
        .map(|rule| (text(&rule["alert"]), text(&rule["expr"])))
        .collect()
}
