//! The kinds. A new kind is a file here and one line in this list, whose order is that of the manifests.

use quartet_versions::{Brand, brand};
use quartet_workload::Operator;

/// The names that all kinds share.
pub const BRAND: Brand = brand!(
    "quartet-operator",
    "quartet-operator.example.com",
    "quartet"
);
/// The annotation with the fields that the version of an object lacks.
pub const DATA_ANNOTATION: &str = BRAND.conversion_data;

macro_rules! kinds {
    ($($module:ident::$operator:ident,)*) => {
        $(pub mod $module;)*

        /// Every operator of the manager.
        pub static OPERATORS: &[&dyn Operator] = &[$(&$module::$operator,)*];
    };
}

kinds! {
    memcached::Memcached,
    nginx::Nginx,
    elasticweb::ElasticWeb,
    helloworld::HelloWorld,
}
