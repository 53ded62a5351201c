//! The controllers: informers, work queues, workers, server-side apply and back-off, with the
//! semantics of client-go and controller-runtime. Uses `operators` and `api`; knows no kind.
//!
//! The way of a change: [`informer`] → [`store`] → event handlers ([`controllers`]) → [`queue`] →
//! `worker` → `reconcile` → `call` → the API server.

mod adoption;
mod apply;
pub mod backoff;
mod cached;
mod call;
mod children;
pub(crate) mod clock;
pub mod controllers;
pub mod decode;
mod error_class;
mod event;
mod event_handlers;
mod field_conflict;
mod fingerprint;
#[cfg(fuzzing)]
pub mod fuzzing;
pub mod informer;
#[cfg(test)]
mod kube_runtime_faults;
mod leadership;
mod legacy_finalizers;
mod lost_children;
pub mod metrics;
pub mod object;
mod pacing;
mod pod_failure;
mod quantity;
pub mod queue;
mod reconcile;
mod reconcile_state;
#[cfg(test)]
mod reconcile_tests;
mod repairs;
mod reservations;
mod resync;
pub mod rights;
mod stamp;
mod status_debounce;
mod status_writer;
pub mod store;
mod stored_version;
mod worker;

pub use controllers::{ControllersError, Options, run};
pub use leadership::{Leadership, MayWrite};
pub use metrics::Metrics;
pub use stored_version::storage_version_hash;
