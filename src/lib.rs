//! quartet-operator: four Kubernetes operators in one manager.
//!
//! `kinds` has the types of the custom resources and the plans of their children, `legacy` the adoption of
//! older operators' objects. `application` is what the manager hosts. `packaging` is what the manifests contain of
//! this application. The crates below `crates` know none of the four kinds.
#![cfg_attr(
    not(test),
    warn(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]

mod application;
pub mod kinds;
pub mod legacy;
pub mod names;
pub mod packaging;
#[cfg(test)]
mod tests;

pub use application::APPLICATION;
