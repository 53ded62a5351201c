//! Children made of a [`Plan`]: the one Deployment and the one Service of every kind. Kinds
//! differ in the data of their plan only. Pure.
//!
//! A body is the complete set of fields that we own, as sent by server-side apply, and drift
//! is seen by comparing it with what `managedFields` says is ours. Hence four rules:
//! nothing absent is written ([`without_absent`]); the keys of associative lists are written
//! even where the API server has a default for them (`protocol: TCP`), or the item that we
//! own could not be found again; a field whose default depends on another field that we write
//! is written too (`imagePullPolicy`, `externalTrafficPolicy`), or its value would depend on
//! what the other field was before; and what we have no opinion on is left out, to whoever
//! has one (an injected sidecar, an annotation, a toleration of the platform).

use serde_json::{Value, json};

use super::names::{
    self, COMPONENT_LABEL, KIND_LABEL, MANAGED_BY, MANAGED_BY_LABEL, PART_OF_LABEL, child_name,
    label_value,
};
use super::plan::{Plan, Program, ServicePlan};
use super::{Child, ChildKind, Resource, kept, pod};
use crate::api::Kind;

/// The Deployment, then the Service if one is asked for.
pub(super) fn children(kind: &Kind, resource: &Resource, plan: &Plan) -> Vec<Child> {
    let deployment = deployment(kind, resource, plan);
    let service = plan
        .service
        .as_ref()
        .map(|asked| service(kind, resource, plan, asked));
    [Some(deployment), service].into_iter().flatten().collect()
}

fn selector(kind: &Kind, resource: &Resource) -> [(&'static str, String); 2] {
    names::selector(&kind.controller_name(), &resource.name)
}

/// The labels that select the pods, in the form of `kubectl get pods -l`, as the scale
/// subresource wants it; `kept` is the selector that an older operator gave the Deployment.
pub(super) fn selector_text(kind: &Kind, resource: &Resource, kept: Option<&Value>) -> String {
    selector(kind, resource)
        .map(|(label, ours)| {
            let value = kept.and_then(|kept| kept::value(kept, label));
            format!("{label}={}", value.unwrap_or(&ours))
        })
        .join(",")
}

fn labels(kind: &Kind, resource: &Resource, program: &Program) -> Value {
    object(selector(kind, resource).into_iter().chain([
        (COMPONENT_LABEL, program.component.to_owned()),
        (MANAGED_BY_LABEL, MANAGED_BY.to_owned()),
        (PART_OF_LABEL, MANAGED_BY.to_owned()),
    ]))
}

fn pod_labels(kind: &Kind, resource: &Resource, program: &Program) -> Value {
    let mut labels = labels(kind, resource, program);
    if let Value::Object(labels) = &mut labels {
        labels.insert(KIND_LABEL.to_owned(), kind.controller_name().into());
        if let Some(legacy) = program.legacy_pod_label {
            labels.insert(legacy.to_owned(), label_value(&resource.name).into());
        }
    }
    labels
}

fn object(entries: impl IntoIterator<Item = (&'static str, String)>) -> Value {
    entries
        .into_iter()
        .map(|(key, value)| (key.to_owned(), Value::from(value)))
        .collect()
}

fn metadata(kind: &Kind, resource: &Resource, program: &Program, name: &str) -> Value {
    json!({
        "name": name,
        "namespace": resource.namespace,
        "labels": labels(kind, resource, program),
        "ownerReferences": [{
            "apiVersion": resource.api_version,
            "kind": kind.kind,
            "name": resource.name,
            "uid": resource.uid,
            "controller": true,
            "blockOwnerDeletion": true,
        }],
    })
}

fn deployment(kind: &Kind, resource: &Resource, plan: &Plan) -> Child {
    let name = child_name(&resource.name);
    let selector = object(selector(kind, resource));
    let body = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(kind, resource, plan.program, &name),
        "spec": {
            "replicas": plan.replicas,
            "selector": { "matchLabels": selector },
            "template": {
                "metadata": { "labels": pod_labels(kind, resource, plan.program) },
                "spec": pod::spec(plan, &kind.controller_name(), &selector),
            },
        },
    });
    Child {
        kind: ChildKind::Deployment,
        name,
        body: without_absent(body),
    }
}

fn service(kind: &Kind, resource: &Resource, plan: &Plan, asked: &ServicePlan) -> Child {
    let port_name = plan.program.port_name;
    let is_balanced = asked.type_ == "LoadBalancer";
    let is_external = is_balanced || asked.type_ == "NodePort";
    let body = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(kind, resource, plan.program, &resource.name),
        "spec": {
            "type": asked.type_,
            "clusterIP": asked.headless.then_some("None"),
            // The API server's defaults for these depend on the type.
            "internalTrafficPolicy": "Cluster",
            "externalTrafficPolicy": is_external.then_some("Cluster"),
            "allocateLoadBalancerNodePorts": is_balanced.then_some(true),
            "selector": object(selector(kind, resource)),
            "ports": [{
                "name": port_name,
                "protocol": "TCP",
                "port": asked.port,
                // By name: the number may change in one rollout, pod by pod.
                "targetPort": port_name,
                "nodePort": asked.node_port,
            }],
        },
    });
    Child {
        kind: ChildKind::Service,
        name: resource.name.clone(),
        body: without_absent(body),
    }
}

/// `value` without nulls, empty lists and empty objects, at any depth: to own them would be
/// to fight over fields of which we say nothing.
fn without_absent(value: Value) -> Value {
    let is_absent = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    };
    match value {
        Value::Object(members) => members
            .into_iter()
            .map(|(name, member)| (name, without_absent(member)))
            .filter(|(_, member)| !is_absent(member))
            .collect(),
        Value::Array(items) => items.into_iter().map(without_absent).collect(),
        other => other,
    }
}
