//! A kind for the tests of this crate.

use kube::CustomResource;
use quartet_versions::{Brand, FieldMapping, Kind, Version, brand};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[kube(group = "cache.example.com", version = "v1alpha1", kind = "Cache", namespaced)]
pub(crate) struct OldSpec {
    size: i32,
}

mod v1 {
    use super::*;

    #[derive(CustomResource, Debug, Clone, Serialize, Deserialize, JsonSchema)]
    #[kube(group = "cache.example.com", version = "v1", kind = "Cache", namespaced)]
    pub(crate) struct NewSpec {
        replicas: i32,
    }
}

static BRAND: Brand = brand!("cache-operator", "cache-operator.example.com", "caches");

static CACHE: Kind = Kind {
    brand: &BRAND,
    group: "cache.example.com",
    kind: "Cache",
    plural: "caches",
    short_name: "ca",
    description: "A cache.",
    input: "how many servers",
    output: "a cache",
    field_manager: "cache-operator",
    spoke: Version::new::<Cache>("v1alpha1", || CACHE.spec_of(&CACHE.spoke)).counted_by(&["size"]),
    hub: Version::new::<v1::Cache>("v1", || CACHE.spec_of(&CACHE.hub)),
    field_mappings: &[FieldMapping::new(&["size"], &["replicas"])],
};

pub(crate) fn kinds() -> Vec<&'static Kind> {
    vec![&CACHE]
}
