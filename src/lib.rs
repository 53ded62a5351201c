//! quartet-operator: four Kubernetes operators in one manager.
//!
//! Dependencies between modules go one way: `api` (types of the custom resources) is used by
//! `operators` (desired state and status). `manager` (the process) connects `operators` to
//! `controller` (informers, work queue, server-side apply). `migration` is the subcommand. `packaging`
//! generates every manifest from `api` and `operators`. The crates below `crates` know none of the four
//! kinds: `quartet_versions`, `quartet_applied`, `quartet_certificates`, `quartet_http`, `quartet_lease` and
//! `quartet_webhook`.
#![cfg_attr(
    not(test),
    warn(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]

pub mod api;
mod budget;
pub mod config;
pub mod controller;
#[cfg(test)]
mod explorer;
pub mod kinds;
pub mod manager;
pub mod migration;
pub mod names;
pub mod operators;
pub mod packaging;
#[cfg(test)]
mod tests;
