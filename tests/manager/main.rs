//! The real binary without a cluster: what it says about a bad configuration, and that it
//! lives and stops in good order while the API server is away.
// Waits for another process, whose time cannot be paused, on a thread of its own.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod configuration;
mod metrics;
#[path = "../support/metrics_list.rs"]
mod metrics_list;
mod outage;
mod process;
