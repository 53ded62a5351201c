//! Children made of a [`Plan`]: the workload of every kind, its Service and its files. Kinds
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

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{
    Deployment, DeploymentSpec, StatefulSet, StatefulSetPersistentVolumeClaimRetentionPolicy,
    StatefulSetSpec,
};
use k8s_openapi::api::core::v1::{
    ConfigMap, PersistentVolumeClaim, PersistentVolumeClaimSpec, PersistentVolumeClaimStatus,
    PodTemplateSpec, Service, ServicePort, ServiceSpec, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::Value;

use super::names::{
    self, COMPONENT_LABEL, CONFIG_HASH, KIND_LABEL, MANAGED_BY, MANAGED_BY_LABEL, PART_OF_LABEL,
    RETAINED_FOR, child_name, config_name, label_value, stateful_name,
};
use super::plan::{ConfigPlan, Plan, Program, ServicePlan, StoragePlan};
use super::{Child, ChildObject, Resource, kept, pod};
use crate::api::Kind;

type Labels = BTreeMap<String, String>;

/// The ConfigMap if there are files; the Deployment, or a StatefulSet if the pods have storage; the
/// Service if one is asked for.
pub(super) fn children(kind: &Kind, resource: &Resource, plan: &Plan) -> Vec<Child> {
    let maker = Maker {
        kind,
        resource,
        program: plan.program,
    };
    let config = plan.config.as_ref().map(|config| maker.config_map(config));
    let workload = match &plan.storage {
        Some(storage) => maker.stateful_set(plan, storage),
        None => maker.deployment(plan),
    };
    let service = plan.service.as_ref().map(|asked| maker.service(asked));
    let others = plan
        .others
        .iter()
        .map(|child| maker.completed(child.clone()));
    let ours = [config, Some(workload), service].into_iter().flatten();
    others.chain(ours).collect()
}

/// The labels that select the pods, in the form of `kubectl get pods -l`, as the scale
/// subresource wants it; `kept` is the selector that an older operator gave the Deployment.
pub(super) fn selector_text(kind: &Kind, resource: &Resource, kept: Option<&Value>) -> String {
    names::selector(&kind.controller_name(), &resource.name)
        .map(|(label, ours)| {
            let value = kept.and_then(|kept| kept::value(kept, label));
            format!("{label}={}", value.unwrap_or(&ours))
        })
        .join(",")
}

/// Makes the children of one resource.
struct Maker<'a> {
    kind: &'a Kind,
    resource: &'a Resource,
    program: &'static Program,
}

impl Maker<'_> {
    fn selector(&self) -> Labels {
        let selector = names::selector(&self.kind.controller_name(), &self.resource.name);
        selector
            .map(|(label, value)| (label.to_owned(), value))
            .into()
    }

    fn labels(&self) -> Labels {
        let mut labels = self.selector();
        labels.extend(
            [
                (COMPONENT_LABEL, self.program.component),
                (MANAGED_BY_LABEL, MANAGED_BY),
                (PART_OF_LABEL, MANAGED_BY),
            ]
            .map(|(label, value)| (label.to_owned(), value.to_owned())),
        );
        labels
    }

    fn pod_labels(&self) -> Labels {
        let mut labels = self.labels();
        labels.insert(KIND_LABEL.to_owned(), self.kind.controller_name());
        if let Some(legacy) = self.program.legacy_pod_label {
            labels.insert(legacy.to_owned(), label_value(&self.resource.name));
        }
        labels
    }

    fn metadata(&self, name: String) -> ObjectMeta {
        let Resource {
            namespace,
            api_version,
            uid,
            ..
        } = self.resource;
        ObjectMeta {
            name: Some(name),
            namespace: Some(namespace.clone()),
            labels: Some(self.labels()),
            owner_references: Some(vec![OwnerReference {
                api_version: api_version.clone(),
                kind: self.kind.kind.to_owned(),
                name: self.resource.name.clone(),
                uid: uid.clone(),
                controller: Some(true),
                block_owner_deletion: Some(true),
            }]),
            ..ObjectMeta::default()
        }
    }

    /// A child of which the kind gives the name and what is particular to it.
    fn completed(&self, mut child: Child) -> Child {
        let ours = self.metadata(child.name.clone());
        let ours = without_absent(serde_json::to_value(ours).unwrap_or_default());
        if let Some(metadata) = child.body.pointer_mut("/metadata") {
            merge(metadata, ours);
            if let Some(Value::String(owner)) = retained_for(metadata) {
                let Resource { name, uid, .. } = self.resource;
                *owner = format!("{}/{}/{name}/{uid}", self.kind.group, self.kind.kind);
                if let Value::Object(metadata) = metadata {
                    metadata.remove("ownerReferences");
                }
            }
        }
        child
    }

    fn pod_template(&self, plan: &Plan) -> PodTemplateSpec {
        // A pod reads its files when it starts: other files are other pods.
        let hash = plan
            .config
            .as_ref()
            .map(|config| names::hash_of(&config.files));
        PodTemplateSpec {
            metadata: Some(ObjectMeta {
                labels: Some(self.pod_labels()),
                annotations: hash.map(|hash| [(CONFIG_HASH.to_owned(), hash)].into()),
                ..ObjectMeta::default()
            }),
            spec: Some(pod::spec(
                plan,
                &self.kind.controller_name(),
                &config_name(&self.resource.name),
                &self.selector(),
            )),
        }
    }

    fn deployment(&self, plan: &Plan) -> Child {
        Child::of(Deployment {
            metadata: self.metadata(child_name(&self.resource.name)),
            spec: Some(DeploymentSpec {
                replicas: Some(plan.replicas),
                selector: match_labels(self.selector()),
                template: self.pod_template(plan),
                ..DeploymentSpec::default()
            }),
            status: None,
        })
    }

    /// Its claims stay when it is deleted or scaled down: data is deleted by a person alone.
    fn stateful_set(&self, plan: &Plan, storage: &StoragePlan) -> Child {
        let keep = || Some("Retain".to_owned());
        Child::of(StatefulSet {
            metadata: self.metadata(stateful_name(&self.resource.name)),
            spec: Some(StatefulSetSpec {
                replicas: Some(plan.replicas),
                selector: match_labels(self.selector()),
                // The Service, if one is asked for, names the pods.
                service_name: Some(self.resource.name.clone()),
                // The pods do not wait for each other, and one that fails does not block its cure.
                pod_management_policy: Some("Parallel".to_owned()),
                persistent_volume_claim_retention_policy: Some(
                    StatefulSetPersistentVolumeClaimRetentionPolicy {
                        when_deleted: keep(),
                        when_scaled: keep(),
                    },
                ),
                volume_claim_templates: Some(vec![claim(storage)]),
                template: self.pod_template(plan),
                ..StatefulSetSpec::default()
            }),
            status: None,
        })
    }

    fn config_map(&self, config: &ConfigPlan) -> Child {
        Child::of(ConfigMap {
            metadata: self.metadata(config_name(&self.resource.name)),
            data: Some(config.files.clone()),
            ..ConfigMap::default()
        })
    }

    fn service(&self, asked: &ServicePlan) -> Child {
        let port_name = self.program.port_name;
        let is_balanced = asked.type_ == "LoadBalancer";
        let is_external = is_balanced || asked.type_ == "NodePort";
        Child::of(Service {
            metadata: self.metadata(self.resource.name.clone()),
            spec: Some(ServiceSpec {
                type_: Some(asked.type_.to_owned()),
                cluster_ip: asked.headless.then(|| "None".to_owned()),
                // The API server's defaults for these depend on the type.
                internal_traffic_policy: Some("Cluster".to_owned()),
                external_traffic_policy: is_external.then(|| "Cluster".to_owned()),
                allocate_load_balancer_node_ports: is_balanced.then_some(true),
                selector: Some(self.selector()),
                ports: Some(vec![ServicePort {
                    name: Some(port_name.to_owned()),
                    protocol: Some("TCP".to_owned()),
                    port: asked.port,
                    // By name: the number may change in one rollout, pod by pod.
                    target_port: Some(IntOrString::String(port_name.to_owned())),
                    node_port: asked.node_port,
                    ..ServicePort::default()
                }]),
                ..ServiceSpec::default()
            }),
            status: None,
        })
    }
}

pub(super) fn match_labels(labels: Labels) -> LabelSelector {
    LabelSelector {
        match_labels: Some(labels),
        match_expressions: None,
    }
}

/// The volume of each pod. The list of templates is owned as a whole, so that the API server's
/// defaults are written, too.
fn claim(storage: &StoragePlan) -> PersistentVolumeClaim {
    PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(pod::DATA_VOLUME.to_owned()),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
            resources: Some(VolumeResourceRequirements {
                requests: Some([("storage".to_owned(), Quantity(storage.size.clone()))].into()),
                ..VolumeResourceRequirements::default()
            }),
            storage_class_name: storage.class.clone(),
            volume_mode: Some("Filesystem".to_owned()),
            ..PersistentVolumeClaimSpec::default()
        }),
        status: Some(PersistentVolumeClaimStatus {
            phase: Some("Pending".to_owned()),
            ..PersistentVolumeClaimStatus::default()
        }),
    }
}

/// Adds `more` to `object`, in which it goes before what is there.
fn merge(object: &mut Value, more: Value) {
    match (object, more) {
        (Value::Object(object), Value::Object(more)) => {
            for (name, value) in more {
                merge(object.entry(name).or_insert(Value::Null), value);
            }
        }
        (object, more) => *object = more,
    }
}

fn retained_for(metadata: &mut Value) -> Option<&mut Value> {
    metadata.get_mut("annotations")?.get_mut(RETAINED_FOR)
}

impl Child {
    /// It stays when its resource is deleted, or no longer wants it, and belongs to the next one
    /// of that kind and name.
    #[must_use]
    pub fn retained(mut self) -> Self {
        let annotation = serde_json::json!({"metadata": {"annotations": {RETAINED_FOR: ""}}});
        merge(&mut self.body, annotation);
        self
    }

    /// The child that is `object`, of which what it leaves out is not ours.
    pub fn of<T: ChildObject>(object: T) -> Self {
        Child {
            kind: T::TYPE,
            name: object.metadata().name.clone().unwrap_or_default(),
            // A Kubernetes type has no map with keys that are no text, all that could fail.
            body: without_absent(serde_json::to_value(object).unwrap_or_default()),
        }
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
