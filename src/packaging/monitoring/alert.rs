//! The alerts: what is worth waking somebody for, and what can wait until morning. Each has a
//! runbook of its name under `docs/runbooks`.

use serde_json::{Value, json};

use super::super::names::{LEASE, METRICS_SERVICE, NAMESPACE, PROJECT};
use super::super::project::project;

/// How soon somebody has to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Now: users are refused, or nothing is reconciled.
    Critical,
    /// Within the day.
    Warning,
}

/// One alert.
#[derive(Debug)]
pub struct Alert {
    /// Its name, which is that of its runbook.
    pub name: &'static str,
    /// When it holds, in PromQL; `JOB` and `LEASE` stand for matchers.
    expression: &'static str,
    /// How long it must hold, as Prometheus writes durations.
    pub pending: &'static str,
    /// How soon somebody has to look.
    pub severity: Severity,
    /// One line, for a subject.
    pub summary: &'static str,
    /// What it means, with the labels and the value of the series.
    pub description: &'static str,
}

/// Every alert, the most urgent first.
pub const ALERTS: &[Alert] = &[
    Alert {
        name: "QuartetOperatorDown",
        expression: "absent(up{JOB} == 1)",
        pending: "5m",
        severity: Severity::Critical,
        summary: "No replica of the manager can be scraped.",
        description: "Nothing is reconciled, and the API server refuses to create or change resources of the four kinds.",
    },
    Alert {
        name: "QuartetOperatorNoLeader",
        expression: "sum(leader_election_master_status{JOB,LEASE}) == 0",
        pending: "2m",
        severity: Severity::Critical,
        summary: "Replicas run, but none of them leads.",
        description: "Nothing is reconciled until a replica gets the lease.",
    },
    Alert {
        name: "QuartetOperatorTwoLeaders",
        expression: "sum(leader_election_master_status{JOB,LEASE}) > 1",
        pending: "1m",
        severity: Severity::Critical,
        summary: "More than one replica says that it leads.",
        description: "{{ $value }} replicas lead at once; they may undo each other's writes.",
    },
    Alert {
        name: "QuartetOperatorWebhookErrors",
        expression: "sum by (webhook) (rate(controller_runtime_webhook_requests_total{JOB,code=~\"5..\"}[5m])) > 0",
        pending: "5m",
        severity: Severity::Critical,
        summary: "An admission webhook answers with errors.",
        description: "{{ $labels.webhook }} fails {{ $value | humanize }} times a second, and each time a user's write is refused.",
    },
    Alert {
        name: "QuartetOperatorConversionFailures",
        expression: "sum by (kind, from, to) (increase(quartet_operator_conversions_total{JOB,result=\"failure\"}[10m])) > 0",
        pending: "0m",
        severity: Severity::Critical,
        summary: "Stored objects cannot be converted.",
        description: "{{ $labels.kind }} from {{ $labels.from }} to {{ $labels.to }}: one such object makes every list in that version fail.",
    },
    Alert {
        name: "QuartetOperatorCertificateExpires",
        expression: "min by (instance) (quartet_operator_webhook_certificate_not_after_timestamp_seconds{JOB}) - time() < 7 * 24 * 3600",
        pending: "15m",
        severity: Severity::Critical,
        summary: "The webhook certificate is about to expire, or missing.",
        description: "{{ $labels.instance }} has {{ $value | humanizeDuration }} left; after that no resource can be created or changed.",
    },
    Alert {
        name: "QuartetOperatorCrashLooping",
        expression: "max by (instance) (changes(process_start_time_seconds{JOB}[30m])) > 3",
        pending: "0m",
        severity: Severity::Warning,
        summary: "The manager restarts again and again.",
        description: "{{ $labels.instance }} started {{ $value }} times in half an hour.",
    },
    Alert {
        name: "QuartetOperatorReconcileErrors",
        expression: "sum by (controller) (rate(controller_runtime_reconcile_errors_total{JOB}[10m])) > 0.2 * sum by (controller) (rate(controller_runtime_reconcile_total{JOB}[10m]))",
        pending: "15m",
        severity: Severity::Warning,
        summary: "Many reconciles fail.",
        description: "More than a fifth of the reconciles of {{ $labels.controller }} fail, {{ $value | humanize }} a second.",
    },
    Alert {
        name: "QuartetOperatorReconcilePanics",
        expression: "sum by (controller) (increase(controller_runtime_reconcile_panics_total{JOB}[15m])) > 0",
        pending: "0m",
        severity: Severity::Warning,
        summary: "A reconcile panicked.",
        description: "{{ $labels.controller }}: a defect; the resource concerned is tried again, ever later.",
    },
    Alert {
        name: "QuartetOperatorReconcileStuck",
        expression: "max by (controller) (workqueue_longest_running_processor_seconds{JOB}) > 120",
        pending: "1m",
        severity: Severity::Warning,
        summary: "A reconcile does not end.",
        description: "{{ $labels.controller }} has been at one resource for {{ $value | humanizeDuration }}.",
    },
    Alert {
        name: "QuartetOperatorQueueBacklog",
        expression: "sum by (controller) (workqueue_depth{JOB} and on (instance) leader_election_master_status{JOB,LEASE} == 1) > 100",
        pending: "15m",
        severity: Severity::Warning,
        summary: "Resources wait for a worker.",
        description: "{{ $value }} resources of {{ $labels.controller }} have not been looked at.",
    },
    Alert {
        name: "QuartetOperatorWatchErrors",
        expression: "sum by (kind) (rate(quartet_operator_watch_errors_total{JOB}[10m])) > 0.05",
        pending: "15m",
        severity: Severity::Warning,
        summary: "The manager cannot watch what it manages.",
        description: "Lists and watches of {{ $labels.kind }} fail {{ $value | humanize }} times a second; changes are seen late or never.",
    },
    Alert {
        name: "QuartetOperatorApiErrors",
        expression: "sum(rate(rest_client_requests_total{JOB,code=~\"5..|<error>\"}[10m])) > 0.1 * sum(rate(rest_client_requests_total{JOB}[10m]))",
        pending: "15m",
        severity: Severity::Warning,
        summary: "The API server fails many of the manager's requests.",
        description: "More than a tenth of the requests fail, {{ $value | humanize }} a second.",
    },
    Alert {
        name: "QuartetOperatorWebhookSlow",
        expression: "histogram_quantile(0.99, sum by (le) (rate(controller_runtime_webhook_latency_seconds_bucket{JOB}[5m]))) > 0.5",
        pending: "10m",
        severity: Severity::Warning,
        summary: "Admission takes long.",
        description: "One call in a hundred takes {{ $value | humanizeDuration }} or more; after 5 s the API server refuses the user's write.",
    },
    Alert {
        name: "QuartetOperatorConversionDataLeftOut",
        expression: "sum by (kind, from, to) (increase(quartet_operator_conversion_data_left_out_total{JOB}[1h])) > 0",
        pending: "0m",
        severity: Severity::Warning,
        summary: "An object is too large to be converted without loss.",
        description: "{{ $labels.kind }} from {{ $labels.from }} to {{ $labels.to }}: its annotations leave no room for the fields that the other version lacks.",
    },
    Alert {
        name: "QuartetOperatorFieldConflict",
        expression: "sum by (controller, child) (increase(quartet_operator_field_conflicts_total{JOB}[15m])) > 0",
        pending: "0m",
        severity: Severity::Warning,
        summary: "Another writer keeps changing a child of the operator.",
        description: "{{ $labels.controller }}: a {{ $labels.child }} was put back six times within a minute and changed again each time; the operator waits now.",
    },
    Alert {
        name: "QuartetOperatorResourceDegraded",
        expression: "max by (controller, namespace, exported_namespace, name, reason) (quartet_operator_resource_condition{JOB,condition=\"Degraded\",status=\"True\"}) == 1",
        pending: "15m",
        severity: Severity::Warning,
        summary: "A resource is Degraded.",
        // A scrape that adds the label `namespace` itself, as the Prometheus operator's does,
        // renames the resource's.
        description: "{{ $labels.controller }} {{ or $labels.exported_namespace $labels.namespace }}/{{ $labels.name }}: {{ $labels.reason }}. The condition of the resource says what to do.",
    },
    Alert {
        name: "QuartetOperatorCertificateReadErrors",
        expression: "sum by (instance) (increase(certwatcher_read_certificate_errors_total{JOB}[15m])) > 0",
        pending: "30m",
        severity: Severity::Warning,
        summary: "A new certificate cannot be used.",
        description: "{{ $labels.instance }} keeps serving the old one until it expires.",
    },
];

impl Alert {
    /// When it holds, in PromQL.
    pub fn expression(&self) -> String {
        with_matchers(self.expression)
    }

    /// Where its runbook is, below the root of the repository.
    pub fn runbook(&self) -> String {
        format!("docs/runbooks/{}.md", self.name)
    }

    fn to_json(&self) -> Value {
        json!({
            "alert": self.name,
            "expr": self.expression(),
            "for": self.pending,
            "labels": { "severity": match self.severity {
                Severity::Critical => "critical",
                Severity::Warning => "warning",
            } },
            "annotations": {
                "summary": self.summary,
                "description": self.description,
                "runbook_url": format!("{}/blob/main/{}", project().repository, self.runbook()),
            },
        })
    }
}

/// Puts in the matchers that `JOB` and `LEASE` stand for.
fn with_matchers(expression: &str) -> String {
    expression
        .replace("JOB", &format!("job=\"{METRICS_SERVICE}\""))
        .replace("LEASE", &format!("name=\"{LEASE}\""))
}

/// The rules as Prometheus reads them from a file.
pub fn rule_file() -> Value {
    let rules: Vec<_> = ALERTS.iter().map(Alert::to_json).collect();
    json!({ "groups": [{ "name": PROJECT, "rules": rules }] })
}

/// The rules as the Prometheus operator takes them.
pub(super) fn prometheus_rule() -> Value {
    json!({
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {
            "name": "quartet-operator-rules",
            "namespace": NAMESPACE,
            "labels": {
                "app.kubernetes.io/name": PROJECT,
                "app.kubernetes.io/managed-by": "kustomize",
            },
        },
        "spec": rule_file(),
    })
}
