#![doc = include_str!("../README.md")]
#![cfg_attr(
    not(test),
    warn(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]

mod calls;
#[doc(hidden)]
pub mod contents;
mod directory;
mod identity;
mod objects;
mod pair;
#[doc(hidden)]
pub mod plan;
mod resolver;
mod self_managed;
#[cfg(test)]
mod tests;

pub use directory::{Files, directory};
pub use objects::{ObjectRef, registered};
#[doc(hidden)]
pub use pair::ServingPair;
pub use pair::Validity;
pub use resolver::{Metrics, Resolver, Source, in_memory};
pub use self_managed::{SelfManaged, self_managed};
