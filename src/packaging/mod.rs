//! The manifests, generated from the Rust types of the manager and from hand-written files of
//! `config`. Used by the generator (`src/bin/generate`) and by tests. Depends on `api`,
//! `operators` and constants; writes no files itself.

mod by_hand;
mod chart;
pub mod crd;
mod installer;
pub mod manager;
pub mod manifest;
mod migration;
pub mod names;
pub mod olm;
mod project;
pub mod rbac;
mod reference;
pub mod release;
pub mod sample;
pub mod webhook;

use std::path::Path;

use crate::api::Kind;
use crate::operators::OPERATORS;

pub use manifest::{Manifest, ManifestError};
pub use release::{Release, ReleaseError};

/// The kinds in all manifests, in the order of the list of operators.
pub fn kinds() -> Vec<&'static Kind> {
    OPERATORS.iter().map(|operator| operator.kind()).collect()
}

/// Every generated file under `config/`, in a stable order. The other files there are written by
/// hand.
///
/// # Errors
/// A type cannot be written as YAML, which a test excludes.
pub fn manifests(release: &Release) -> Result<Vec<Manifest>, ManifestError> {
    let kinds = kinds();
    let mut manifests = crd::manifests(&kinds)?;
    manifests.extend(sample::manifests(&kinds)?);
    manifests.push(webhook::manifest(&kinds)?);
    manifests.extend(rbac::manifests(&kinds)?);
    manifests.push(manager::manifest(release)?);
    manifests.extend(olm::manifests(&kinds, release)?);
    manifests.extend(migration::manifests(&kinds, release)?);
    Ok(manifests)
}

/// Every generated file, with its path below the root of the repository, in a stable order.
///
/// # Errors
/// A type cannot be written as YAML or JSON, which a test excludes.
pub fn files(release: &Release) -> Result<Vec<Manifest>, ManifestError> {
    let mut files: Vec<Manifest> = manifests(release)?
        .into_iter()
        .map(below("config"))
        .collect();
    files.extend(installer(release)?.map(below("dist")));
    files.extend(chart(release)?.into_iter().map(below("dist/chart")));
    files.extend(bundle(release, Path::new("bundle"))?);
    files.extend(catalog(release, Path::new("catalog"))?);
    files.push(reference::manifest(&kinds()));
    Ok(files)
}

/// The bundle in `folder`, and the Dockerfile of its image next to it.
///
/// # Errors
/// A type cannot be written as YAML, which a test excludes.
pub fn bundle(release: &Release, folder: &Path) -> Result<Vec<Manifest>, ManifestError> {
    let files = olm::bundle::files(&kinds(), release)?;
    let dockerfile = olm::bundle::dockerfile(folder, release);
    Ok(with_dockerfile(files, dockerfile, folder))
}

/// The catalog in `folder`, and the Dockerfile of its image next to it.
///
/// # Errors
/// A type cannot be written as YAML, which a test excludes.
pub fn catalog(release: &Release, folder: &Path) -> Result<Vec<Manifest>, ManifestError> {
    let files = olm::catalog::files(&kinds(), release)?;
    Ok(with_dockerfile(
        files,
        olm::catalog::dockerfile(folder),
        folder,
    ))
}

/// The files for a pull request to the community catalogs.
///
/// # Errors
/// A type cannot be written as YAML, which a test excludes.
pub fn community(release: &Release) -> Result<Vec<Manifest>, ManifestError> {
    olm::community::files(&kinds(), release)
}

fn with_dockerfile(files: Vec<Manifest>, dockerfile: Manifest, folder: &Path) -> Vec<Manifest> {
    let mut files: Vec<Manifest> = files.into_iter().map(below(folder)).collect();
    let parent = folder.parent().unwrap_or(Path::new(""));
    files.extend([dockerfile].map(below(parent)));
    files
}

fn below(folder: impl AsRef<Path>) -> impl Fn(Manifest) -> Manifest {
    move |manifest| Manifest {
        path: folder.as_ref().join(manifest.path),
        ..manifest
    }
}

/// `install.yaml` of `release`, which installs everything, and the list of images.
///
/// # Errors
/// A type cannot be written as YAML, which a test excludes.
pub fn installer(release: &Release) -> Result<[Manifest; 2], ManifestError> {
    let images = Manifest {
        path: "images.txt".into(),
        text: release.list_of_images(),
    };
    Ok([installer::manifest(&config(release)?, release)?, images])
}

/// The Helm chart of `release`, with the paths in its directory.
///
/// # Errors
/// A type cannot be written as YAML, which a test excludes.
pub fn chart(release: &Release) -> Result<Vec<Manifest>, ManifestError> {
    chart::files(&config(release)?, release)
}

/// The input of installer and chart: all files of `config`, hand-written and generated.
fn config(release: &Release) -> Result<Vec<Manifest>, ManifestError> {
    let mut config = manifests(release)?;
    config.extend(by_hand::manifests());
    Ok(config)
}

#[cfg(test)]
mod tests;
