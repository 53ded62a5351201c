#![doc = include_str!("../README.md")]
#![cfg_attr(
    not(test),
    warn(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]

pub mod conversion;
mod kind;
pub mod limits;
pub mod raw;
pub mod replicas;
pub mod rules;
pub mod schema;
pub mod validation;

pub use kind::{Brand, FieldMapping, Kind, Version};
