//! The pod of a [`Plan`]: its container, what it may do, and where it may run. Pure.

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

/// The pod's spec. `container_name` is the name that its one container keeps for ever, `config_map`
/// that of the ConfigMap with its files, and `selector` are the labels of its instance.
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
        priority_class_name: said(&scheduling.priority_class_name),
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
        lifecycle: lingering(program),
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

/// Always set: the API server's default depends on the image that the container was created
/// with, and stays when only the image changes.
fn image_pull_policy(plan: &Plan) -> ImagePullPolicy {
    let users = plan.workload.image_pull_policy;
    users.unwrap_or_else(|| image::default_pull_policy(plan.image.reference()))
}

/// The kubelet waits for so long before it tells the program to end (KEP-3960, in every
/// Kubernetes since 1.30).
fn lingering(program: &Program) -> Option<Lifecycle> {
    let seconds = program.lingers_seconds;
    (seconds > 0).then(|| Lifecycle {
        pre_stop: Some(LifecycleHandler {
            sleep: Some(SleepAction { seconds }),
            ..LifecycleHandler::default()
        }),
        ..Lifecycle::default()
    })
}

/// Pod Security Standards, *restricted*: not root, by number, and a seccomp profile. Under
/// *baseline* the image chooses its user, root included.
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
        // A volume belongs to root unless the kubelet gives it to the group.
        fs_group: user.filter(|_| plan.storage.is_some()),
        ..PodSecurityContext::default()
    }
}

/// Under `Baseline` what a web server needs that starts as root, binds port 80 and gives
/// up root; the standard allows each of them.
fn capabilities(security: PodSecurity) -> Capabilities {
    const WEB_SERVER: [&str; 4] = ["CHOWN", "NET_BIND_SERVICE", "SETGID", "SETUID"];
    let is_baseline = security == PodSecurity::Baseline;
    Capabilities {
        drop: Some(vec!["ALL".to_owned()]),
        add: is_baseline.then(|| WEB_SERVER.map(str::to_owned).into()),
    }
}

/// What the user says, and a request for each of CPU and memory of which the user says
/// nothing: where there is a limit, the API server takes it for the request, and a default
/// of ours might be above it. Quantities stay as they are written; they compare by value.
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

/// Of an image that is the user's only the port is known.
fn readiness_probe(plan: &Plan) -> Probe {
    probe(plan, 5)
}

/// None for the user's image: what is slow to start there must not be killed by our guess.
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

/// Spread over the pods of the instance itself.
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
        key: said(&toleration.key),
        operator: said(&toleration.operator),
        value: said(&toleration.value),
        effect: said(&toleration.effect),
        toleration_seconds: toleration.toleration_seconds,
    }
}

/// A text that is not empty: the API server leaves empty ones of these fields out.
fn said(text: &Option<String>) -> Option<String> {
    text.clone().filter(|text| !text.is_empty())
}
