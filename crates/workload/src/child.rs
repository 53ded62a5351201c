//! Types of children: any namespaced Kubernetes type. An operator declares the types of its
//! children, and each type defines how its state is observed. Informers, RBAC rules, drift
//! detection, deletion of unneeded children, adoption and metrics follow from the declaration.
//! Pure.
//!
//! To add a type, declare it with [`ChildType::of`] or [`ChildType::with_pods`].

use std::fmt;
use std::hash::{Hash, Hasher};

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::{NamespaceResourceScope, Resource};
use quartet_http::Location;
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
    /// Computes the state of an object of this type, which may lack `spec.template` if it has pods.
    pub observe: fn(&Value) -> ChildState,
}

impl ChildType {
    /// The type `T`, whose objects create no pods. `observe` computes the state of an object that the API
    /// server sent, without its `managedFields`. Total: a missing field, or one of a wrong type, counts as
    /// absent.
    pub const fn of<T: Resource<Scope = NamespaceResourceScope>>(
        observe: fn(&Value) -> ChildState,
    ) -> Self {
        Self {
            group: T::GROUP,
            api_version: T::API_VERSION,
            version: T::VERSION,
            kind: T::KIND,
            plural: T::URL_PATH_SEGMENT,
            has_pods: false,
            observe,
        }
    }

    /// The type `T`, whose objects create pods, as a Deployment does.
    pub const fn with_pods<T: Resource<Scope = NamespaceResourceScope>>() -> Self {
        Self {
            has_pods: true,
            ..Self::of::<T>(|object| {
                ChildState::Workload(Box::new(ObservedWorkload::of(T::KIND, object)))
            })
        }
    }

    /// The location of a child of this type.
    pub fn location<'a>(&self, namespace: &'a str, name: &'a str) -> Location<'a> {
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

/// `apps/v1` Deployment.
pub const DEPLOYMENT: ChildKind = &ChildType::with_pods::<Deployment>();
/// `apps/v1` StatefulSet.
pub const STATEFUL_SET: ChildKind = &ChildType::with_pods::<StatefulSet>();
/// `v1` Service.
pub const SERVICE: ChildKind = &ChildType::of::<Service>(|_| ChildState::Ready);
/// `v1` ConfigMap.
pub const CONFIG_MAP: ChildKind = &ChildType::of::<ConfigMap>(|_| ChildState::Ready);

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

impl Child {
    /// `spec.replicas`, if it has this field.
    pub fn replicas(&self) -> Option<i64> {
        self.body.get("spec")?.get("replicas")?.as_i64()
    }
}
