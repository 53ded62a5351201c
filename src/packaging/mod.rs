//! Every manifest, made from the Rust types that the manager runs on. For the generator
//! (`src/bin/generate`) and for tests; uses `api`, `operators` and constants, and writes
//! no file itself.

pub mod crd;
mod installer;
pub mod manager;
pub mod manifest;
mod metadata;
pub mod monitoring;
pub mod names;
pub mod overlay;
pub mod rbac;
pub mod release;
pub mod sample;
pub mod webhook;

use std::path::Path;

use crate::api::Kind;
use crate::operators::OPERATORS;

pub use manifest::{Manifest, ManifestError};
pub use release::{Release, ReleaseError};

/// The kinds that manifests are made for, in the order of the list of operators.
pub fn kinds() -> Vec<&'static Kind> {
    OPERATORS.iter().map(|operator| operator.kind()).collect()
}

/// Every file under `config/` that is generated, in a stable order.
///
/// # Errors
/// When a type cannot be written as YAML, which a test rules out.
pub fn manifests(release: &Release) -> Result<Vec<Manifest>, ManifestError> {
    let kinds = kinds();
    let mut manifests = crd::manifests(&kinds)?;
    manifests.extend(sample::manifests(&kinds)?);
    manifests.extend(webhook::manifests(&kinds)?);
    manifests.extend(monitoring::manifests()?);
    manifests.extend(rbac::manifests(&kinds)?);
    manifests.extend(manager::manifests(release)?);
    manifests.extend(overlay::manifests(&kinds)?);
    Ok(manifests)
}

/// Every generated file, by its path below the root of the repository, in a stable order.
///
/// # Errors
/// When a type cannot be written as YAML or JSON, which a test rules out.
pub fn files(release: &Release) -> Result<Vec<Manifest>, ManifestError> {
    let below = |folder: &'static str| {
        move |manifest: Manifest| Manifest {
            path: Path::new(folder).join(manifest.path),
            ..manifest
        }
    };
    let config = manifests(release)?;
    let installer = installer::manifest(&config, release)?;
    let config = config.into_iter().map(below("config"));
    let grafana = monitoring::dashboards()?.into_iter().map(below("grafana"));
    Ok(config.chain(grafana).chain([installer]).collect())
}

/// `dist/install.yaml` for `release`, which installs everything.
///
/// # Errors
/// When a type cannot be written as YAML, which a test rules out.
pub fn installer(release: &Release) -> Result<Manifest, ManifestError> {
    installer::manifest(&manifests(release)?, release)
}

#[cfg(test)]
mod tests;
