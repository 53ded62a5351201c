//! The desired state: pure functions from a resource and its observed children to children and
//! status. No I/O; depends on `api` only.
//!
//! A new operator needs one file under `api/`, one under `operators/`, and one line in
//! [`OPERATORS`].

pub mod child;
pub mod elasticweb;
pub mod helloworld;
mod image;
pub mod kept;
pub mod memcached;
pub mod names;
pub mod nginx;
pub mod observed;
mod operand;
mod plan;
mod pod;
pub mod settings;
pub mod status;
#[cfg(test)]
pub(crate) mod tests;
mod workload;

use serde_json::Value;

pub use child::{
    CONFIG_MAP, ChildKind, ChildObject, ChildState, ChildType, DEPLOYMENT, Owned, SERVICE,
    STATEFUL_SET,
};
pub use observed::{
    Observed, ObservedChild, ObservedPod, ObservedWorkload, PodFailure, Problem, Reason,
};
pub use settings::{OperandImage, Settings};

use crate::api::{Kind, Status, validation::FieldError};

/// Every operator of the manager. The only list of all kinds.
pub static OPERATORS: &[&dyn Operator] = &[
    &memcached::Memcached,
    &nginx::Nginx,
    &elasticweb::ElasticWeb,
    &helloworld::HelloWorld,
];

/// The pure part of a controller.
pub trait Operator: Send + Sync + 'static {
    /// Names, versions, conversion and validation of the resource.
    fn kind(&self) -> &'static Kind;

    /// The default image of its pods; `None` if every resource must set one.
    fn image(&self) -> Option<&'static OperandImage>;

    /// The types of its children. The controller watches, and has RBAC rules for, no other types.
    fn owns(&self) -> &'static [Owned];

    /// The desired children of the resource, in the order of apply, each of an owned type. The
    /// status counts the pods of the first child that creates pods.
    ///
    /// # Errors
    /// [`ValidationError`]: the spec violates a rule or a limit. Then nothing is applied.
    fn desired(&self, resource: &Resource, settings: &Settings) -> Desired;

    /// The status for the observed state, which is at least as new as the last apply of
    /// `desired`. Deterministic: the same input gives the same status, and times of conditions
    /// change only with their status.
    fn status(&self, resource: &Resource, desired: &Summary, observed: &Observed) -> Status;
}

/// The desired children of a resource, or why nothing is applied.
pub type Desired = Result<Vec<Child>, ValidationError>;

/// What a status reads of [`Desired`].
pub type Summary = Result<Vec<ChildSummary>, ValidationError>;

/// What a status reads of `desired`.
///
/// # Errors
/// Those of `desired`.
pub fn summary(desired: &Desired) -> Summary {
    let children = desired.as_ref().map_err(Clone::clone)?;
    Ok(children.iter().map(Child::summary).collect())
}

/// The types of children of `operators`, without duplicates. A type is optional if it is for any
/// operator.
pub fn owned_by(operators: &[&dyn Operator]) -> Vec<Owned> {
    let mut all: Vec<Owned> = Vec::new();
    for owned in operators.iter().flat_map(|operator| operator.owns()) {
        match all.iter_mut().find(|known| known.kind == owned.kind) {
            Some(known) => known.optional |= owned.optional,
            None => all.push(*owned),
        }
    }
    all
}

impl std::fmt::Debug for dyn Operator {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.kind().kind)
    }
}

/// A custom resource with the spec in the hub version, whatever version was read.
#[derive(Debug, Clone)]
pub struct Resource {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID, which distinguishes the resource from a later one of the same name.
    pub uid: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// `apiVersion` for owner references to it; must be a served version.
    pub api_version: String,
    /// Spec in the hub version.
    pub spec: Value,
    /// Status as last read or written.
    pub status: Status,
    /// Annotation `quartet-operator.example.com/paused: "true"`: nothing is applied.
    pub paused: bool,
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

/// Why nothing is applied for a resource.
#[derive(Debug, Clone, PartialEq)]
pub enum ValidationError {
    /// The spec violates these rules.
    Invalid(Vec<FieldError>),
    /// The spec asks for more pods than `--max-replicas` allows.
    ReplicasOverLimit {
        /// The number of pods in the spec.
        wanted: i64,
        /// The limit.
        limit: i64,
    },
}

/// All kinds, for tests that check each of them.
#[cfg(test)]
pub(crate) fn kinds() -> Vec<&'static Kind> {
    OPERATORS.iter().map(|operator| operator.kind()).collect()
}
