//! quartet-operator: four Kubernetes operators in one manager.
//!
//! Dependencies between modules go one way: `api` (types of the custom resources) is used by
//! `operators` (desired state and status). `manager` (the process) connects `operators` to
//! `controller` (informers, work queue, server-side apply). `webhook` validates and converts for
//! the API server and uses `api` only. `certificates` reads or makes the certificates of the
//! servers. `migration` is the subcommand. `packaging` generates every manifest from `api` and
//! `operators`. `server` is the HTTP server of `manager` and `webhook`. The crate `quartet_http` sends
//! requests to the API server for all of them, and `quartet_lease` elects the leader.
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
mod log_limit;
pub mod manager;
pub mod migration;
pub mod names;
pub mod operators;
pub mod packaging;
mod server;
mod trace_target;
pub mod webhook;
