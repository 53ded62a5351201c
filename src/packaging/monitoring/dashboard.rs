//! The Grafana dashboards, as data: rows of panels with their queries.
//!
//! The first two have the file names and variables of kubebuilder's Grafana plugin, so that
//! what is set up for a scaffolded operator finds them.

use serde_json::{Value, json};

use super::super::names::METRICS_SERVICE;

/// Width of a panel, in Grafana's grid of 24 columns.
const WIDTH: usize = 12;
/// Height of a panel, in Grafana's rows of 30 pixels.
const HEIGHT: usize = 8;

/// One dashboard.
#[derive(Debug)]
pub struct Dashboard {
    /// File below `grafana/`.
    pub file: &'static str,
    /// Stays the same for ever: links name it.
    uid: &'static str,
    /// Its title.
    pub title: &'static str,
    /// Its rows.
    pub rows: &'static [Row],
}

/// Panels below a heading.
#[derive(Debug)]
pub struct Row {
    /// The heading.
    pub title: &'static str,
    /// Two of them stand beside each other.
    pub panels: &'static [Panel],
}

/// One graph.
#[derive(Debug)]
pub struct Panel {
    /// Its title.
    pub title: &'static str,
    /// What it shows, and what to look for.
    pub description: &'static str,
    /// Grafana's name of the unit, e.g. `s`.
    pub unit: &'static str,
    /// Its lines.
    pub queries: &'static [Query],
}

/// One or more lines of a graph.
#[derive(Debug)]
pub struct Query {
    /// PromQL; `SELECT` stands for the matchers that the variables give.
    expression: &'static str,
    /// What each line is called, with labels in double braces.
    pub legend: &'static str,
}

/// The matchers of every query.
const SELECTION: &str = r#"job=~"$job",namespace=~"$namespace",pod=~"$pod""#;

impl Query {
    /// PromQL with Grafana's variables.
    pub fn expression(&self) -> String {
        self.expression.replace("SELECT", SELECTION)
    }

    /// PromQL with the variables set to "all".
    pub fn expression_for_all(&self) -> String {
        self.expression
            .replace("SELECT", &format!("job=\"{METRICS_SERVICE}\""))
            .replace("$__rate_interval", "1m")
    }
}

const fn query(expression: &'static str, legend: &'static str) -> Query {
    Query { expression, legend }
}

/// Every dashboard.
pub const DASHBOARDS: &[Dashboard] = &[RUNTIME, RESOURCES, WEBHOOKS];

const RUNTIME: Dashboard = Dashboard {
    file: "controller-runtime-metrics.json",
    uid: "quartet-operator-runtime",
    title: "quartet-operator / Reconciles",
    rows: &[
        Row {
            title: "Leader",
            panels: &[
                Panel {
                    title: "Leader",
                    description: "1 for the replica that reconciles. The sum is 1, but for the moment of a hand-over.",
                    unit: "none",
                    queries: &[query(
                        "leader_election_master_status{SELECT}",
                        "{{instance}}",
                    )],
                },
                Panel {
                    title: "Requests to the API server",
                    description: "By method and status code. At rest there are none but the lease and its renewals.",
                    unit: "reqps",
                    queries: &[query(
                        "sum by (method, code) (rate(rest_client_requests_total{SELECT}[$__rate_interval]))",
                        "{{method}} {{code}}",
                    )],
                },
            ],
        },
        Row {
            title: "Resources",
            panels: &[
                Panel {
                    title: "Degraded resources",
                    description: "Each with the reason of its condition; kubectl describe shows the message.",
                    unit: "none",
                    queries: &[query(
                        "max by (controller, namespace, exported_namespace, name, reason) (quartet_operator_resource_condition{SELECT,condition=\"Degraded\",status=\"True\"})",
                        "{{controller}} {{exported_namespace}}/{{name}} {{reason}}",
                    )],
                },
                Panel {
                    title: "Resources by state",
                    description: "Number of resources by the status and reason of Ready. NotReported: no replica has reconciled it yet.",
                    unit: "none",
                    queries: &[query(
                        "max by (controller, status, reason) (quartet_operator_resources{SELECT,condition=\"Ready\"})",
                        "{{controller}} {{status}} {{reason}}",
                    )],
                },
            ],
        },
        Row {
            title: "Reconciles",
            panels: &[
                Panel {
                    title: "Reconciles by result",
                    description: "How often each controller looked at a resource, and how that ended.",
                    unit: "ops",
                    queries: &[query(
                        "sum by (controller, result) (rate(controller_runtime_reconcile_total{SELECT}[$__rate_interval]))",
                        "{{controller}} {{result}}",
                    )],
                },
                Panel {
                    title: "Errors, panics and timeouts",
                    description: "Each is tried again, ever later; a panic is a defect.",
                    unit: "ops",
                    queries: &[
                        query(
                            "sum by (controller) (rate(controller_runtime_reconcile_errors_total{SELECT}[$__rate_interval]))",
                            "{{controller}} errors",
                        ),
                        query(
                            "sum by (controller) (rate(controller_runtime_reconcile_panics_total{SELECT}[$__rate_interval]))",
                            "{{controller}} panics",
                        ),
                        query(
                            "sum by (controller) (rate(controller_runtime_reconcile_timeouts_total{SELECT}[$__rate_interval]))",
                            "{{controller}} timeouts",
                        ),
                    ],
                },
                Panel {
                    title: "Time of a reconcile",
                    description: "Median, 90th and 99th percentile over all controllers.",
                    unit: "s",
                    queries: &[
                        query(
                            "histogram_quantile(0.5, sum by (le) (rate(controller_runtime_reconcile_time_seconds_bucket{SELECT}[$__rate_interval])))",
                            "P50",
                        ),
                        query(
                            "histogram_quantile(0.9, sum by (le) (rate(controller_runtime_reconcile_time_seconds_bucket{SELECT}[$__rate_interval])))",
                            "P90",
                        ),
                        query(
                            "histogram_quantile(0.99, sum by (le) (rate(controller_runtime_reconcile_time_seconds_bucket{SELECT}[$__rate_interval])))",
                            "P99",
                        ),
                    ],
                },
                Panel {
                    title: "Busy workers",
                    description: "When a controller's line stays at its maximum, --max-concurrent-reconciles is too low or the API server too slow.",
                    unit: "none",
                    queries: &[
                        query(
                            "sum by (controller) (controller_runtime_active_workers{SELECT})",
                            "{{controller}}",
                        ),
                        query(
                            "max by (controller) (controller_runtime_max_concurrent_reconciles{SELECT})",
                            "{{controller}} maximum",
                        ),
                    ],
                },
                Panel {
                    title: "Failed lists and watches",
                    description: "By kind and status code. While they fail, changes are seen late.",
                    unit: "ops",
                    queries: &[query(
                        "sum by (kind, code) (rate(quartet_operator_watch_errors_total{SELECT}[$__rate_interval]))",
                        "{{kind}} {{code}}",
                    )],
                },
            ],
        },
        Row {
            title: "Work queue",
            panels: &[
                Panel {
                    title: "Depth",
                    description: "Resources that wait for a worker. On a standby replica they wait for the lease.",
                    unit: "none",
                    queries: &[query(
                        "sum by (controller) (workqueue_depth{SELECT})",
                        "{{controller}}",
                    )],
                },
                Panel {
                    title: "Additions and retries",
                    description: "A retry follows a failed reconcile.",
                    unit: "ops",
                    queries: &[
                        query(
                            "sum by (controller) (rate(workqueue_adds_total{SELECT}[$__rate_interval]))",
                            "{{controller}} added",
                        ),
                        query(
                            "sum by (controller) (rate(workqueue_retries_total{SELECT}[$__rate_interval]))",
                            "{{controller}} retried",
                        ),
                    ],
                },
                Panel {
                    title: "Time in the queue",
                    description: "From the change to a worker's first look: median, 90th and 99th percentile.",
                    unit: "s",
                    queries: &[
                        query(
                            "histogram_quantile(0.5, sum by (le) (rate(workqueue_queue_duration_seconds_bucket{SELECT}[$__rate_interval])))",
                            "P50",
                        ),
                        query(
                            "histogram_quantile(0.9, sum by (le) (rate(workqueue_queue_duration_seconds_bucket{SELECT}[$__rate_interval])))",
                            "P90",
                        ),
                        query(
                            "histogram_quantile(0.99, sum by (le) (rate(workqueue_queue_duration_seconds_bucket{SELECT}[$__rate_interval])))",
                            "P99",
                        ),
                    ],
                },
                Panel {
                    title: "Time at work",
                    description: "What one resource took, and what the longest that is not done yet has taken.",
                    unit: "s",
                    queries: &[
                        query(
                            "histogram_quantile(0.99, sum by (le) (rate(workqueue_work_duration_seconds_bucket{SELECT}[$__rate_interval])))",
                            "P99",
                        ),
                        query(
                            "max by (controller) (workqueue_longest_running_processor_seconds{SELECT})",
                            "{{controller}} longest",
                        ),
                        query(
                            "sum by (controller) (workqueue_unfinished_work_seconds{SELECT})",
                            "{{controller}} unfinished",
                        ),
                    ],
                },
            ],
        },
    ],
};

const RESOURCES: Dashboard = Dashboard {
    file: "controller-resources-metrics.json",
    uid: "quartet-operator-resources",
    title: "quartet-operator / Process",
    rows: &[Row {
        title: "Process",
        panels: &[
            Panel {
                title: "CPU",
                description: "Share of one core.",
                unit: "percentunit",
                queries: &[query(
                    "rate(process_cpu_seconds_total{SELECT}[$__rate_interval])",
                    "{{instance}}",
                )],
            },
            Panel {
                title: "Memory",
                description: "Resident set.",
                unit: "bytes",
                queries: &[query(
                    "process_resident_memory_bytes{SELECT}",
                    "{{instance}}",
                )],
            },
            Panel {
                title: "Open files",
                description: "Connections, mostly.",
                unit: "none",
                queries: &[query("process_open_fds{SELECT}", "{{instance}}")],
            },
            Panel {
                title: "Age",
                description: "Time since the start; a saw tooth is a crash loop.",
                unit: "s",
                queries: &[query(
                    "time() - process_start_time_seconds{SELECT}",
                    "{{instance}}",
                )],
            },
        ],
    }],
};

const WEBHOOKS: Dashboard = Dashboard {
    file: "webhooks.json",
    uid: "quartet-operator-webhooks",
    title: "quartet-operator / Webhooks",
    rows: &[
        Row {
            title: "Admission",
            panels: &[
                Panel {
                    title: "Calls by webhook and code",
                    description: "Every replica answers; a refusal is a 200 as well.",
                    unit: "reqps",
                    queries: &[query(
                        "sum by (webhook, code) (rate(controller_runtime_webhook_requests_total{SELECT}[$__rate_interval]))",
                        "{{webhook}} {{code}}",
                    )],
                },
                Panel {
                    title: "Decisions",
                    description: "By kind, version and reason.",
                    unit: "reqps",
                    queries: &[query(
                        "sum by (kind, version, reason) (rate(quartet_operator_admission_decisions_total{SELECT}[$__rate_interval]))",
                        "{{kind}} {{version}} {{reason}}",
                    )],
                },
                Panel {
                    title: "Latency",
                    description: "Median, 90th and 99th percentile of all endpoints, conversion included.",
                    unit: "s",
                    queries: &[
                        query(
                            "histogram_quantile(0.5, sum by (le) (rate(controller_runtime_webhook_latency_seconds_bucket{SELECT}[$__rate_interval])))",
                            "P50",
                        ),
                        query(
                            "histogram_quantile(0.9, sum by (le) (rate(controller_runtime_webhook_latency_seconds_bucket{SELECT}[$__rate_interval])))",
                            "P90",
                        ),
                        query(
                            "histogram_quantile(0.99, sum by (le) (rate(controller_runtime_webhook_latency_seconds_bucket{SELECT}[$__rate_interval])))",
                            "P99",
                        ),
                    ],
                },
                Panel {
                    title: "In flight, and panics",
                    description: "Calls that are being answered; a panic is a defect and fails one call.",
                    unit: "none",
                    queries: &[
                        query(
                            "sum(controller_runtime_webhook_requests_in_flight{SELECT})",
                            "in flight",
                        ),
                        query(
                            "sum(increase(controller_runtime_webhook_panics_total{SELECT}[$__rate_interval]))",
                            "admission panics",
                        ),
                        query(
                            "sum(increase(controller_runtime_conversion_webhook_panics_total{SELECT}[$__rate_interval]))",
                            "conversion panics",
                        ),
                    ],
                },
            ],
        },
        Row {
            title: "Conversion",
            panels: &[
                Panel {
                    title: "Objects converted",
                    description: "By kind, versions and result. Clients of a version that is not stored cause them.",
                    unit: "ops",
                    queries: &[query(
                        "sum by (kind, from, to, result) (rate(quartet_operator_conversions_total{SELECT}[$__rate_interval]))",
                        "{{kind}} {{from}} → {{to}} {{result}}",
                    )],
                },
                Panel {
                    title: "Converted with loss",
                    description: "Objects whose annotations had no room for the fields that the version lacks.",
                    unit: "ops",
                    queries: &[query(
                        "sum by (kind, from, to) (rate(quartet_operator_conversion_data_left_out_total{SELECT}[$__rate_interval]))",
                        "{{kind}} {{from}} → {{to}}",
                    )],
                },
            ],
        },
        Row {
            title: "Connections and certificates",
            panels: &[
                Panel {
                    title: "Certificate: time left",
                    description: "Until the certificate that is served expires.",
                    unit: "s",
                    queries: &[query(
                        "quartet_operator_webhook_certificate_not_after_timestamp_seconds{SELECT} - time()",
                        "{{instance}}",
                    )],
                },
                Panel {
                    title: "Certificate reads",
                    description: "How often the source of the certificate was looked at, and found unusable.",
                    unit: "ops",
                    queries: &[
                        query(
                            "sum by (instance) (rate(certwatcher_read_certificate_total{SELECT}[$__rate_interval]))",
                            "{{instance}} reads",
                        ),
                        query(
                            "sum by (instance) (rate(certwatcher_read_certificate_errors_total{SELECT}[$__rate_interval]))",
                            "{{instance}} errors",
                        ),
                    ],
                },
                Panel {
                    title: "Connections",
                    description: "At most 512; beyond that the one that has waited longest is closed.",
                    unit: "none",
                    queries: &[query(
                        "sum by (instance) (quartet_operator_webhook_connections{SELECT})",
                        "{{instance}}",
                    )],
                },
                Panel {
                    title: "Failed handshakes and evictions",
                    description: "Failed handshakes: the API server does not trust the certificate. Evictions: too many connections.",
                    unit: "ops",
                    queries: &[
                        query(
                            "sum by (instance) (rate(quartet_operator_webhook_handshake_errors_total{SELECT}[$__rate_interval]))",
                            "{{instance}} handshakes",
                        ),
                        query(
                            "sum by (instance) (rate(quartet_operator_webhook_connections_evicted_total{SELECT}[$__rate_interval]))",
                            "{{instance}} evictions",
                        ),
                    ],
                },
            ],
        },
    ],
};

impl Dashboard {
    /// As Grafana imports it.
    pub fn to_json(&self) -> Value {
        json!({
            "uid": self.uid,
            "title": self.title,
            "tags": ["quartet-operator"],
            "schemaVersion": 39,
            "version": 1,
            "editable": true,
            "graphTooltip": 1,
            "refresh": "30s",
            "time": { "from": "now-1h", "to": "now" },
            "timezone": "",
            "templating": { "list": variables() },
            "panels": self.panels(),
        })
    }

    fn panels(&self) -> Vec<Value> {
        let mut panels = Vec::new();
        let mut top = 0;
        for row in self.rows {
            panels.push(json!({
                "id": panels.len() + 1,
                "type": "row",
                "title": row.title,
                "collapsed": false,
                "gridPos": { "x": 0, "y": top, "w": 24, "h": 1 },
                "panels": [],
            }));
            top += 1;
            for (index, panel) in row.panels.iter().enumerate() {
                let position = json!({
                    "x": index % 2 * WIDTH,
                    "y": top + index / 2 * HEIGHT,
                    "w": WIDTH,
                    "h": HEIGHT,
                });
                panels.push(panel.to_json(panels.len() + 1, &position));
            }
            top += row.panels.len().div_ceil(2) * HEIGHT;
        }
        panels
    }
}

impl Panel {
    fn to_json(&self, id: usize, position: &Value) -> Value {
        let targets: Vec<_> = self
            .queries
            .iter()
            .zip('A'..='Z')
            .map(|(query, letter)| {
                json!({
                    "refId": letter.to_string(),
                    "datasource": data_source(),
                    "expr": query.expression(),
                    "legendFormat": query.legend,
                })
            })
            .collect();
        json!({
            "id": id,
            "type": "timeseries",
            "title": self.title,
            "description": self.description,
            "datasource": data_source(),
            "gridPos": position,
            "fieldConfig": {
                "defaults": { "unit": self.unit, "min": 0 },
                "overrides": [],
            },
            "options": {
                "legend": { "displayMode": "list", "placement": "bottom" },
                "tooltip": { "mode": "multi" },
            },
            "targets": targets,
        })
    }
}

fn data_source() -> Value {
    json!({ "type": "prometheus", "uid": "${DS_PROMETHEUS}" })
}

/// The variables of kubebuilder's dashboards.
fn variables() -> Value {
    let label = |name: &str, filter: &str| {
        json!({
            "name": name,
            "type": "query",
            "datasource": data_source(),
            "query": format!("label_values(quartet_operator_build_info{filter}, {name})"),
            "refresh": 2,
            "includeAll": true,
            "allValue": ".*",
            "multi": true,
            "current": { "text": "All", "value": "$__all" },
        })
    };
    json!([
        {
            "name": "DS_PROMETHEUS",
            "type": "datasource",
            "query": "prometheus",
            "label": "Data source",
        },
        label("job", ""),
        label("namespace", r#"{job=~"$job"}"#),
        label("pod", r#"{job=~"$job",namespace=~"$namespace"}"#),
    ])
}
