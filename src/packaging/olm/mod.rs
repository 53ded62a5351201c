//! Manifests for OLM: the bundle with its ClusterServiceVersion, the catalog, and the objects
//! that a user applies to install from it. Pure. The rules for bundles are cited where they
//! apply.
#![allow(clippy::indexing_slicing, reason = "fields of JSON literals, in the generator alone")]

pub mod bundle;
pub mod catalog;
pub mod community;
pub mod csv;
pub(super) mod descriptor;
mod extension;
mod subscription;

use super::manifest::{Manifest, ManifestError};
use super::release::Release;
use crate::api::Kind;

/// The generated files below `config/olm` and `config/olm-v1`.
pub(super) fn manifests(
    kinds: &[&Kind],
    release: &Release,
) -> Result<Vec<Manifest>, ManifestError> {
    let mut manifests = subscription::manifests(release)?;
    manifests.extend(extension::manifests(kinds, release)?);
    Ok(manifests)
}

#[cfg(test)]
mod tests;
