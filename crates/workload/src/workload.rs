//! Builds children from a [`Plan`]: the workload, its Service and its files. Kinds differ only in
//! the data of their plan. Pure.
//!
//! A body contains all fields that we own, as server-side apply sends them. Drift is detected by
//! comparing the body with the fields that `managedFields` lists as ours. Hence four rules:
//! * Absent values are not written ([`remove_absent`]).
//! * Keys of associative lists are written even if the API server has a default for them
//!   (`protocol: TCP`); otherwise our item could not be found again.
//! * A field whose default depends on another field that we write is written, too
//!   (`imagePullPolicy`, `externalTrafficPolicy`); otherwise its value would depend on the
//!   earlier value of the other field.
//! * Fields that we do not manage are left to others (an injected sidecar, an annotation).

use std::collections::BTreeMap;

use k8s_openapi::Metadata;
use k8s_openapi::api::apps::v1::{
    Deployment, DeploymentSpec, StatefulSet, StatefulSetPersistentVolumeClaimRetentionPolicy,
    StatefulSetSpec,
};
use k8s_openapi::api::core::v1::{
    ConfigMap, PersistentVolumeClaim, PersistentVolumeClaimSpec, PersistentVolumeClaimStatus,
    PodTemplateSpec, Service, ServicePort, ServiceSpec, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::Serialize;
use serde_json::{Value, json};

use super::child::{CONFIG_MAP, Child, ChildKind, DEPLOYMENT, SERVICE, STATEFUL_SET};
use super::names::{
    self, COMPONENT_LABEL, MANAGED_BY_LABEL, PART_OF_LABEL, child_name, config_name, label_value,
    stateful_name,
};
use super::operator::Resource;
use super::plan::{ConfigPlan, Plan, ServicePlan, StoragePlan, WorkloadDefaults};
use super::{kept, pod};
use crate::api::workload::ServiceType;
use quartet_applied::merge;
use quartet_versions::{Brand, Kind};

type Labels = BTreeMap<String, String>;

/// The ConfigMap if there are files; the Deployment, or a StatefulSet if the pods have storage;
/// the Service if the plan has one.
pub fn children(kind: &Kind, resource: &Resource, plan: &Plan) -> Vec<Child> {
    let builder = Builder {
        kind,
        resource,
        defaults: plan.defaults,
    };
    let workload = match &plan.storage {
        Some(storage) => builder.stateful_set(plan, storage),
        None => builder.deployment(plan),
    };
    let others = plan.others.iter().map(|it| builder.completed(it.clone()));
    let config = plan.config.iter().map(|it| builder.config_map(it));
    let service = plan.service.iter().map(|it| builder.service(it));
    others
        .chain(config)
        .chain([workload])
        .chain(service)
        .collect()
}

/// The labels that select the pods, in the format of `kubectl get pods -l`, for the scale
/// subresource. `kept` is the retained selector of an older operator.
pub(super) fn selector_text(kind: &Kind, resource: &Resource, kept: Option<&Value>) -> String {
    names::pod_selector(kind, &resource.name)
        .map(|(label, ours)| {
            let value = kept.and_then(|kept| kept::value(kept, label));
            format!("{label}={}", value.unwrap_or(&ours))
        })
        .join(",")
}

/// Builds the children of one resource.
struct Builder<'a> {
    kind: &'a Kind,
    resource: &'a Resource,
    defaults: &'static WorkloadDefaults,
}

impl Builder<'_> {
    fn selector(&self) -> Labels {
        let selector = names::selector(&self.kind.controller_name(), &self.resource.name);
        selector
            .map(|(label, value)| (label.to_owned(), value))
            .into()
    }

    fn pod_selector(&self) -> Labels {
        let selector = names::pod_selector(self.kind, &self.resource.name);
        selector
            .map(|(label, value)| (label.to_owned(), value))
            .into()
    }

    fn labels(&self) -> Labels {
        let mut labels = self.selector();
        let common = [
            (COMPONENT_LABEL, self.defaults.component),
            (MANAGED_BY_LABEL, self.kind.brand.name),
            (PART_OF_LABEL, self.kind.brand.name),
        ];
        let common = common.into_iter().filter(|(_, value)| !value.is_empty());
        labels.extend(common.map(|(label, value)| (label.to_owned(), value.to_owned())));
        labels
    }

    fn pod_labels(&self) -> Labels {
        let mut labels = self.labels();
        labels.extend(self.pod_selector());
        if let Some(legacy) = self.defaults.legacy_pod_label {
            labels.insert(legacy.to_owned(), label_value(&self.resource.name));
        }
        labels
    }

    fn metadata(&self, name: String) -> ObjectMeta {
        let owner = self.resource;
        ObjectMeta {
            name: Some(name),
            namespace: Some(owner.namespace.clone()),
            labels: Some(self.labels()),
            owner_references: Some(vec![OwnerReference {
                api_version: owner.api_version.clone(),
                kind: self.kind.kind.to_owned(),
                name: owner.name.clone(),
                uid: owner.uid.clone(),
                controller: Some(true),
                block_owner_deletion: Some(true),
            }]),
            ..ObjectMeta::default()
        }
    }

    /// [`Child::owned_by`] the resource.
    fn completed(&self, mut child: Child) -> Child {
        if child.name.is_empty() {
            child.name.clone_from(&self.resource.name);
        }
        let mut ours = json!({"metadata": self.metadata(child.name.clone())});
        remove_absent(&mut ours);
        merge(&mut child.body, ours);
        let annotations = child.body.pointer_mut("/metadata/annotations");
        let retained_for = annotations.and_then(|it| it.get_mut(self.kind.brand.retained_for));
        if let Some(owner) = retained_for {
            let Resource { name, uid, .. } = self.resource;
            *owner = format!("{}/{}/{name}/{uid}", self.kind.group, self.kind.kind).into();
            if let Some(Value::Object(metadata)) = child.body.get_mut("metadata") {
                metadata.remove("ownerReferences");
            }
        }
        child
    }

    fn pod_template(&self, plan: &Plan) -> PodTemplateSpec {
        // A pod reads its files when it starts, so other files need other pods.
        let config = plan.config.as_ref();
        let hash = config.map(|config| names::hash_of(&config.files));
        let name = self.kind.controller_name();
        let files = config_name(&self.resource.name);
        PodTemplateSpec {
            metadata: Some(ObjectMeta {
                labels: Some(self.pod_labels()),
                annotations: hash
                    .map(|hash| [(self.kind.brand.config_hash.to_owned(), hash)].into()),
                ..ObjectMeta::default()
            }),
            spec: Some(pod::spec(plan, &name, &files, &self.pod_selector())),
        }
    }

    fn deployment(&self, plan: &Plan) -> Child {
        let deployment = Deployment {
            metadata: self.metadata(child_name(&self.resource.name)),
            spec: Some(DeploymentSpec {
                replicas: Some(plan.replicas),
                selector: pod::match_labels(self.selector()),
                template: self.pod_template(plan),
                ..DeploymentSpec::default()
            }),
            status: None,
        };
        Child::of(DEPLOYMENT, deployment)
    }

    /// The volume claims are retained when it is deleted or scaled down, so that only a person
    /// deletes data.
    fn stateful_set(&self, plan: &Plan, storage: &StoragePlan) -> Child {
        let keep = || Some("Retain".to_owned());
        let stateful_set = StatefulSet {
            metadata: self.metadata(stateful_name(&self.resource.name)),
            spec: Some(StatefulSetSpec {
                replicas: Some(plan.replicas),
                selector: pod::match_labels(self.selector()),
                // The Service, if there is one, gives the pods DNS names.
                service_name: Some(self.resource.name.clone()),
                // Pods do not wait for each other, so a failed pod does not block the rollout
                // that fixes it.
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
        };
        Child::of(STATEFUL_SET, stateful_set)
    }

    fn config_map(&self, config: &ConfigPlan) -> Child {
        let config_map = ConfigMap {
            metadata: self.metadata(config_name(&self.resource.name)),
            data: Some(config.files.clone()),
            ..ConfigMap::default()
        };
        Child::of(CONFIG_MAP, config_map)
    }

    fn service(&self, plan: &ServicePlan) -> Child {
        let port_name = self.defaults.port_name;
        let is_balanced = plan.type_ == ServiceType::LoadBalancer;
        let is_external = plan.type_ != ServiceType::ClusterIP;
        let service = Service {
            metadata: self.metadata(self.resource.name.clone()),
            spec: Some(ServiceSpec {
                type_: Some(format!("{:?}", plan.type_)),
                cluster_ip: plan.headless.then(|| "None".to_owned()),
                // The defaults of the API server for these depend on the type.
                internal_traffic_policy: Some("Cluster".to_owned()),
                external_traffic_policy: is_external.then(|| "Cluster".to_owned()),
                allocate_load_balancer_node_ports: is_balanced.then_some(true),
                selector: Some(self.pod_selector()),
                ports: Some(vec![ServicePort {
                    name: Some(port_name.to_owned()),
                    protocol: Some("TCP".to_owned()),
                    port: plan.port,
                    // By name: during one rollout, the number may differ between pods.
                    target_port: Some(IntOrString::String(port_name.to_owned())),
                    node_port: plan.node_port,
                    ..ServicePort::default()
                }]),
                ..ServiceSpec::default()
            }),
            status: None,
        };
        Child::of(SERVICE, service)
    }
}

/// The volume claim of each pod. The list of templates is owned as a whole, so the defaults of
/// the API server must be written, too.
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

impl Child {
    /// Retains the child when its resource is deleted or no longer needs it. The next resource of
    /// that kind and name adopts it. With an owner reference, the child would be deleted.
    #[must_use]
    pub fn retained(mut self, brand: &Brand) -> Self {
        let annotation = json!({"metadata": {"annotations": {brand.retained_for: ""}}});
        merge(&mut self.body, annotation);
        self
    }

    /// Completes a child of `resource`, whose kind is `kind`: namespace, labels, owner and, if it has no
    /// name, that of the resource. Those of a [`Plan`] are completed without this.
    #[must_use]
    pub fn owned_by(self, kind: &Kind, resource: &Resource) -> Self {
        static DEFAULTS: WorkloadDefaults = WorkloadDefaults {
            component: "",
            ..WorkloadDefaults::RESTRICTED
        };
        let builder = Builder {
            kind,
            resource,
            defaults: &DEFAULTS,
        };
        builder.completed(self)
    }

    /// Creates a child from `object` of the type `kind`. We do not own the fields that it omits.
    pub fn of<T: Metadata<Ty = ObjectMeta> + Serialize>(kind: ChildKind, object: T) -> Self {
        let name = object.metadata().name.clone().unwrap_or_default();
        // Cannot fail: Kubernetes types have no maps with other keys than strings.
        let mut body = serde_json::to_value(object).unwrap_or_default();
        remove_absent(&mut body);
        Child { kind, name, body }
    }
}

/// Removes nulls, empty lists and empty objects, at any depth. To own these would cause conflicts over
/// fields that we do not manage.
fn remove_absent(value: &mut Value) {
    let is_absent = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    };
    match value {
        Value::Object(members) => members.retain(|_, member| {
            remove_absent(member);
            !is_absent(member)
        }),
        Value::Array(items) => items.iter_mut().for_each(remove_absent),
        _ => {}
    }
}
