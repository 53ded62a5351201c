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

static HUB: Version = Version::new::<v1::Cache>("v1").counted_by(&["replicas"]);
static CACHE: Kind = Kind {
    spoke: Version::new::<Cache>("v1alpha1").counted_by(&["size"]),
    field_mappings: &[FieldMapping::new(&["size"], &["replicas"])],
    ..Kind::new(&BRAND, "cache.example.com", "Cache", "caches", HUB)
};

pub(crate) fn kinds() -> Vec<&'static Kind> {
    vec![&CACHE]
}
