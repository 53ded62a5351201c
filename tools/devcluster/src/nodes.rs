//! The simulated nodes of kwok, and when a node accepts pods.

use serde_json::{Value, json};

pub(crate) fn simulated(number: usize) -> Value {
    let name = format!("node-{number}");
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "node-role.kubernetes.io/agent": "",
                "type": "kwok",
            },
        },
    })
}

/// Ready and no longer tainted: the taint is removed some time after the condition is set.
pub(crate) fn takes_pods(node: &Value) -> bool {
    let is_ready = node["status"]["conditions"]
        .as_array()
        .is_some_and(|conditions| {
            conditions
                .iter()
                .any(|one| one["type"] == "Ready" && one["status"] == "True")
        });
    is_ready && node["spec"]["taints"].as_array().is_none_or(Vec::is_empty)
}
