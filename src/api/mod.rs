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
mod schema;
pub mod shape;
pub mod status;
pub mod validation;
pub mod workload;

pub use kind::{Kind, Version};
pub use status::{Condition, Status};

/// The kinds, for tests of what must hold for each of them. (In production the list of
/// kinds is that of the operators.)
#[cfg(test)]
pub(crate) const KINDS: [&Kind; 4] = [
    &memcached::KIND,
    &nginx::KIND,
    &elasticweb::KIND,
    &helloworld::KIND,
];
