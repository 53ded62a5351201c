//! quartet-operator: four Kubernetes operators in one manager.
//!
//! Dependencies between modules go one way: `api` (types of the custom resources) is used by
//! `operators` (desired state and status). `manager` (the process) connects `operators` to
//! `controller` (informers, work queue, server-side apply). `certificates` reads or makes the certificates
//! of the servers. `migration` is the subcommand. `packaging` is what the manifests contain of this
//! application. The crates below `crates` know none of the four kinds: `quartet_versions`,
//! `quartet_applied`, `quartet_http`, `quartet_lease`, `quartet_packaging` and `quartet_webhook`.
#![cfg_attr(
    not(test),
    warn(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]

pub mod api;
mod budget;
pub mod certificates;
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
