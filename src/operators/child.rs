//! Types of children: any namespaced Kubernetes type. An operator declares the types of its
//! children, and each type defines how its state is observed. Informers, RBAC rules, drift
//! detection, deletion of unneeded children, adoption and metrics follow from the declaration.
//! Pure.
//!
//! To add a type, implement [`ChildObject`] for it here.

use std::fmt;
use std::hash::{Hash, Hasher};

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{Metadata, NamespaceResourceScope, Resource};
use quartet_http::Location;
use serde::Serialize;
use serde_json::Value;

use super::observed_workload::ObservedWorkload;

/// The declaration of a type of child.
pub struct ChildType {
    /// API group; empty for the core.
    pub group: &'static str,
    /// Group and version for apply and watch.
    pub api_version: &'static str,
    /// Version, without the group.
    pub version: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// Plural, as used in URLs.
    pub plural: &'static str,
    /// The type creates pods, and a change of it restarts them.
    pub has_pods: bool,
    /// Computes the state of an object of this type.
    pub observe: fn(&Value) -> ChildState,
}

impl ChildType {
    /// The location of a child of this type.
    pub(crate) fn location<'a>(&self, namespace: &'a str, name: &'a str) -> Location<'a> {
        Location {
            api_version: self.api_version,
            plural: self.plural,
            namespace,
            name,
        }
    }
}

/// A reference to a type of child. Two are equal if group and kind are equal.
pub type ChildKind = &'static ChildType;

/// The part of a child's state that the status of its resource depends on.
#[derive(Debug, Clone, PartialEq)]
pub enum ChildState {
    /// Ready as soon as it is applied.
    Ready,
    /// Applied but not ready, with the reason.
    NotReady(Box<str>),
    /// Creates pods. Ready when its rollout is complete.
    Workload(Box<ObservedWorkload>),
}

/// A Kubernetes type that can be a child.
pub trait ChildObject:
    Resource<Scope = NamespaceResourceScope> + Metadata<Ty = ObjectMeta> + Serialize
{
    /// Whether the type creates pods, as a Deployment does.
    const HAS_PODS: bool = false;

    /// The state of an object that the API server sent, without its `spec.template` and `managedFields`.
    /// Total: a missing field, or one of a wrong type, counts as absent. Of a type that creates pods it
    /// must be [`ChildState::Workload`].
    fn observe(object: &Value) -> ChildState {
        match Self::HAS_PODS {
            true => ChildState::Workload(Box::new(ObservedWorkload::of(Self::KIND, object))),
            false => ChildState::Ready,
        }
    }

    /// The declaration of this type.
    const TYPE: ChildKind = &ChildType {
        group: Self::GROUP,
        api_version: Self::API_VERSION,
        version: Self::VERSION,
        kind: Self::KIND,
        plural: Self::URL_PATH_SEGMENT,
        has_pods: Self::HAS_PODS,
        observe: Self::observe,
    };
}

/// `apps/v1` Deployment.
pub const DEPLOYMENT: ChildKind = <Deployment as ChildObject>::TYPE;
/// `apps/v1` StatefulSet.
pub const STATEFUL_SET: ChildKind = <StatefulSet as ChildObject>::TYPE;
/// `v1` Service.
pub const SERVICE: ChildKind = <Service as ChildObject>::TYPE;
/// `v1` ConfigMap.
pub const CONFIG_MAP: ChildKind = <ConfigMap as ChildObject>::TYPE;

impl ChildObject for Deployment {
    const HAS_PODS: bool = true;
}

impl ChildObject for StatefulSet {
    const HAS_PODS: bool = true;
}

impl ChildObject for Service {}

impl ChildObject for ConfigMap {}

impl PartialEq for ChildType {
    fn eq(&self, other: &Self) -> bool {
        (self.kind, self.group) == (other.kind, other.group)
    }
}

impl Eq for ChildType {}

impl Hash for ChildType {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (self.kind, self.group).hash(hasher);
    }
}

/// The kind, for messages.
impl fmt::Debug for ChildType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.kind)
    }
}

/// A type of child that an operator owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owned {
    /// The type.
    pub kind: ChildKind,
    /// Some resources have no such child. A child that is no longer needed is deleted, which
    /// needs the RBAC verb `delete`.
    pub optional: bool,
}

impl Owned {
    /// Every resource always has such a child.
    pub const fn always(kind: ChildKind) -> Self {
        Owned {
            kind,
            optional: false,
        }
    }

    /// A resource may have such a child at some times only.
    pub const fn optional(kind: ChildKind) -> Self {
        Owned {
            kind,
            optional: true,
        }
    }
}

/// One desired object.
#[derive(Debug, Clone, PartialEq)]
pub struct Child {
    /// Its type.
    pub kind: ChildKind,
    /// Its name. Its namespace is that of the resource.
    pub name: String,
    /// All fields that we own, as the body of a server-side apply.
    pub body: Value,
}

/// What a status reads of a desired child.
#[derive(Debug, Clone, PartialEq)]
pub struct ChildSummary {
    /// Its type.
    pub kind: ChildKind,
    /// Its name.
    pub name: String,
    /// `spec.replicas`, if it has this field.
    pub replicas: Option<i64>,
}

impl Child {
    /// What a status reads of it.
    pub fn summary(&self) -> ChildSummary {
        ChildSummary {
            kind: self.kind,
            name: self.name.clone(),
            replicas: self.replicas(),
        }
    }

    /// `spec.replicas`, if it has this field.
    pub fn replicas(&self) -> Option<i64> {
        self.body.get("spec")?.get("replicas")?.as_i64()
    }
}
