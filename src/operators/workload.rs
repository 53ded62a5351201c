//! Children made of a [`Plan`]: the one Deployment and the one Service of every kind. Kinds
//! differ in the data of their plan only. Pure.
//!
//! A body is the complete set of fields that we own, as sent by server-side apply, and drift
//! is seen by comparing it with what `managedFields` says is ours. Hence three rules:
//! nothing absent is written ([`without_absent`]); the keys of associative lists are written
//! even where the API server has a default for them (`protocol: TCP`), or the item that we
//! own could not be found again; and what we have no opinion on is left out, to whoever has
//! one (an injected sidecar, an annotation, `imagePullPolicy`).

use serde_json::{Map, Value, json};

use super::names::{
    COMPONENT_LABEL, INSTANCE_LABEL, MANAGED_BY, MANAGED_BY_LABEL, NAME_LABEL, PART_OF_LABEL,
    child_name, label_value,
};
use super::{Child, ChildKind, Resource};
use crate::api::Kind;
use crate::api::workload::{
    PodSecurity, Resources, Scheduling, ServiceSpec, ServiceType, Toleration, Workload,
};

/// What is the same for every instance of a kind.
#[derive(Debug)]
pub(super) struct Program {
    /// `app.kubernetes.io/component`: the role that it plays.
    pub(super) component: &'static str,
    /// Name of the container's port; Services and probes refer to it.
    pub(super) port_name: &'static str,
    /// User that it runs as under `Restricted`. A number, since `runAsNonRoot` refuses an
    /// image whose USER is a name.
    pub(super) run_as_user: i64,
    /// CPU that is requested unless the resource says otherwise.
    pub(super) cpu_request: &'static str,
    /// Pod Security Standard unless the resource names one.
    pub(super) pod_security: PodSecurity,
    /// Our image writes nowhere in its own file system.
    pub(super) read_only: bool,
    /// Path that our image answers with 200; without one the port is probed.
    pub(super) health_path: Option<&'static str>,
    /// A label of pods that users of the seed know, whose value is the resource's name.
    pub(super) legacy_pod_label: Option<&'static str>,
}

/// What one resource asks for.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) program: &'static Program,
    /// Pods, within the limit.
    pub(super) replicas: i32,
    pub(super) image: Image,
    /// Entry point and arguments; empty leaves them to the image.
    pub(super) command: Vec<String>,
    pub(super) args: Vec<String>,
    /// Port that the program listens on.
    pub(super) container_port: i32,
    /// Memory that is requested unless the resource says otherwise.
    pub(super) memory_request: String,
    /// What the user says of the container and where it runs.
    pub(super) workload: Workload,
    pub(super) service: Option<ServicePlan>,
}

/// An image and what may be assumed of it.
#[derive(Debug)]
pub(super) enum Image {
    /// The operand image of the manager: its user, its paths and its ways are known.
    Ours(String),
    /// The user's: nothing is known but the port.
    Users(String),
}

impl Image {
    /// The image that the user names, or else the operand image.
    pub(super) fn named_or(users: Option<&String>, ours: &str) -> Self {
        match users {
            Some(image) => Image::Users(image.clone()),
            None => Image::Ours(ours.to_owned()),
        }
    }

    fn reference(&self) -> &str {
        match self {
            Image::Ours(image) | Image::Users(image) => image,
        }
    }

    fn is_ours(&self) -> bool {
        matches!(self, Image::Ours(_))
    }
}

/// The Service of an instance.
#[derive(Debug)]
pub(super) struct ServicePlan {
    /// `ClusterIP`, `NodePort` or `LoadBalancer`.
    pub(super) type_: &'static str,
    /// No virtual address: clients find the pods themselves.
    pub(super) headless: bool,
    /// Port of the Service.
    pub(super) port: i32,
    /// Port of every node; `None` leaves the choice to the API server.
    pub(super) node_port: Option<i32>,
}

impl From<&ServiceSpec> for ServicePlan {
    fn from(asked: &ServiceSpec) -> Self {
        ServicePlan {
            type_: match asked.type_.unwrap_or(ServiceType::ClusterIP) {
                ServiceType::ClusterIP => "ClusterIP",
                ServiceType::NodePort => "NodePort",
                ServiceType::LoadBalancer => "LoadBalancer",
            },
            headless: false,
            port: asked.port.unwrap_or(80),
            node_port: asked.node_port,
        }
    }
}

/// The Deployment, then the Service if one is asked for.
pub(super) fn children(kind: &Kind, resource: &Resource, plan: &Plan) -> Vec<Child> {
    let deployment = deployment(kind, resource, plan);
    let service = plan.service.as_ref().map(|asked| service(kind, resource, plan, asked));
    [Some(deployment), service].into_iter().flatten().collect()
}

/// The labels that select an instance's pods: the program and the instance, so that neither
/// another instance nor a namesake of another kind is met. Immutable in a Deployment, hence
/// nothing that may change is among them, such as a version.
pub(super) fn selector(kind: &Kind, resource: &Resource) -> [(&'static str, String); 2] {
    [(INSTANCE_LABEL, label_value(&resource.name)), (NAME_LABEL, kind.controller_name())]
}

/// [`selector`] in the form of `kubectl get pods -l`, as the scale subresource wants it.
pub(super) fn selector_text(kind: &Kind, resource: &Resource) -> String {
    selector(kind, resource).map(|(label, value)| format!("{label}={value}")).join(",")
}

fn selector_json(kind: &Kind, resource: &Resource) -> Value {
    object(selector(kind, resource))
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
    if let (Some(legacy), Value::Object(labels)) = (program.legacy_pod_label, &mut labels) {
        labels.insert(legacy.to_owned(), label_value(&resource.name).into());
    }
    labels
}

fn object(entries: impl IntoIterator<Item = (&'static str, String)>) -> Value {
    entries.into_iter().map(|(key, value)| (key.to_owned(), Value::from(value))).collect()
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
    let body = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(kind, resource, plan.program, &name),
        "spec": {
            "replicas": plan.replicas,
            "selector": { "matchLabels": selector_json(kind, resource) },
            "template": {
                "metadata": { "labels": pod_labels(kind, resource, plan.program) },
                "spec": pod_spec(kind, resource, plan),
            },
        },
    });
    Child { kind: ChildKind::Deployment, name, body: without_absent(body) }
}

fn service(kind: &Kind, resource: &Resource, plan: &Plan, asked: &ServicePlan) -> Child {
    let port_name = plan.program.port_name;
    let body = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(kind, resource, plan.program, &resource.name),
        "spec": {
            "type": asked.type_,
            "clusterIP": asked.headless.then_some("None"),
            "selector": selector_json(kind, resource),
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
    Child { kind: ChildKind::Service, name: resource.name.clone(), body: without_absent(body) }
}

fn pod_spec(kind: &Kind, resource: &Resource, plan: &Plan) -> Value {
    let workload = &plan.workload;
    let security = workload.pod_security.unwrap_or(plan.program.pod_security);
    let mut spec = json!({
        "automountServiceAccountToken": false,
        "imagePullSecrets": workload.image_pull_secrets,
        "securityContext": pod_security_context(plan.program, security),
        "containers": [container(kind, plan, security)],
    });
    if let (Some(scheduling), Value::Object(spec)) = (&workload.scheduling, &mut spec) {
        spec.extend(scheduled(scheduling, selector_json(kind, resource)));
    }
    spec
}

fn container(kind: &Kind, plan: &Plan, security: PodSecurity) -> Value {
    let program = plan.program;
    json!({
        "name": kind.controller_name(),
        "image": plan.image.reference(),
        "imagePullPolicy": plan.workload.image_pull_policy,
        "command": plan.command,
        "args": plan.args,
        "ports": [{
            "name": program.port_name,
            "containerPort": plan.container_port,
            "protocol": "TCP",
        }],
        "resources": resources(plan),
        "readinessProbe": readiness_probe(plan),
        "livenessProbe": liveness_probe(plan),
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": (program.read_only && plan.image.is_ours()).then_some(true),
            "capabilities": capabilities(security),
        },
    })
}

/// Pod Security Standards, *restricted*: not root, by number, and a seccomp profile. Under
/// *baseline* the image chooses its user, root included.
fn pod_security_context(program: &Program, security: PodSecurity) -> Value {
    let restricted = security == PodSecurity::Restricted;
    json!({
        "seccompProfile": { "type": "RuntimeDefault" },
        "runAsNonRoot": restricted.then_some(true),
        "runAsUser": restricted.then_some(program.run_as_user),
        "runAsGroup": restricted.then_some(program.run_as_user),
    })
}

/// Under `Baseline` what a web server needs that starts as root, binds port 80 and gives
/// up root; the standard allows each of them.
fn capabilities(security: PodSecurity) -> Value {
    match security {
        PodSecurity::Restricted => json!({ "drop": ["ALL"] }),
        PodSecurity::Baseline => json!({
            "drop": ["ALL"],
            "add": ["CHOWN", "NET_BIND_SERVICE", "SETGID", "SETUID"],
        }),
    }
}

/// What the user says, and a request for each of CPU and memory of which the user says
/// nothing: where there is a limit, the API server takes it for the request, and a default
/// of ours might be above it. Quantities stay as they are written; they compare by value.
fn resources(plan: &Plan) -> Value {
    let users = plan.workload.resources.clone().unwrap_or_default();
    let Resources { requests, limits } = users;
    let (mut requests, limits) = (requests.unwrap_or_default(), limits.unwrap_or_default());
    let defaults = [("cpu", plan.program.cpu_request), ("memory", plan.memory_request.as_str())];
    for (resource, default) in defaults {
        if !limits.contains_key(resource) {
            requests.entry(resource.to_owned()).or_insert_with(|| default.to_owned());
        }
    }
    json!({ "requests": requests, "limits": limits })
}

/// Of an image that is the user's only the port is known.
fn readiness_probe(plan: &Plan) -> Value {
    probe(plan, 5)
}

/// None for the user's image: what is slow to start there must not be killed by our guess.
fn liveness_probe(plan: &Plan) -> Option<Value> {
    plan.image.is_ours().then(|| probe(plan, 20))
}

fn probe(plan: &Plan, period_seconds: i32) -> Value {
    let port = plan.program.port_name;
    match plan.program.health_path.filter(|_| plan.image.is_ours()) {
        Some(path) => json!({
            "httpGet": { "path": path, "port": port },
            "periodSeconds": period_seconds,
        }),
        None => json!({ "tcpSocket": { "port": port }, "periodSeconds": period_seconds }),
    }
}

/// The fields of a pod that say where it may run.
fn scheduled(scheduling: &Scheduling, instance: Value) -> Map<String, Value> {
    let spread = scheduling.topology_spread_constraints.iter().flatten().map(|constraint| {
        json!({
            "maxSkew": constraint.max_skew,
            "topologyKey": constraint.topology_key,
            "whenUnsatisfiable": constraint.when_unsatisfiable,
            "labelSelector": { "matchLabels": instance },
        })
    });
    let tolerations = scheduling.tolerations.iter().flatten().map(toleration);
    Map::from_iter([
        ("nodeSelector".to_owned(), json!(scheduling.node_selector)),
        ("tolerations".to_owned(), tolerations.collect()),
        ("topologySpreadConstraints".to_owned(), spread.collect()),
        ("priorityClassName".to_owned(), json!(said(&scheduling.priority_class_name))),
    ])
}

fn toleration(toleration: &Toleration) -> Value {
    json!({
        "key": said(&toleration.key),
        "operator": said(&toleration.operator),
        "value": said(&toleration.value),
        "effect": said(&toleration.effect),
        "tolerationSeconds": toleration.toleration_seconds,
    })
}

/// A text that is not empty: the API server leaves empty ones of these fields out.
fn said(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
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
