//! The real binary without a cluster: its errors for an invalid configuration, and its behavior
//! while the API server is down.
// Waits in real time for another process, on a thread of its own.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod configuration;
mod credentials;
mod metrics;
#[path = "../support/metrics_list.rs"]
mod metrics_list;
mod outage;
mod process;
