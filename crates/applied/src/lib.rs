#![doc = include_str!("../README.md")]
#![cfg_attr(
    not(test),
    warn(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]

pub mod absorb;
pub mod field_conflict;
pub mod fingerprint;
pub mod managed_fields;
mod merge;
mod quantity;
pub mod stamp;

pub use merge::merge;
