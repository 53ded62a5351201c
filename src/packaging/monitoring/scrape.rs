//! Where the Prometheus operator finds the metrics, the Service in front of them, and the
//! account whose token it shows there.

use serde_json::{Value, json};

use super::super::metadata::{component_labels, labels, metadata, selector};
use super::super::names::{
    METRICS_MONITOR, METRICS_PATH, METRICS_PORT_NAME, METRICS_READER, METRICS_READER_TOKEN,
    METRICS_SERVICE, NAMESPACE,
};

/// The ServiceMonitor. It shows a token out of a Secret: a `bearerTokenFile`, as the scaffold
/// has it, is refused by a Prometheus that denies access to its file system. The certificate
/// is not verified, since without one of its own the manager makes one in memory; [`verified`] is for
/// clusters where it has one.
pub(super) fn service_monitor() -> Value {
    json!({
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": {
            "name": METRICS_MONITOR,
            "namespace": NAMESPACE,
            "labels": component_labels(),
        },
        "spec": {
            "selector": { "matchLabels": selector() },
            "jobLabel": "",
            "endpoints": [{
                "path": METRICS_PATH,
                "port": METRICS_PORT_NAME,
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

/// A change of the ServiceMonitor that has Prometheus verify the certificate of the metrics:
/// `authority` is the Secret with the `ca.crt` that vouches for `host`.
pub(in crate::packaging) fn verified(authority: &str, host: &str) -> Value {
    json!([{
        "op": "replace",
        "path": "/spec/endpoints/0/tlsConfig",
        "value": {
            "ca": { "secret": { "name": authority, "key": "ca.crt" } },
            "serverName": host,
        },
    }])
}

/// The account that may read the metrics and nothing else.
pub(super) fn reader_account() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata(METRICS_READER, Some(NAMESPACE)),
    })
}

/// Its token, which the control plane fills in.
pub(super) fn reader_token() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/service-account-token",
        "metadata": {
            "name": METRICS_READER_TOKEN,
            "namespace": NAMESPACE,
            "labels": labels(),
            "annotations": { "kubernetes.io/service-account.name": METRICS_READER },
        },
    })
}

/// What gives it the right, by the ClusterRole of `config/rbac`.
pub(super) fn reader_binding() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": metadata(METRICS_READER, None),
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": METRICS_READER,
        },
        "subjects": [{
            "kind": "ServiceAccount",
            "name": METRICS_READER,
            "namespace": NAMESPACE,
        }],
    })
}
