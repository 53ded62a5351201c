//! The controllers: informers, work queues, workers, server-side apply and back-off, as in client-go
//! and controller-runtime. Uses `operators` and `api`; contains no code for a specific kind.
//!
//! Path of a change: [`cache::informer`] → [`cache::store`] → `event_handlers` → [`queue`] →
//! `reconcile::worker` → `reconcile` → `call` → the API server. The crate `quartet_applied` compares, and `legacy`
//! adopts children of older operators.
//! Used by `manager` and `packaging`.

pub mod backoff;
pub mod cache;
mod children;
mod clock;
pub mod controllers;
mod event;
mod event_handlers;
pub mod legacy;
pub mod metrics;
pub mod object;
pub mod queue;
mod reconcile;
mod repairs;
pub mod rights;
mod state;

pub use cache::stored_version::storage_version_hash;
pub use clock::Clock;
pub use controllers::{ControllersError, Options, run};
pub use metrics::Metrics;
pub use quartet_http::Leadership;
