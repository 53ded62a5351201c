#![doc = include_str!("../README.md")]
#![cfg_attr(
    not(test),
    warn(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]

mod backoff;
pub mod bounded;
mod caller;
mod error;
mod error_report;
mod fixed_hash;
mod leadership;
mod log_limit;
pub mod metric;
mod relisting;
mod request;
pub mod server;

pub use backoff::exponential;
pub use caller::{Caller, Part, TRACES};
pub use error::{Cause, RequestError};
pub use error_report::error_report;
pub use fixed_hash::FixedHasher;
pub use leadership::Leadership;
pub use log_limit::LogLimit;
pub use relisting::relisting;
pub use request::{DEADLINE, Location, found, generation_of, send};
