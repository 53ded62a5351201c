//! What the types of all kinds share: the settings of pods, the status, and names. Data only.
//! Used by `controller`, `kinds` and `operators`.

pub mod status;
#[cfg(test)]
pub(crate) mod tests;
pub mod workload;

use quartet_versions::{Brand, brand};
pub use status::{Condition, Status};

/// The names that all kinds share.
pub const BRAND: Brand = brand!(
    "quartet-operator",
    "quartet-operator.example.com",
    "quartet"
);

/// The annotation with the fields that the version of an object lacks.
pub const DATA_ANNOTATION: &str = BRAND.conversion_data;
