//! The desired state: pure functions from a resource and its observed children to children and
//! status. No I/O; depends on `api` and on the crates `quartet_versions` and `quartet_applied` only.
//! Used by `config`, `controller`, `manager`, `migration` and `packaging`.

pub mod child;
mod image;
pub mod kept;
pub mod names;
pub mod observed;
mod observed_workload;
pub mod operand;
mod operator;
pub mod plan;
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
pub use observed_workload::ObservedWorkload;
pub use operator::{Desired, Operator, Resource, Summary, ValidationError, owned_by, summary};
pub use settings::{OperandImage, Settings};
