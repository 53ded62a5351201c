//! Builds the pod of a [`Plan`]: container, security context and scheduling. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Capabilities, ConfigMapVolumeSource, Container, ContainerPort, HTTPGetAction, Lifecycle,
    LifecycleHandler, LocalObjectReference, PodSecurityContext, PodSpec, Probe,
    ResourceRequirements, SeccompProfile, SecurityContext, SleepAction, TCPSocketAction,
    Toleration, TopologySpreadConstraint, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::image;
use super::plan::{Plan, Program};
use super::workload::match_labels;
use crate::api::workload::{self, ImagePullPolicy, PodSecurity, Resources, Scheduling};

/// Name of the volume of each pod, for its data.
pub(super) const DATA_VOLUME: &str = "data";
/// Name of the volume with the files of the ConfigMap.
const CONFIG_VOLUME: &str = "config";

/// The spec of the pod. `container_name` must never change. `config_map` is the name of the
/// ConfigMap with the files, and `selector` contains the labels of the instance.
pub(super) fn spec(
    plan: &Plan,
    container_name: &str,
    config_map: &str,
    selector: &BTreeMap<String, String>,
) -> PodSpec {
    let workload = &plan.workload;
    let security = workload.pod_security.unwrap_or(plan.program.pod_security);
    let scheduling = workload.scheduling.clone().unwrap_or_default();
    let secrets = workload.image_pull_secrets.iter().flatten();
    let files = plan.config.as_ref().map(|_| Volume {
        name: CONFIG_VOLUME.to_owned(),
        config_map: Some(ConfigMapVolumeSource {
            name: config_map.to_owned(),
            ..ConfigMapVolumeSource::default()
        }),
        ..Volume::default()
    });
    PodSpec {
        automount_service_account_token: Some(false),
        image_pull_secrets: Some(
            secrets
                .map(|secret| LocalObjectReference {
                    name: secret.name.clone(),
                })
                .collect(),
        ),
        security_context: Some(pod_security_context(plan, security)),
        containers: vec![container(plan, container_name, security)],
        topology_spread_constraints: Some(spread_constraints(&scheduling, selector)),
        node_selector: scheduling.node_selector,
        tolerations: Some(
            scheduling
                .tolerations
                .iter()
                .flatten()
                .map(toleration)
                .collect(),
        ),
        priority_class_name: non_empty(&scheduling.priority_class_name),
        volumes: files.map(|files| vec![files]),
        ..PodSpec::default()
    }
}

fn container(plan: &Plan, name: &str, security: PodSecurity) -> Container {
    let program = plan.program;
    Container {
        name: name.to_owned(),
        image: Some(plan.image.reference().to_owned()),
        image_pull_policy: Some(image_pull_policy(plan).as_str().to_owned()),
        command: Some(plan.command.clone()),
        args: Some(plan.args.clone()),
        ports: Some(vec![ContainerPort {
            name: Some(program.port_name.to_owned()),
            container_port: plan.container_port,
            protocol: Some("TCP".to_owned()),
            ..ContainerPort::default()
        }]),
        resources: Some(resources(plan)),
        readiness_probe: Some(readiness_probe(plan)),
        liveness_probe: liveness_probe(plan),
        lifecycle: pre_stop(program),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            read_only_root_filesystem: (program.read_only && plan.image.is_ours()).then_some(true),
            capabilities: Some(capabilities(security)),
            ..SecurityContext::default()
        }),
        volume_mounts: Some(volume_mounts(plan)),
        ..Container::default()
    }
}

fn volume_mounts(plan: &Plan) -> Vec<VolumeMount> {
    let mount = |name: &str, folder: &str, read_only: Option<bool>| VolumeMount {
        name: name.to_owned(),
        mount_path: folder.to_owned(),
        read_only,
        ..VolumeMount::default()
    };
    let config = plan.config.as_ref();
    let config = config.map(|config| mount(CONFIG_VOLUME, config.folder, Some(true)));
    let storage = plan.storage.as_ref();
    let storage = storage.map(|storage| mount(DATA_VOLUME, storage.folder, None));
    config.into_iter().chain(storage).collect()
}

/// Always set, since the default of the API server depends on the image that the container was
/// created with, and does not follow a change of the image.
fn image_pull_policy(plan: &Plan) -> ImagePullPolicy {
    let users = plan.workload.image_pull_policy;
    users.unwrap_or_else(|| image::default_pull_policy(plan.image.reference()))
}

/// The preStop sleep: the kubelet waits this long before it stops the program (KEP-3960, in
/// Kubernetes 1.30 and later).
fn pre_stop(program: &Program) -> Option<Lifecycle> {
    let seconds = program.lingers_seconds;
    (seconds > 0).then(|| Lifecycle {
        pre_stop: Some(LifecycleHandler {
            sleep: Some(SleepAction { seconds }),
            ..LifecycleHandler::default()
        }),
        ..Lifecycle::default()
    })
}

/// *restricted*: a non-root user, by number, and a seccomp profile. Under *baseline* the image
/// chooses its user, root included.
fn pod_security_context(plan: &Plan, security: PodSecurity) -> PodSecurityContext {
    let restricted = security == PodSecurity::Restricted;
    let user = restricted.then_some(plan.program.run_as_user);
    PodSecurityContext {
        seccomp_profile: Some(SeccompProfile {
            type_: "RuntimeDefault".to_owned(),
            localhost_profile: None,
        }),
        run_as_non_root: restricted.then_some(true),
        run_as_user: user,
        run_as_group: user,
        // Without a group, a volume belongs to root.
        fs_group: user.filter(|_| plan.storage.is_some()),
        ..PodSecurityContext::default()
    }
}

/// Under `Baseline`, the capabilities of a web server that starts as root, binds port 80 and
/// drops root; the standard allows each of them.
fn capabilities(security: PodSecurity) -> Capabilities {
    const WEB_SERVER: [&str; 4] = ["CHOWN", "NET_BIND_SERVICE", "SETGID", "SETUID"];
    let is_baseline = security == PodSecurity::Baseline;
    Capabilities {
        drop: Some(vec!["ALL".to_owned()]),
        add: is_baseline.then(|| WEB_SERVER.map(str::to_owned).into()),
    }
}

/// The user's resources, with default requests for CPU and memory where the user sets neither
/// request nor limit. With a limit only, the API server uses it as the request, and our default
/// might exceed it. Quantities are not normalized; they compare by value.
fn resources(plan: &Plan) -> ResourceRequirements {
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
    let quantities = |all: BTreeMap<String, String>| {
        let all = all.into_iter();
        Some(all.map(|(name, it)| (name, Quantity(it))).collect())
    };
    ResourceRequirements {
        requests: quantities(requests),
        limits: quantities(limits),
        claims: None,
    }
}

/// Probes only the port of a user's image.
fn readiness_probe(plan: &Plan) -> Probe {
    probe(plan, 5)
}

/// None for the user's image, since a wrong guess would kill a slow start.
fn liveness_probe(plan: &Plan) -> Option<Probe> {
    plan.image.is_ours().then(|| probe(plan, 20))
}

fn probe(plan: &Plan, period_seconds: i32) -> Probe {
    let port = IntOrString::String(plan.program.port_name.to_owned());
    let path = plan.program.health_path.filter(|_| plan.image.is_ours());
    let mut probe = Probe {
        period_seconds: Some(period_seconds),
        ..Probe::default()
    };
    match path {
        Some(path) => {
            probe.http_get = Some(HTTPGetAction {
                path: Some(path.to_owned()),
                port,
                ..HTTPGetAction::default()
            });
        }
        None => probe.tcp_socket = Some(TCPSocketAction { port, host: None }),
    }
    probe
}

/// Constraints on the pods of the instance only.
fn spread_constraints(
    scheduling: &Scheduling,
    selector: &BTreeMap<String, String>,
) -> Vec<TopologySpreadConstraint> {
    let constraints = scheduling.topology_spread_constraints.iter().flatten();
    constraints
        .map(|constraint| TopologySpreadConstraint {
            max_skew: constraint.max_skew,
            topology_key: constraint.topology_key.clone(),
            when_unsatisfiable: constraint.when_unsatisfiable.clone(),
            label_selector: Some(match_labels(selector.clone())),
            ..TopologySpreadConstraint::default()
        })
        .collect()
}

fn toleration(toleration: &workload::Toleration) -> Toleration {
    Toleration {
        key: non_empty(&toleration.key),
        operator: non_empty(&toleration.operator),
        value: non_empty(&toleration.value),
        effect: non_empty(&toleration.effect),
        toleration_seconds: toleration.toleration_seconds,
    }
}

/// A non-empty text: the API server omits these fields if they are empty.
fn non_empty(text: &Option<String>) -> Option<String> {
    text.clone().filter(|text| !text.is_empty())
}
