//! What the cluster shall hold: pure functions from a resource (and what was observed of
//! its children) to children and status. No I/O; uses `api` only.
//!
//! A new operator is one file under `api/`, one under `operators/`, and one line in
//! [`OPERATORS`].

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
mod tests;
mod workload;

use serde_json::Value;

pub use observed::{
    Observed, ObservedDeployment, ObservedPod, ObservedService, PodFailure, Problem, Reason,
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

    /// The children that the resource asks for, in the order they are to be applied.
    ///
    /// # Errors
    /// [`Refused`] when the spec breaks a rule or a limit; then nothing is applied.
    fn desired(&self, resource: &Resource, settings: &Settings) -> Result<Vec<Child>, Refused>;

    /// The status that tells what was observed, which is at least as new as the last apply.
    /// Deterministic: the same input gives the same status, and times of conditions change
    /// only with their status.
    fn status(&self, resource: &Resource, settings: &Settings, observed: &Observed) -> Status;
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

/// The kinds of children.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ChildKind {
    /// `apps/v1` Deployment.
    Deployment,
    /// `v1` Service.
    Service,
}

impl ChildKind {
    /// The kind as the API server calls it.
    pub fn name(self) -> &'static str {
        match self {
            ChildKind::Deployment => "Deployment",
            ChildKind::Service => "Service",
        }
    }
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
