//! The paths of the endpoints, for the server and the manifests. Names only.

use quartet_versions::{Kind, Version};

/// Path of the conversion webhook.
pub const CONVERT: &str = "/convert";

/// Path of the admission webhook of one kind and version, named as in controller-runtime, e.g.
/// `/validate-cache-example-com-v1alpha1-memcached`.
pub fn validate(kind: &Kind, version: &Version) -> String {
    format!(
        "/validate-{}-{}-{}",
        kind.group.replace('.', "-"),
        version.name,
        kind.controller_name()
    )
}
