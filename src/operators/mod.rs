//! What the cluster shall hold: pure functions from a resource (and what was observed of
//! its children) to children and status. No I/O; uses `api` only.
//!
//! A new operator is one file under `api/`, one under `operators/`, and one line in
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

/// Every operator that the manager hosts. The list of kinds: nothing else names them all.
pub static OPERATORS: &[&dyn Operator] = &[
    &memcached::Memcached,
    &nginx::Nginx,
    &elasticweb::ElasticWeb,
    &helloworld::HelloWorld,
];

/// The pure half of a controller.
pub trait Operator: Send + Sync + 'static {
    /// Names, versions, conversion and validation of the resource.
    fn kind(&self) -> &'static Kind;

    /// The image of its pods; `None` where every resource must name one.
    fn image(&self) -> Option<&'static OperandImage>;

    /// The types of its children. No other is watched for it, and it has rights to no other.
    fn owns(&self) -> &'static [Owned];

    /// The children that the resource asks for, in the order they are to be applied; each of a
    /// type that is owned. The status counts the pods of the first that makes pods.
    ///
    /// # Errors
    /// [`Refused`] when the spec breaks a rule or a limit; then nothing is applied.
    fn desired(&self, resource: &Resource, settings: &Settings) -> Desired;

    /// The status that tells what was observed, which is at least as new as the last apply of
    /// `desired`. Deterministic: the same input gives the same status, and times of conditions
    /// change only with their status.
    fn status(&self, resource: &Resource, desired: &Desired, observed: &Observed) -> Status;
}

/// The children that a resource asks for, or why nothing is applied.
pub type Desired = Result<Vec<Child>, Refused>;

/// The types of the children of `operators`, each once: optional if one of them may drop it.
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

/// A custom resource as the operators see it: the hub's spec, whatever version was read.
#[derive(Debug, Clone)]
pub struct Resource {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID, which tells a resource from a namesake that was created later.
    pub uid: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// `apiVersion` that owner references to it carry; must be served.
    pub api_version: String,
    /// Spec in the hub version.
    pub spec: Value,
    /// Status as last read or written.
    pub status: Status,
    /// Annotation `quartet-operator.example.com/paused: "true"`: nothing is applied.
    pub paused: bool,
}

/// One object that a resource asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct Child {
    /// What it is.
    pub kind: ChildKind,
    /// Its name; its namespace is the resource's.
    pub name: String,
    /// The complete set of fields we own, as the body of a server-side apply.
    pub body: Value,
}

/// Why nothing is applied for a resource.
#[derive(Debug, Clone, PartialEq)]
pub enum Refused {
    /// The spec breaks these rules.
    Invalid(Vec<FieldError>),
    /// It asks for more pods than `--max-replicas` allows.
    ReplicasOverLimit {
        /// Pods asked for.
        wanted: i64,
        /// The limit.
        limit: i64,
    },
}
