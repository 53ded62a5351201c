//! What makes it so: informers, work queues, workers, server-side apply, back-off, with the
//! semantics of client-go and controller-runtime. Uses `operators` and `api`; knows no kind.
//!
//! The life of a change: [`informer`] → [`store`] → (who is woken: [`controllers`]) →
//! [`queue`] → `worker` → `reconcile` → `call` → the API server.

mod apply;
pub mod backoff;
mod bereaved;
mod call;
mod children;
mod claims;
pub(crate) mod clock;
mod contested;
pub mod controllers;
mod event;
mod fingerprint;
#[cfg(fuzzing)]
pub mod fuzzing;
pub mod informer;
#[cfg(test)]
mod kube_runtime_faults;
mod leadership;
mod lean;
mod legacy_finalizers;
mod memory;
pub mod metrics;
pub mod object;
mod pacing;
mod pending_status;
mod pod_failure;
mod quantity;
pub mod queue;
mod reconcile;
#[cfg(test)]
mod reconcile_tests;
mod repairs;
mod report;
mod resync;
pub mod rights;
mod stamp;
pub mod store;
mod stored_version;
mod takeover;
mod verdict;
pub mod watched;
mod worker;

pub use controllers::{ControllersError, Options, run};
pub use leadership::{Leadership, MayWrite};
pub use metrics::Metrics;
pub use stored_version::storage_version_hash;
