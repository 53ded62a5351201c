//! The paths of the endpoints, which the server listens on and manifests name. Names only.

use crate::api::{Kind, Version};

/// Where objects are converted.
pub const CONVERT: &str = "/convert";

/// Where objects of one kind and version are checked, as controller-runtime names it, e.g.
/// `/validate-cache-example-com-v1alpha1-memcached`.
pub fn validate(kind: &Kind, version: &Version) -> String {
    format!(
        "/validate-{}-{}-{}",
        kind.group.replace('.', "-"),
        version.name,
        kind.controller_name()
    )
}
