#![doc = include_str!("../README.md")]
#![cfg_attr(
    not(test),
    warn(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]

mod candidate;
mod clock;
mod driver;
mod fence;
mod lease;
mod metrics;
#[cfg(test)]
mod tests;

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

pub use candidate::{Loss, TIMING, Timing};
pub use driver::Election;
pub use lease::LeaseLock;
pub use quartet_http::Leadership;

/// The host name, which in a cluster is the name of the pod, and random digits: a restarted process
/// is another candidate.
pub fn identity() -> Arc<str> {
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    // Keyed by the system's random numbers.
    let random = RandomState::new().hash_one(std::process::id());
    format!("{host}_{random:016x}").into()
}
