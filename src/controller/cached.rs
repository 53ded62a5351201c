//! What the caches store of Deployments, Services, Pods and custom resources: small structs with
//! the fields that a reconcile reads, never whole objects. Decoding never fails on a field: a
//! missing field, or one of another type, counts as absent. One malformed object must not end a
//! watch.

use serde::Deserialize;
use serde_json::Value;

use super::decode::Decode;
use super::fingerprint::{self, Fingerprint};
use super::metrics::ConditionView;
use super::object::{Object, ObjectKey};
use super::pod_failure;
use super::stamp::Stamp;
use crate::api::conversion::DATA_ANNOTATION;
use crate::operators::observed::{
    ObservedCondition, ObservedDeployment, ObservedPod, ObservedService, PodFailure,
};
use crate::operators::{OPERATORS, kept};

/// Annotation that, when `"true"`, keeps the controller from applying anything.
pub(crate) const PAUSED: &str = "quartet-operator.example.com/paused";

/// Prefix of the field manager of each kind; the rest is the kind in lower case.
pub(crate) const FIELD_MANAGER_PREFIX: &str = "quartet-operator-";

/// What every cached object has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) key: ObjectKey,
    pub(crate) uid: Box<str>,
    pub(crate) resource_version: u64,
    pub(crate) generation: i64,
    /// `metadata.deletionTimestamp` is set.
    pub(crate) deleting: bool,
}

impl Meta {
    /// Whether nothing differs but the resourceVersion.
    fn is_semantically_equal(&self, other: &Self) -> bool {
        (self.generation, self.deleting) == (other.generation, other.deleting)
            && self.uid == other.uid
    }

    fn of(object: &Value) -> Result<Self, String> {
        let metadata = object.get("metadata").ok_or("no metadata")?;
        let resource_version = text(metadata, "resourceVersion");
        Ok(Meta {
            key: ObjectKey::new(text(metadata, "namespace"), text(metadata, "name")),
            uid: text(metadata, "uid").into(),
            resource_version: resource_version
                .parse()
                .map_err(|_| format!("resourceVersion {resource_version:?} is no number"))?,
            generation: integer(metadata, "generation"),
            deleting: metadata
                .get("deletionTimestamp")
                .is_some_and(|time| !time.is_null()),
        })
    }
}

/// The controller owner reference of a child. The version of its API is left out: it changes
/// with the storage version, and the owner stays the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) group: Box<str>,
    pub(crate) kind: Box<str>,
    pub(crate) name: Box<str>,
    pub(crate) uid: Box<str>,
}

impl Owner {
    /// The controller owner reference of an object.
    pub(crate) fn of(object: &Value) -> Option<Self> {
        let references = object.get("metadata")?.get("ownerReferences")?.as_array()?;
        let controller = references
            .iter()
            .find(|reference| reference.get("controller") == Some(&Value::Bool(true)))?;
        let api_version = text(controller, "apiVersion");
        Some(Owner {
            group: api_version
                .split_once('/')
                .map_or("", |(group, _version)| group)
                .into(),
            kind: text(controller, "kind").into(),
            name: text(controller, "name").into(),
            uid: text(controller, "uid").into(),
        })
    }

    /// The name of its kind's controller.
    fn controller_name(&self) -> String {
        self.kind.to_ascii_lowercase()
    }

    fn field_manager(&self) -> String {
        format!("{FIELD_MANAGER_PREFIX}{}", self.controller_name())
    }
}

/// A Deployment or Service that carries our label.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CachedChild<S> {
    pub(crate) meta: Meta,
    pub(crate) owner: Option<Owner>,
    /// Of the fields that the owner's field manager applied; `None` when it never did.
    pub(crate) fingerprint: Option<Fingerprint>,
    /// Which write of ours changed it last.
    pub(crate) stamp: Option<Stamp>,
    pub(crate) state: S,
}

/// A Deployment.
pub(crate) type CachedDeployment = CachedChild<ObservedDeployment>;
/// A Service.
pub(crate) type CachedService = CachedChild<ObservedService>;

/// The part of a child that its status is computed from.
pub(crate) trait ChildState:
    Sized + PartialEq + Clone + std::fmt::Debug + Send + Sync + 'static
{
    fn of(object: &Value, generation: i64, owner: Option<&Owner>) -> Self;

    /// Whether a rollout is under way, so that the next change is near.
    fn is_moving(&self) -> bool;
}

impl<S: PartialEq> CachedChild<S> {
    /// Whether nothing differs but the resourceVersion.
    pub(crate) fn is_semantically_equal(&self, other: &Self) -> bool {
        self.state == other.state && self.is_spec_equal(other)
    }

    /// Whether nothing differs but what its own controller reports of it.
    pub(crate) fn is_spec_equal(&self, other: &Self) -> bool {
        self.owner == other.owner
            && self.fingerprint == other.fingerprint
            && self.meta.is_semantically_equal(&other.meta)
    }
}

impl<S: ChildState> Decode for CachedChild<S> {
    const LOOKS_AT_MANAGERS: bool = true;

    fn from_json(object: &Value) -> Result<Self, String> {
        let meta = Meta::of(object)?;
        let owner = Owner::of(object);
        let fingerprint = owner
            .as_ref()
            .and_then(|owner| fingerprint::of_observed(object, &owner.field_manager()));
        let state = S::of(object, meta.generation, owner.as_ref());
        Ok(CachedChild {
            meta,
            owner,
            fingerprint,
            stamp: Stamp::of(object),
            state,
        })
    }
}

impl<S: ChildState> Object for CachedChild<S> {
    fn key(&self) -> &ObjectKey {
        &self.meta.key
    }
    fn uid(&self) -> &str {
        &self.meta.uid
    }
    fn resource_version(&self) -> u64 {
        self.meta.resource_version
    }
    fn index(&self) -> Option<&str> {
        self.owner.as_ref().map(|owner| &*owner.uid)
    }
}

impl ChildState for ObservedDeployment {
    fn of(object: &Value, generation: i64, owner: Option<&Owner>) -> Self {
        let none = Value::Null;
        let spec = object.get("spec").unwrap_or(&none);
        let status = object.get("status").unwrap_or(&none);
        let condition = |wanted: &str, healthy: bool| {
            let conditions = status.get("conditions")?.as_array()?;
            let found = conditions
                .iter()
                .find(|condition| text(condition, "type") == wanted)?;
            let is_true = text(found, "status") == "True";
            // The message of a healthy condition is told nowhere: not worth its memory.
            let message = if is_true == healthy {
                ""
            } else {
                text(found, "message")
            };
            Some(ObservedCondition {
                is_true,
                reason: text(found, "reason").to_owned(),
                message: cut(message, 512).to_owned(),
            })
        };
        ObservedDeployment {
            generation,
            observed_generation: integer(status, "observedGeneration"),
            paused: spec.get("paused") == Some(&Value::Bool(true)),
            desired: spec.get("replicas").and_then(Value::as_i64).unwrap_or(1),
            replicas: integer(status, "replicas"),
            updated: integer(status, "updatedReplicas"),
            ready: integer(status, "readyReplicas"),
            available: integer(status, "availableReplicas"),
            available_condition: condition("Available", true),
            progressing_condition: condition("Progressing", true),
            replica_failure: condition("ReplicaFailure", false),
            preserved_selector: owner
                .and_then(|owner| kept::selector_of(object, &owner.controller_name(), &owner.name)),
        }
    }

    fn is_moving(&self) -> bool {
        !self.is_complete()
    }
}

impl ChildState for ObservedService {
    fn of(object: &Value, _generation: i64, _owner: Option<&Owner>) -> Self {
        let ports = object
            .get("spec")
            .and_then(|spec| spec.get("ports"))
            .and_then(Value::as_array);
        let node_ports = ports
            .into_iter()
            .flatten()
            .filter_map(|port| port.get("nodePort")?.as_i64());
        ObservedService {
            node_ports: node_ports.filter_map(|port| port.try_into().ok()).collect(),
        }
    }

    fn is_moving(&self) -> bool {
        false
    }
}

/// A Pod that carries our label.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CachedPod {
    pub(crate) meta: Meta,
    /// `<namespace>/<name>` of the Deployment whose ReplicaSet controls it.
    pub(crate) deployment: Option<Box<str>>,
    /// Neither ending nor ended.
    pub(crate) live: bool,
    pub(crate) ready: bool,
    /// Why it does not start. Boxed: nearly all pods do.
    pub(crate) failure: Option<Box<PodFailure>>,
}

impl CachedPod {
    /// Whether nothing differs that a status depends on.
    pub(crate) fn is_semantically_equal(&self, other: &Self) -> bool {
        (self.live, self.ready, &self.deployment) == (other.live, other.ready, &other.deployment)
            && self.failure == other.failure
            && self.meta.uid == other.meta.uid
    }

    pub(crate) fn observed(&self) -> ObservedPod {
        ObservedPod {
            name: self.meta.key.name().to_owned(),
            ready: self.ready,
            failure: self.failure.clone(),
        }
    }
}

impl Decode for CachedPod {
    const SKIPPED: &'static [&'static str] = &["spec"];

    fn from_json(object: &Value) -> Result<Self, String> {
        let meta = Meta::of(object)?;
        let none = Value::Null;
        let status = object.get("status").unwrap_or(&none);
        let conditions = status.get("conditions").and_then(Value::as_array);
        let ready = conditions.into_iter().flatten().any(|condition| {
            text(condition, "type") == "Ready" && text(condition, "status") == "True"
        });
        Ok(CachedPod {
            deployment: deployment_of_pod(object, meta.key.namespace()),
            live: !meta.deleting && !matches!(text(status, "phase"), "Succeeded" | "Failed"),
            ready,
            failure: (!ready).then(|| pod_failure::of(object)).flatten(),
            meta,
        })
    }
}

impl Object for CachedPod {
    fn key(&self) -> &ObjectKey {
        &self.meta.key
    }
    fn uid(&self) -> &str {
        &self.meta.uid
    }
    fn resource_version(&self) -> u64 {
        self.meta.resource_version
    }
    fn index(&self) -> Option<&str> {
        self.deployment.as_deref()
    }
}

/// A ReplicaSet of a Deployment is called `<deployment>-<pod-template-hash>`
/// (kubernetes `pkg/controller/deployment/sync.go`, `getNewReplicaSet`), and its pods carry
/// that hash as a label: so the Deployment is known without watching ReplicaSets.
fn deployment_of_pod(object: &Value, namespace: &str) -> Option<Box<str>> {
    let owner = Owner::of(object).filter(|owner| &*owner.kind == "ReplicaSet")?;
    let hash = object
        .get("metadata")?
        .get("labels")?
        .get("pod-template-hash")?
        .as_str()?;
    let deployment = owner.name.strip_suffix(hash)?.strip_suffix('-')?;
    Some(pod_index(namespace, deployment).into())
}

/// The index under which the pods of a Deployment are found.
pub(crate) fn pod_index(namespace: &str, deployment: &str) -> String {
    format!("{namespace}/{deployment}")
}

/// A custom resource: its spec and status as the JSON that was read, since a parsed one
/// takes several times as much.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CachedResource {
    pub(crate) meta: Meta,
    /// Name of the version that was read, e.g. `v1`; of the many that are alike, one text.
    pub(crate) version: &'static str,
    /// Spec in that version.
    pub(crate) spec: Box<str>,
    /// Annotation `quartet-operator.example.com/conversion-data`.
    pub(crate) conversion_data: Option<Box<str>>,
    /// Status, or empty.
    pub(crate) status: Box<str>,
    /// Finalizers, in their order.
    pub(crate) finalizers: Box<[Box<str>]>,
    /// Annotation `quartet-operator.example.com/paused: "true"`.
    pub(crate) paused: bool,
}

impl CachedResource {
    /// The conditions of its status, without times and messages.
    pub(crate) fn conditions(&self) -> Vec<ConditionView> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Condition {
            #[serde(rename = "type")]
            type_: String,
            status: String,
            reason: String,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Conditions {
            conditions: Vec<Condition>,
        }
        // An older operator may have stored what our type cannot hold.
        let status: Conditions = serde_json::from_str(&self.status).unwrap_or_default();
        let view = |condition: Condition| ConditionView {
            type_: condition.type_,
            status: condition.status,
            reason: condition.reason,
        };
        status.conditions.into_iter().map(view).collect()
    }

    /// Whether nothing differs but the resourceVersion: a label, an annotation that is not
    /// ours, `managedFields`.
    pub(crate) fn is_semantically_equal(&self, other: &Self) -> bool {
        self.status == other.status && self.is_spec_equal(other)
    }

    /// Whether the user's part is the same: a status apart, nothing differs that matters.
    pub(crate) fn is_spec_equal(&self, other: &Self) -> bool {
        self.version == other.version
            && self.spec == other.spec
            && self.conversion_data == other.conversion_data
            && self.finalizers == other.finalizers
            && self.paused == other.paused
            && self.meta.is_semantically_equal(&other.meta)
    }
}

impl Decode for CachedResource {
    fn from_json(object: &Value) -> Result<Self, String> {
        let none = Value::Null;
        let metadata = object.get("metadata").unwrap_or(&none);
        let annotation = |name: &str| metadata.get("annotations")?.get(name)?.as_str();
        let finalizers = metadata.get("finalizers").and_then(Value::as_array);
        Ok(CachedResource {
            meta: Meta::of(object)?,
            version: version_of(object),
            spec: object.get("spec").unwrap_or(&none).to_string().into(),
            conversion_data: annotation(DATA_ANNOTATION).map(Into::into),
            status: object
                .get("status")
                .map(ToString::to_string)
                .unwrap_or_default()
                .into(),
            finalizers: finalizers
                .into_iter()
                .flatten()
                .filter_map(|finalizer| Some(finalizer.as_str()?.into()))
                .collect(),
            paused: annotation(PAUSED) == Some("true"),
        })
    }
}

/// The version of an object of ours, by the one name that is kept for all of them; empty if
/// it is none.
fn version_of(object: &Value) -> &'static str {
    let (api_version, kind) = (text(object, "apiVersion"), text(object, "kind"));
    let (group, version) = api_version.split_once('/').unwrap_or_default();
    OPERATORS
        .iter()
        .map(|operator| operator.kind())
        .find(|known| known.kind == kind && known.group == group)
        .and_then(|known| known.version(version))
        .map(|version| version.name)
        .unwrap_or_default()
}

impl Object for CachedResource {
    fn form(&self) -> &str {
        self.version
    }
    fn key(&self) -> &ObjectKey {
        &self.meta.key
    }
    fn uid(&self) -> &str {
        &self.meta.uid
    }
    fn resource_version(&self) -> u64 {
        self.meta.resource_version
    }
}

pub(super) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object
        .get(field)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn integer(object: &Value, field: &str) -> i64 {
    object
        .get(field)
        .and_then(Value::as_i64)
        .unwrap_or_default()
}

/// At most `limit` bytes of `text`, at a character's border.
pub(super) fn cut(text: &str, limit: usize) -> &str {
    text.get(..text.floor_char_boundary(limit)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{CachedDeployment, CachedPod, CachedResource, Owner};
    use crate::controller::decode::Decode;

    fn owned_by(api_version: &str) -> Value {
        json!({"metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "9", "ownerReferences": [
            {"apiVersion": "v1", "kind": "Other", "name": "not the controller", "uid": "0"},
            {"apiVersion": api_version, "kind": "Memcached", "name": "m", "uid": "1", "controller": true},
        ]}})
    }

    /// kube-runtime's `owns()` compares the whole apiVersion and so loses the children that
    /// were made before the storage version moved.
    #[test]
    fn an_owner_is_the_same_in_whatever_version_the_reference_names_it() {
        let old = Owner::of(&owned_by("cache.example.com/v1alpha1"));
        let new = Owner::of(&owned_by("cache.example.com/v1"));
        assert!(old.is_some());
        assert_eq!(old, new);
        assert_ne!(old, Owner::of(&owned_by("other.example.com/v1")));
    }

    #[test]
    fn a_pod_is_found_by_its_deployment_through_its_replica_set_alone() {
        let pod = |owner: &str, kind: &str| {
            json!({"metadata": {
                "name": "p", "namespace": "n", "uid": "u", "resourceVersion": "9", "labels": {"pod-template-hash": "5d4f"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": "r", "controller": true}],
            }})
        };
        let deployment = |object: Value| CachedPod::from_json(&object).expect("decodes").deployment;
        assert_eq!(
            deployment(pod("web-5d4f", "ReplicaSet")).as_deref(),
            Some("n/web")
        );
        assert_eq!(
            deployment(pod("web-other", "ReplicaSet")),
            None,
            "another's label on our pod"
        );
        assert_eq!(deployment(pod("web-5d4f", "Job")), None);
    }

    #[test]
    fn an_ending_or_ended_pod_is_not_live() {
        let pod = |phase: &str, deleted: Value| {
            let object = json!({
                "metadata": {"name": "p", "namespace": "n", "uid": "u", "resourceVersion": "9", "deletionTimestamp": deleted},
                "status": {"phase": phase, "conditions": [{"type": "Ready", "status": "True"}]},
            });
            CachedPod::from_json(&object).expect("decodes")
        };
        assert!(pod("Running", Value::Null).live && pod("Running", Value::Null).ready);
        assert!(!pod("Failed", Value::Null).live);
        assert!(!pod("Succeeded", Value::Null).live);
        assert!(!pod("Running", json!("2026-01-01T00:00:00Z")).live);
    }

    #[test]
    fn decoding_takes_whatever_there_is_and_refuses_only_what_has_no_version() {
        let odd = json!({
            "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "9", "ownerReferences": "none", "finalizers": 3},
            "spec": [], "status": {"conditions": {"type": 1}, "replicas": "many"},
        });
        assert!(CachedDeployment::from_json(&odd).is_ok());
        assert!(CachedPod::from_json(&odd).is_ok());
        assert!(CachedResource::from_json(&odd).is_ok());
        assert!(CachedResource::from_json(&json!({})).is_err());
        assert!(CachedResource::from_json(&json!({"metadata": {"name": "a"}})).is_err());
    }

    #[test]
    fn the_message_of_a_condition_is_kept_only_where_something_is_wrong() {
        let deployment = |status: &str| {
            let object = json!({
                "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "9"},
                "status": {"conditions": [{"type": "Progressing", "status": status, "reason": "R", "message": "é".repeat(400)}]},
            });
            let deployment = CachedDeployment::from_json(&object).expect("decodes");
            deployment
                .state
                .progressing_condition
                .expect("there")
                .message
        };
        assert_eq!(deployment("True"), "");
        assert_eq!(
            deployment("False").len(),
            512,
            "cut at a character's border"
        );
    }
}
