//! Where the Prometheus operator finds the metrics: the Service in front of them.

use serde_json::{Value, json};

use super::super::names::{METRICS_READER_TOKEN, METRICS_SERVICE, NAMESPACE, PROJECT};

/// The ServiceMonitor. It shows a token out of a Secret: a `bearerTokenFile`, as the scaffold
/// has it, is refused by a Prometheus that denies access to its file system. The certificate
/// is not checked, since without one of its own the manager makes one up.
pub(super) fn service_monitor() -> Value {
    json!({
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": {
            "name": "quartet-operator-controller-manager-metrics-monitor",
            "namespace": NAMESPACE,
            "labels": {
                "app.kubernetes.io/name": PROJECT,
                "app.kubernetes.io/managed-by": "kustomize",
                "control-plane": "controller-manager",
            },
        },
        "spec": {
            "selector": { "matchLabels": {
                "app.kubernetes.io/name": PROJECT,
                "control-plane": "controller-manager",
            } },
            "jobLabel": "",
            "endpoints": [{
                "path": "/metrics",
                "port": "https",
                "scheme": "https",
                "authorization": {
                    "type": "Bearer",
                    "credentials": { "name": METRICS_READER_TOKEN, "key": "token" },
                },
                "tlsConfig": { "insecureSkipVerify": true },
                "relabelings": [{
                    "targetLabel": "job",
                    "replacement": METRICS_SERVICE,
                }],
            }],
        },
    })
}
