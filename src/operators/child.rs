//! What a resource can own: any namespaced type of Kubernetes. An operator declares the types of its
//! children, and for each how its state is observed; informers, rights, drift detection, deletion of
//! what is no longer wanted, adoption and metrics follow from that. Pure.
//!
//! A new type of child is one `impl` of [`ChildObject`] here.

use std::fmt;
use std::hash::{Hash, Hasher};

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{Metadata, NamespaceResourceScope, Resource};
use serde::Serialize;
use serde_json::Value;

use super::observed::ObservedWorkload;

/// A type of child: what an operator declares of it.
pub struct ChildType {
    /// API group; empty for the core.
    pub group: &'static str,
    /// Group and version in which it is applied and watched.
    pub api_version: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// Plural, as in URLs.
    pub plural: &'static str,
    /// It makes pods, and a change of it restarts them.
    pub has_pods: bool,
    /// The state of such an object.
    pub observe: fn(&Value) -> ChildState,
}

/// A handle of a type of child. Two are equal if group and kind are.
pub type ChildKind = &'static ChildType;

/// What of a child the status of its resource depends on.
#[derive(Debug, Clone, PartialEq)]
pub enum ChildState {
    /// It is ready as soon as it is applied.
    Ready,
    /// It is applied, and not ready for this reason.
    NotReady(Box<str>),
    /// It makes pods, which are ready when its rollout is complete.
    Workload(Box<ObservedWorkload>),
}

/// A type of Kubernetes that can be a child.
pub trait ChildObject:
    Resource<Scope = NamespaceResourceScope> + Metadata<Ty = ObjectMeta> + Serialize
{
    /// Whether it makes pods. Its state must be [`ChildState::Workload`] then.
    const HAS_PODS: bool;

    /// The state of such an object, as JSON from the API server. Total: a field that is missing,
    /// or of another type, counts as absent.
    fn observe(object: &Value) -> ChildState;

    /// Its declaration.
    const TYPE: ChildKind = &ChildType {
        group: Self::GROUP,
        api_version: Self::API_VERSION,
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

    fn observe(object: &Value) -> ChildState {
        ChildState::Workload(Box::new(ObservedWorkload::of(DEPLOYMENT, object)))
    }
}

impl ChildObject for StatefulSet {
    const HAS_PODS: bool = true;

    fn observe(object: &Value) -> ChildState {
        ChildState::Workload(Box::new(ObservedWorkload::of(STATEFUL_SET, object)))
    }
}

impl ChildObject for Service {
    const HAS_PODS: bool = false;

    fn observe(_object: &Value) -> ChildState {
        ChildState::Ready
    }
}

impl ChildObject for ConfigMap {
    const HAS_PODS: bool = false;

    fn observe(_object: &Value) -> ChildState {
        ChildState::Ready
    }
}

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

/// The kind, as it stands in messages.
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
    /// Not every resource wants such a child: one that is no longer wanted is deleted, which
    /// needs the right to.
    pub optional: bool,
}

impl Owned {
    /// Every resource wants such a child, always.
    pub const fn always(kind: ChildKind) -> Self {
        Owned {
            kind,
            optional: false,
        }
    }

    /// A resource may want such a child at one time and not at another.
    pub const fn optional(kind: ChildKind) -> Self {
        Owned {
            kind,
            optional: true,
        }
    }
}
