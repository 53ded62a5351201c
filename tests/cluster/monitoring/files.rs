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
    pub(crate) title: String,
    panels: Vec<Panel>,
}

/// A graph, or the heading of a row.
#[derive(Deserialize)]
pub(crate) struct Panel {
    pub(crate) title: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    pub(crate) targets: Vec<Query>,
    #[serde(default, rename = "fieldConfig")]
    field_config: Value,
}

/// A query, which gives one or more lines of a graph.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Query {
    expr: String,
    pub(crate) legend_format: String,
}

/// A heading and the panels below it.
pub(crate) struct Row<'a> {
    pub(crate) title: &'a str,
    pub(crate) panels: Vec<&'a Panel>,
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

    pub(crate) fn rows(&self) -> Vec<Row<'_>> {
        let mut rows: Vec<Row<'_>> = Vec::new();
        for panel in &self.panels {
            if panel.kind == "row" {
                let title = &panel.title;
                rows.push(Row {
                    title,
                    panels: Vec::new(),
                });
            } else {
                rows.last_mut().expect("a heading").panels.push(panel);
            }
        }
        rows
    }

    /// Returns every query of every panel.
    pub(crate) fn queries(&self) -> impl Iterator<Item = &Query> {
        self.panels.iter().flat_map(|panel| &panel.targets)
    }
}

impl Panel {
    pub(crate) fn unit(&self) -> &str {
        let unit = self.field_config.pointer("/defaults/unit");
        unit.and_then(Value::as_str).expect("a unit")
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
