//! Tests of the crates with the four kinds.

pub(crate) mod api;
mod webhook;
pub(crate) mod workload;
