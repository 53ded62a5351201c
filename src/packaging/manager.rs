//! The manager in a cluster: its Namespace, its Deployment, the Service in front of its metrics
//! and what a drain of nodes must leave of it. What it is told by flags and variables are the
//! constants that it reads them by.
#![allow(clippy::indexing_slicing, reason = "fields of JSON literals, in the generator alone")]

use serde_json::{Value, json};

use super::crd::kustomization;
use super::manifest::{Manifest, ManifestError};
use super::metadata::{component_labels, metadata, selector};
use super::names::{
    CONTAINER, DEPLOYMENT, HEALTHZ, METRICS_PORT, METRICS_PORT_NAME, METRICS_SERVICE, NAMESPACE,
    READYZ, SERVICE_ACCOUNT, TERMINATION_GRACE_SECONDS, WEBHOOK_PORT_NAME,
};
use super::release::Release;
use crate::config::{HEALTH_ADDRESS, WEBHOOK_PORT};

/// One that reconciles and one that stands by; both serve webhooks.
pub const REPLICAS: i32 = 2;
/// Seconds between two looks at a replica's readiness. A rollout waits for it, and so does
/// whoever applies a resource right after the manager.
const READINESS_PERIOD_SECONDS: i32 = 2;
const HEALTH_PORT_NAME: &str = "health";

/// What the container is started with. Only what is no default; the webhook certificate is
/// where OLM, cert-manager and the scaffold mount it, which is a default.
pub fn arguments() -> Vec<String> {
    vec![
        "--leader-elect".to_owned(),
        format!("--health-probe-bind-address={HEALTH_ADDRESS}"),
        format!("--metrics-bind-address=:{METRICS_PORT}"),
    ]
}

/// The container's environment.
fn environment(release: &Release) -> Vec<Value> {
    let mut variables: Vec<Value> = release
        .operands
        .iter()
        .map(|operand| json!({ "name": operand.variable, "value": operand.image }))
        .collect();
    variables.push(json!({
        "name": "POD_NAMESPACE",
        "valueFrom": { "fieldRef": { "fieldPath": "metadata.namespace" } },
    }));
    variables
}

/// `spec` of the Deployment, which the ClusterServiceVersion has as well. Its webhook
/// certificate is for somebody else to mount.
pub fn deployment_spec(release: &Release) -> Value {
    json!({
        "replicas": REPLICAS,
        "selector": { "matchLabels": selector() },
        // A new replica serves before an old one goes.
        "strategy": {
            "type": "RollingUpdate",
            "rollingUpdate": { "maxUnavailable": 0, "maxSurge": 1 },
        },
        "template": {
            "metadata": {
                "annotations": { "kubectl.kubernetes.io/default-container": CONTAINER },
                "labels": component_labels(),
            },
            "spec": {
                "serviceAccountName": SERVICE_ACCOUNT,
                "terminationGracePeriodSeconds": TERMINATION_GRACE_SECONDS,
                "enableServiceLinks": false,
                // Without a user: the image names one that is not root, and OpenShift gives
                // each namespace its own.
                "securityContext": {
                    "runAsNonRoot": true,
                    "seccompProfile": { "type": "RuntimeDefault" },
                },
                "affinity": { "nodeAffinity": node_affinity(release) },
                "topologySpreadConstraints": [
                    spread("kubernetes.io/hostname"),
                    spread("topology.kubernetes.io/zone"),
                ],
                "containers": [container(release)],
            },
        },
    })
}

/// Only nodes that the image runs on.
fn node_affinity(release: &Release) -> Value {
    let one_of = |key: &str, values: Vec<&str>| {
        json!({
            "key": key,
            "operator": "In",
            "values": values,
        })
    };
    json!({
        "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [{
            "matchExpressions": [
                one_of("kubernetes.io/arch", release.architectures()),
                one_of("kubernetes.io/os", release.systems()),
            ],
        }] },
    })
}

/// Apart if there is room: a node that goes takes one replica along, and not both. Counted
/// within one rollout, or the old replicas would decide where the new ones go.
fn spread(topology: &str) -> Value {
    json!({
        "topologyKey": topology,
        "maxSkew": 1,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": { "matchLabels": selector() },
        "matchLabelKeys": ["pod-template-hash"],
    })
}

fn container(release: &Release) -> Value {
    let port = |name: &str, port: u16| {
        json!({
            "name": name,
            "containerPort": port,
            "protocol": "TCP",
        })
    };
    let probe = |path: &str, period: i32| {
        json!({
            "httpGet": { "path": format!("/{path}"), "port": HEALTH_PORT_NAME },
            "periodSeconds": period,
            "timeoutSeconds": 2,
            "failureThreshold": 3,
        })
    };
    json!({
        "name": CONTAINER,
        "image": release.image,
        "args": arguments(),
        "env": environment(release),
        "ports": [
            port(WEBHOOK_PORT_NAME, WEBHOOK_PORT),
            port(METRICS_PORT_NAME, METRICS_PORT),
            port(HEALTH_PORT_NAME, health_port()),
        ],
        "livenessProbe": probe(HEALTHZ, 20),
        "readinessProbe": probe(READYZ, READINESS_PERIOD_SECONDS),
        // 10 MiB idle, some 40 MiB with ten thousand resources, and below 64 MiB for whatever
        // is sent to the webhooks at a time. No limit of CPU: it would be felt by whoever waits
        // for a webhook.
        "resources": {
            "requests": { "cpu": "10m", "memory": "64Mi" },
            "limits": { "memory": "256Mi" },
        },
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": { "drop": ["ALL"] },
            "readOnlyRootFilesystem": true,
        },
    })
}

/// The port in [`HEALTH_ADDRESS`].
fn health_port() -> u16 {
    let port = HEALTH_ADDRESS.rsplit_once(':');
    port.and_then(|(_, port)| port.parse().ok()).unwrap_or(0)
}

/// The Deployment.
pub fn deployment(release: &Release) -> Value {
    let mut metadata = metadata(DEPLOYMENT, Some(NAMESPACE));
    metadata["labels"] = component_labels();
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": deployment_spec(release),
    })
}

/// The Namespace, whose pods keep the Pod Security Standard *restricted*, as the manager does.
pub fn namespace() -> Value {
    let mut metadata = metadata(NAMESPACE, None);
    for mode in ["enforce", "warn"] {
        metadata["labels"][format!("pod-security.kubernetes.io/{mode}")] = "restricted".into();
    }
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata })
}

/// The Service in front of the metrics.
pub fn metrics_service() -> Value {
    let mut metadata = metadata(METRICS_SERVICE, Some(NAMESPACE));
    metadata["labels"] = component_labels();
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {
            "ports": [{
                "name": METRICS_PORT_NAME,
                "port": METRICS_PORT,
                "protocol": "TCP",
                "targetPort": METRICS_PORT_NAME,
            }],
            "selector": selector(),
        },
    })
}

/// What a drain of nodes must leave: one replica, since without any no resource can be written.
/// A replica that is not ready may always go.
pub fn disruption_budget() -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(DEPLOYMENT, Some(NAMESPACE)),
        "spec": {
            "minAvailable": 1,
            "selector": { "matchLabels": selector() },
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    })
}

/// The files of `manager`.
pub(super) fn manifests(release: &Release) -> Result<Vec<Manifest>, ManifestError> {
    let objects = [
        ("namespace.yaml", namespace()),
        ("manager.yaml", deployment(release)),
        ("metrics_service.yaml", metrics_service()),
        ("disruption_budget.yaml", disruption_budget()),
    ];
    let mut manifests = Vec::new();
    for (file, object) in &objects {
        manifests.push(Manifest::object(format!("manager/{file}"), object)?);
    }
    let files = objects.map(|(file, _)| file.to_owned());
    manifests.push(kustomization(
        "manager/kustomization.yaml",
        "# The manager, without rights and without a webhook certificate: config/default and\n\
         # config/certmanager add them.\n",
        &files,
    )?);
    Ok(manifests)
}

#[cfg(test)]
mod tests;
