//! Builds the pod of a [`Plan`]: container, security context and scheduling. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Capabilities, ConfigMapVolumeSource, Container, ContainerPort, HTTPGetAction, Lifecycle,
    LifecycleHandler, LocalObjectReference, PodSecurityContext, PodSpec, Probe,
    ResourceRequirements, SeccompProfile, SecurityContext, SleepAction, TCPSocketAction,
    Toleration, TopologySpreadConstraint, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::image;
use super::names::KIND_LABEL;
use super::plan::{Plan, WorkloadDefaults};
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
    let security = workload.pod_security.unwrap_or(plan.defaults.pod_security);
    let scheduling = workload.scheduling.clone().unwrap_or_default();
    let tolerations = scheduling.tolerations.iter().flatten().map(toleration);
    let secrets = workload.image_pull_secrets.iter().flatten();
    let secrets = secrets.map(|secret| LocalObjectReference {
        name: secret.name.clone(),
    });
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
        image_pull_secrets: Some(secrets.collect()),
        security_context: Some(pod_security_context(plan, security)),
        containers: vec![container(plan, container_name, security)],
        topology_spread_constraints: Some(spread_constraints(&scheduling, selector)),
        tolerations: Some(tolerations.collect()),
        node_selector: scheduling.node_selector,
        priority_class_name: non_empty(&scheduling.priority_class_name),
        volumes: files.map(|files| vec![files]),
        ..PodSpec::default()
    }
}

fn container(plan: &Plan, name: &str, security: PodSecurity) -> Container {
    let defaults = plan.defaults;
    Container {
        name: name.to_owned(),
        image: Some(plan.image.reference().to_owned()),
        image_pull_policy: Some(format!("{:?}", image_pull_policy(plan))),
        command: Some(plan.command.clone()),
        args: Some(plan.args.clone()),
        ports: Some(vec![ContainerPort {
            name: Some(defaults.port_name.to_owned()),
            container_port: plan.container_port,
            protocol: Some("TCP".to_owned()),
            ..ContainerPort::default()
        }]),
        resources: Some(resources(plan)),
        readiness_probe: Some(probe(plan, 5)),
        // None for the user's image, since a wrong guess would kill a slow start.
        liveness_probe: plan.image.is_ours().then(|| probe(plan, 20)),
        lifecycle: pre_stop(defaults),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            read_only_root_filesystem: (defaults.read_only && plan.image.is_ours()).then_some(true),
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
fn pre_stop(defaults: &WorkloadDefaults) -> Option<Lifecycle> {
    let seconds = defaults.pre_stop_seconds;
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
    let user = restricted.then_some(plan.defaults.run_as_user);
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
        ("cpu", plan.defaults.cpu_request),
        ("memory", plan.memory_request.as_str()),
    ];
    for (resource, default) in defaults {
        if !limits.contains_key(resource) {
            let request = requests.entry(resource.to_owned());
            request.or_insert_with(|| default.to_owned());
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
fn probe(plan: &Plan, period_seconds: i32) -> Probe {
    let port = IntOrString::String(plan.defaults.port_name.to_owned());
    let path = plan.defaults.health_path.filter(|_| plan.image.is_ours());
    let tcp_socket = path.is_none().then(|| TCPSocketAction {
        port: port.clone(),
        host: None,
    });
    Probe {
        period_seconds: Some(period_seconds),
        http_get: path.map(|path| HTTPGetAction {
            path: Some(path.to_owned()),
            port,
            ..HTTPGetAction::default()
        }),
        tcp_socket,
        ..Probe::default()
    }
}

/// Constraints on the pods of the instance only.
fn spread_constraints(
    scheduling: &Scheduling,
    selector: &BTreeMap<String, String>,
) -> Vec<TopologySpreadConstraint> {
    // As before this label: another selector would replace the pods of an earlier release.
    let mut selector = selector.clone();
    selector.remove(KIND_LABEL);
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

/// A selector of these labels.
pub(super) fn match_labels(labels: BTreeMap<String, String>) -> LabelSelector {
    LabelSelector {
        match_labels: Some(labels),
        match_expressions: None,
    }
}
