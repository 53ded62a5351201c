//! Manifests for OLM: the bundle with its ClusterServiceVersion, the catalog, and the roles that
//! OLM v1 installs with. The texts are templates. Used by `packaging` alone. The rules for bundles are
//! cited where they apply.

mod bundle;
mod catalog;
pub mod csv;
mod descriptor;
mod installer;

use super::manifest::{Manifest, ManifestError, below};
use super::release::Release;
use super::template;
use crate::names::PACKAGE;

pub(super) use bundle::bundle;
pub(super) use catalog::catalog;
pub(super) use installer::installer_rules;

/// The directory for a pull request to the community catalogs
/// (k8s-operatorhub/community-operators, docs/contributing-fbc.md), below the root of a clone:
/// the bundle, and the files that make the pipeline there add the version to the file-based
/// catalog. Template and catalog are not included, since they name the image of the bundle that
/// the pipeline builds; the pipeline writes them (operator-pipelines, add_bundle_to_fbc.py). Not
/// committed, since it would be a copy of the bundle.
///
/// # Errors
/// A file of the repository cannot be read, or is not YAML.
pub fn community(release: &Release) -> Result<Vec<Manifest>, ManifestError> {
    let fields = release.fields();
    let folder = format!("operators/{PACKAGE}");
    let of_version = format!("{folder}/{}", release.version);
    let ci = format!("{folder}/ci.yaml");
    let config = format!("{of_version}/release-config.yaml");
    let mut files = below(&of_version, bundle(release)?);
    files.push(template::manifest(&ci, "olm/community_ci.yaml", &fields)?);
    let template = "olm/community_release.yaml";
    files.push(template::manifest(&config, template, &fields)?);
    Ok(files)
}

#[cfg(test)]
mod tests;
