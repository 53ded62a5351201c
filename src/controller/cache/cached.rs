//! What the caches store of Deployments, Services, Pods and custom resources: small structs with
//! the fields that a reconcile reads, never whole objects. Decoding never fails on a field: a
//! missing field, or one of another type, counts as absent. One malformed object must not end a
//! watch.

mod pod;
mod resource;

use serde_json::Value;

pub(crate) use self::pod::{CachedPod, pod_index};
pub(crate) use self::resource::CachedResource;

use crate::bounded::cut;
use crate::controller::cache::decode::Decode;
use crate::controller::drift::fingerprint::{self, Fingerprint};
use crate::controller::drift::stamp::Stamp;
use crate::controller::object::{Object, ObjectKey};
use crate::operators::kept;
use crate::operators::observed::{ObservedCondition, ObservedDeployment, ObservedService};

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

pub(in crate::controller) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
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

#[cfg(test)]
mod tests;
