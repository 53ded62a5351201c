//! What a user writes: the eight types, their schemas, defaults, conversion and
//! validation rules. Pure: no I/O, no clock, no client. May not use any other room.
#![allow(
    clippy::duplicated_attributes,
    reason = "the lint takes the parts of kube's printcolumn attributes for repetitions"
)]

pub mod conversion;
pub mod elasticweb;
pub mod helloworld;
pub mod kind;
pub mod memcached;
pub mod nginx;
pub mod quantity;
pub mod raw;
pub mod replicas;
pub mod rules;
pub mod schema;
pub mod shape;
pub mod status;
pub mod transition;
pub mod validation;
pub mod workload;

pub use kind::{Kind, Version};
pub use status::{Condition, Status};

/// The kinds, for tests of what must hold for each of them. Tests only: the list is that of
/// the operators, a room above this one.
#[cfg(test)]
pub(crate) fn kinds() -> Vec<&'static Kind> {
    let operators = crate::operators::OPERATORS.iter();
    operators.map(|operator| operator.kind()).collect()
}
