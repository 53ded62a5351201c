//! The samples: a hand-written file per version in `config/samples`, with kubebuilder's file
//! names.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::crd::kustomization;
use super::manifest::{Manifest, ManifestError};
use crate::api::{Kind, Version};

/// The sample of a version.
///
/// # Errors
/// Its file cannot be read, or is not YAML.
pub fn sample(kind: &Kind, version: &Version) -> Result<Value, ManifestError> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/samples");
    let path = folder.join(file(kind, version));
    match fs::read_to_string(&path) {
        Ok(text) => serde_saphyr::from_str(&text).map_err(|source| ManifestError::Parse {
            path,
            source: Box::new(source),
        }),
        Err(source) => Err(ManifestError::Read { path, source }),
    }
}

/// E.g. `cache_v1alpha1_memcached.yaml`.
pub(super) fn file(kind: &Kind, version: &Version) -> String {
    let group = kind.group.split('.').next().unwrap_or(kind.group);
    format!("{group}_{}_{}.yaml", version.name, kind.controller_name())
}

/// The generated file in `samples`.
pub(super) fn manifests(kinds: &[&Kind]) -> Result<Vec<Manifest>, ManifestError> {
    let spokes: Vec<String> = kinds.iter().map(|kind| file(kind, &kind.spoke)).collect();
    Ok(vec![kustomization(
        "samples/kustomization.yaml",
        "# The samples for all forms of our CRDs. The samples of the new versions require the CRDs of\n\
         # config/crd; apply them by file name.\n",
        &spokes,
    )?])
}
