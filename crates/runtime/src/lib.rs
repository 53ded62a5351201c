#![doc = include_str!("../README.md")]
#![cfg_attr(
    not(test),
    warn(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]

mod backoff;
#[doc(hidden)]
pub mod cache;
mod children;
mod clock;
mod controllers;
mod event;
mod event_handlers;
mod metrics;
#[doc(hidden)]
pub mod object;
mod queue;
mod reconcile;
mod repairs;
mod rights;
mod state;

#[doc(hidden)]
pub use cache::stored_version::storage_version_hash;
pub use clock::Clock;
pub use controllers::{ControllersError, Options, run};
pub use metrics::Metrics;
pub use quartet_http::Leadership;
pub use reconcile::worker::Fenced;
pub use rights::rights;
