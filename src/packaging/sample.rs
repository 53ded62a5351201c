//! The samples: a hand-written file per version in `config/samples`, with kubebuilder's file
//! names.

use serde_json::Value;

use super::manifest::ManifestError;
use super::template;
use quartet_versions::{Kind, Version};

/// The sample of a version.
///
/// # Errors
/// Its file cannot be read, or is not YAML.
pub fn sample(kind: &Kind, version: &Version) -> Result<Value, ManifestError> {
    template::config(&format!("samples/{}", file(kind, version)))
}

/// E.g. `cache_v1alpha1_memcached.yaml`.
pub(super) fn file(kind: &Kind, version: &Version) -> String {
    let group = kind.group.split('.').next().unwrap_or(kind.group);
    format!("{group}_{}_{}.yaml", version.name, kind.controller_name())
}
