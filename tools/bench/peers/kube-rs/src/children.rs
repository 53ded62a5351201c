//! Desired children and status: functions of the resource and of what the caches hold, no I/O.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{
    Capabilities, Container, ContainerPort, PodSecurityContext, PodSpec, PodTemplateSpec,
};
use k8s_openapi::api::core::v1::{ResourceRequirements, SeccompProfile, SecurityContext};
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    Condition, LabelSelector, OwnerReference, Time,
};
use k8s_openapi::apimachinery::pkg::{api::resource::Quantity, util::intstr::IntOrString};
use k8s_openapi::{DeepMerge, jiff::Timestamp};
use kube::{ResourceExt, api::ObjectMeta};

use crate::api::{Operand, Status, Wants};

pub const NAME_LABEL: &str = "app.kubernetes.io/name";
pub const INSTANCE_LABEL: &str = "app.kubernetes.io/instance";
pub const MANAGED_BY_LABEL: &str = "app.kubernetes.io/managed-by";
pub const MANAGER: &str = "quartet-operator";

fn labels<K: Operand>(cr: &K) -> BTreeMap<String, String> {
    [
        (NAME_LABEL, K::NAME),
        (INSTANCE_LABEL, &cr.name_any()),
        (MANAGED_BY_LABEL, MANAGER),
    ]
    .map(|(k, v)| (k.to_owned(), v.to_owned()))
    .into()
}

fn metadata<K: Operand>(cr: &K) -> ObjectMeta {
    let owner = cr.controller_owner_ref(&()).map(|o| OwnerReference {
        block_owner_deletion: Some(true),
        ..o
    });
    ObjectMeta {
        name: cr.meta().name.clone(),
        namespace: cr.meta().namespace.clone(),
        labels: Some(labels(cr)),
        owner_references: owner.map(|o| vec![o]),
        ..Default::default()
    }
}

pub fn deployment<K: Operand>(cr: &K, wants: &Wants) -> Deployment {
    let mut pod_labels = labels(cr);
    pod_labels.extend(
        wants
            .pod_label
            .iter()
            .map(|(k, v)| (k.to_string(), v.clone())),
    );
    let container = Container {
        name: K::NAME.into(),
        image: Some(wants.image.into()),
        image_pull_policy: Some("IfNotPresent".into()),
        ports: Some(vec![ContainerPort {
            name: Some("http".into()),
            container_port: wants.container_port,
            protocol: Some("TCP".into()),
            ..Default::default()
        }]),
        resources: Some(ResourceRequirements {
            requests: Some(
                [("cpu", "10m"), ("memory", "32Mi")]
                    .map(|(k, v)| (k.into(), Quantity(v.into())))
                    .into(),
            ),
            ..Default::default()
        }),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            capabilities: Some(Capabilities {
                drop: Some(vec!["ALL".into()]),
                ..Default::default()
            }),
            ..Default::default()
        }),
        ..Default::default()
    };
    let pod = PodSpec {
        security_context: Some(PodSecurityContext {
            run_as_non_root: Some(true),
            seccomp_profile: Some(SeccompProfile {
                type_: "RuntimeDefault".into(),
                ..Default::default()
            }),
            ..Default::default()
        }),
        containers: vec![container],
        ..Default::default()
    };
    Deployment {
        metadata: metadata(cr),
        spec: Some(DeploymentSpec {
            replicas: Some(wants.replicas),
            selector: LabelSelector {
                match_labels: Some(labels(cr)),
                ..Default::default()
            },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(pod_labels),
                    ..Default::default()
                }),
                spec: Some(pod),
            },
            ..Default::default()
        }),
        ..Default::default()
    }
}

pub fn service<K: Operand>(cr: &K, wants: &Wants) -> Option<Service> {
    let node_port = wants.node_port?;
    Some(Service {
        metadata: metadata(cr),
        spec: Some(ServiceSpec {
            type_: Some("NodePort".into()),
            selector: Some(labels(cr)),
            ports: Some(vec![ServicePort {
                name: Some("http".into()),
                port: 8080,
                protocol: Some("TCP".into()),
                target_port: Some(IntOrString::String("http".into())),
                node_port: Some(node_port),
                ..Default::default()
            }]),
            ..Default::default()
        }),
        ..Default::default()
    })
}

/// Whether `got` has every field that we own, with our value: then merging ours into it changes nothing.
pub fn holds<C: DeepMerge + Clone + PartialEq>(got: &C, want: &C) -> bool {
    let mut merged = got.clone();
    merged.merge_from(want.clone());
    merged == *got
}

/// `deployment` is `None` when it is not known yet.
pub fn status<K: Operand>(
    cr: &K,
    wants: &Wants,
    deployment: Option<&Deployment>,
    nodes: Vec<String>,
) -> Status {
    let generation = cr.meta().generation.unwrap_or_default();
    let mut conditions = cr
        .status()
        .map(|s| s.conditions.clone())
        .unwrap_or_default();
    let (mut ready, mut done) = (0, false);
    if let Some((d, s)) = deployment.and_then(|d| Some((d, d.status.as_ref()?))) {
        ready = s.ready_replicas.unwrap_or(0);
        done = s.observed_generation == d.metadata.generation
            && [s.updated_replicas, s.replicas, s.ready_replicas]
                .iter()
                .all(|n| n.unwrap_or(0) == wants.replicas);
    }
    let reason = if done {
        "RolloutComplete"
    } else {
        "RollingOut"
    };
    set_condition(&mut conditions, "Ready", done, reason, generation);
    set_condition(&mut conditions, "Progressing", !done, reason, generation);
    let real_qps = wants.qps.map(|each| i64::from(each) * i64::from(ready));
    Status {
        observed_generation: generation,
        nodes,
        real_qps,
        conditions,
    }
}

/// The time of the last transition stays unless the condition's status changes; conditions of others stay.
fn set_condition(
    conditions: &mut Vec<Condition>,
    type_: &str,
    is: bool,
    reason: &str,
    generation: i64,
) {
    let status = if is { "True" } else { "False" };
    let old = conditions.iter().position(|c| c.type_ == type_);
    let since = old
        .map(|i| &conditions[i])
        .filter(|c| c.status == status)
        .map(|c| c.last_transition_time.clone());
    let new = Condition {
        type_: type_.into(),
        status: status.into(),
        reason: reason.into(),
        message: String::new(),
        observed_generation: Some(generation),
        last_transition_time: since.unwrap_or_else(|| Time(Timestamp::now())),
    };
    match old {
        Some(i) => conditions[i] = new,
        None => conditions.push(new),
    }
}
