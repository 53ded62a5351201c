//! The pod of a [`Plan`]: its container, what it may do, and where it may run. Pure. Absent
//! values are nulls here; `workload` takes them out.

use serde_json::{Value, json};

use super::image;
use super::plan::{Plan, Program};
use crate::api::workload::{ImagePullPolicy, PodSecurity, Resources, Scheduling, Toleration};

/// The pod's spec. `selector` are the labels of its instance, `container_name` the name that
/// its one container keeps for ever.
pub(super) fn spec(plan: &Plan, container_name: &str, selector: &Value) -> Value {
    let workload = &plan.workload;
    let security = workload.pod_security.unwrap_or(plan.program.pod_security);
    let scheduling = workload.scheduling.clone().unwrap_or_default();
    json!({
        "automountServiceAccountToken": false,
        "imagePullSecrets": workload.image_pull_secrets,
        "securityContext": pod_security_context(plan.program, security),
        "containers": [container(plan, container_name, security)],
        "nodeSelector": scheduling.node_selector,
        "tolerations": scheduling.tolerations.iter().flatten().map(toleration).collect::<Value>(),
        "topologySpreadConstraints": spread_constraints(&scheduling, selector),
        "priorityClassName": said(&scheduling.priority_class_name),
    })
}

fn container(plan: &Plan, name: &str, security: PodSecurity) -> Value {
    let program = plan.program;
    json!({
        "name": name,
        "image": plan.image.reference(),
        "imagePullPolicy": image_pull_policy(plan),
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
        "lifecycle": { "preStop": lingering(program) },
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": (program.read_only && plan.image.is_ours()).then_some(true),
            "capabilities": capabilities(security),
        },
    })
}

/// Always set: the API server's default depends on the image that the container was created
/// with, and stays when only the image changes.
fn image_pull_policy(plan: &Plan) -> ImagePullPolicy {
    let users = plan.workload.image_pull_policy;
    users.unwrap_or_else(|| image::default_pull_policy(plan.image.reference()))
}

/// The kubelet waits for so long before it tells the program to end (KEP-3960, in every
/// Kubernetes since 1.30).
fn lingering(program: &Program) -> Option<Value> {
    let seconds = program.lingers_seconds;
    (seconds > 0).then(|| json!({ "sleep": { "seconds": seconds } }))
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
    let defaults = [
        ("cpu", plan.program.cpu_request),
        ("memory", plan.memory_request.as_str()),
    ];
    for (resource, default) in defaults {
        if !limits.contains_key(resource) {
            requests
                .entry(resource.to_owned())
                .or_insert_with(|| default.to_owned());
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

/// Spread over the pods of the instance itself.
fn spread_constraints(scheduling: &Scheduling, selector: &Value) -> Value {
    let constraints = scheduling.topology_spread_constraints.iter().flatten();
    constraints
        .map(|constraint| {
            json!({
                "maxSkew": constraint.max_skew,
                "topologyKey": constraint.topology_key,
                "whenUnsatisfiable": constraint.when_unsatisfiable,
                "labelSelector": { "matchLabels": selector },
            })
        })
        .collect()
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
