//! quartet-operator: four Kubernetes operators in one manager.
//!
//! Dependencies between modules go one way: `api` (types of the custom resources) is used by
//! `operators` (desired state and status). `manager` (the process) connects `operators` to
//! `controller` (informers, work queue, server-side apply). `webhook` validates and converts for
//! the API server and uses `api` only. `certificates` reads or makes the certificates of the
//! servers. `migration` is the subcommand. `packaging` generates every manifest from `api` and
//! `operators`. `server` is the HTTP server of `manager` and `webhook`, and `api_server` sends
//! requests to the API server for all of them.
#![cfg_attr(
    not(test),
    warn(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]

pub mod api;
use quartet_http as api_server;
use quartet_http::{bounded, metric};
mod budget;
pub mod certificates;
pub mod config;
pub mod controller;
#[cfg(test)]
mod explorer;
mod kinds;
mod log_limit;
pub mod manager;
mod merge;
pub mod migration;
pub mod names;
pub mod operators;
pub mod packaging;
mod server;
mod trace_target;
pub mod webhook;
