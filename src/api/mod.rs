//! The API: types of the eight versions, with their bounds and field mappings. Data only.
//! Used by `controller`, `migration`, `operators`, `packaging` and `webhook`.

pub mod status;
#[cfg(test)]
pub(crate) mod tests;
pub mod workload;

use quartet_versions::{Brand, brand};
pub use quartet_versions::{
    Kind, Version, conversion, limits, quantity, raw, replicas, rules, schema, validation,
};
pub use status::{Condition, Status};

/// The names that all kinds share.
pub const BRAND: Brand = brand!(
    "quartet-operator",
    "quartet-operator.example.com",
    "quartet"
);

/// The annotation with the fields that the version of an object lacks.
pub const DATA_ANNOTATION: &str = BRAND.conversion_data;
