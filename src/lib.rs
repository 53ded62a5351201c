//! quartet-operator: four Kubernetes operators in one manager.
//!
//! Arrows point down only: `api` (what a user writes) is used by `operators` (what the
//! cluster shall hold), which is wired to `controller` (what makes it so) by `manager`
//! (the process). `webhook` checks and converts what the API server sends, and uses `api`
//! only. `migration` is the one subcommand. `packaging` writes every manifest from the
//! types of the first two. `server` is the HTTP server under `manager` and `webhook`.
#![cfg_attr(
    not(test),
    warn(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]

pub mod api;
mod bounded;
mod budget;
pub mod config;
pub mod controller;
#[cfg(test)]
mod explorer;
mod log_limit;
pub mod manager;
pub mod migration;
pub mod operators;
pub mod packaging;
mod server;
mod trace_target;
pub mod webhook;
