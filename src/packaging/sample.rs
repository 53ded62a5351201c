//! One sample per version, under the names that users of the old operators know, written
//! from the typed values beside each type.

use serde_json::{Value, json};

use super::crd::kustomization;
use super::manifest::{Manifest, ManifestError};
use super::names::PROJECT;
use crate::api::{Kind, Version};

/// The sample of one version, with the labels that the scaffold gives its samples.
///
/// # Errors
/// When the typed sample has no JSON form.
pub fn sample(version: &Version) -> Result<Value, serde_json::Error> {
    let mut sample = (version.sample)()?;
    if let Some(metadata) = sample.get_mut("metadata").and_then(Value::as_object_mut) {
        let labels = json!({
            "app.kubernetes.io/managed-by": "kustomize",
            "app.kubernetes.io/name": PROJECT,
        });
        metadata.insert("labels".to_owned(), labels);
    }
    Ok(sample)
}

/// e.g. `cache_v1alpha1_memcached.yaml`.
fn file(kind: &Kind, version: &Version) -> String {
    let group = kind.group.split('.').next().unwrap_or(kind.group);
    format!("{group}_{}_{}.yaml", version.name, kind.controller_name())
}

/// The files of `samples`.
pub(super) fn manifests(kinds: &[&Kind]) -> Result<Vec<Manifest>, ManifestError> {
    let mut manifests = Vec::new();
    for kind in kinds {
        for version in [&kind.seed, &kind.hub] {
            let path = format!("samples/{}", file(kind, version));
            let sample = sample(version).map_err(|source| ManifestError::Json {
                path: path.clone().into(),
                source,
            })?;
            manifests.push(Manifest::with_heading(path, "", &sample)?);
        }
    }
    let seeds: Vec<String> = kinds.iter().map(|kind| file(kind, &kind.seed)).collect();
    manifests.push(kustomization(
        "samples/kustomization.yaml",
        "# The samples that every cluster with our CRDs takes. Those of the new versions need the\n\
         # CRDs of config/crd; apply them by file name.\n",
        &seeds,
    )?);
    Ok(manifests)
}
