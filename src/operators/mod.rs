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
mod observed_workload;
mod operand;
mod operator;
mod plan;
mod pod;
pub mod settings;
pub mod status;
#[cfg(test)]
pub(crate) mod tests;
mod workload;

pub use child::{
    CONFIG_MAP, Child, ChildKind, ChildObject, ChildState, ChildSummary, ChildType, DEPLOYMENT,
    Owned, SERVICE, STATEFUL_SET,
};
pub use observed::{Observed, ObservedChild, ObservedPod, PodFailure, Problem, Reason};
pub use observed_workload::{ObservedCondition, ObservedWorkload};
pub use operator::{Desired, Operator, Resource, Summary, ValidationError, owned_by, summary};
pub use settings::{OperandImage, Settings};

/// Every operator of the manager. The only list of all kinds.
pub static OPERATORS: &[&dyn Operator] = &[
    &memcached::Memcached,
    &nginx::Nginx,
    &elasticweb::ElasticWeb,
    &helloworld::HelloWorld,
];

/// All kinds, for tests that check each of them.
#[cfg(test)]
pub(crate) fn kinds() -> Vec<&'static crate::api::Kind> {
    OPERATORS.iter().map(|operator| operator.kind()).collect()
}
