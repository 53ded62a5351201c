#![doc = include_str!("../README.md")]
#![cfg_attr(
    not(test),
    warn(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]

pub mod api;
mod child;
pub mod kept;
mod legacy;
pub mod names;
mod observed;
mod observed_workload;
pub mod operand;
mod operator;
pub mod plan;
mod pod;
mod settings;
pub mod status;
mod workload;

pub use child::{
    CONFIG_MAP, Child, ChildKind, ChildState, ChildType, DEPLOYMENT, Owned, SERVICE, STATEFUL_SET,
};
pub use legacy::{Finalized, Legacy};
pub use observed::{Observed, ObservedChild, ObservedPod, PodFailure, Problem, Reason};
pub use observed_workload::ObservedWorkload;
pub use operator::{Desired, Operator, Resource, owned_by};
pub use settings::{MAX_REPLICAS, OperandImage, Settings};
#[doc(hidden)]
pub use workload::children;
