//! Every manifest, made from the Rust types that the manager runs on. For the generator
//! (`src/bin/generate.rs`) and for tests; uses `api`, `operators` and constants, and writes
//! no file itself.

pub mod crd;
pub mod manifest;
pub mod monitoring;
pub mod names;
pub mod rbac;
pub mod sample;
pub mod webhook;

use std::path::Path;

use crate::api::Kind;
use crate::operators::OPERATORS;

pub use manifest::{Manifest, ManifestError};

/// The kinds that manifests are made for, in the order of the list of operators.
pub fn kinds() -> Vec<&'static Kind> {
    OPERATORS.iter().map(|operator| operator.kind()).collect()
}

/// Every file under `config/` that is generated, in a stable order.
///
/// # Errors
/// When a type cannot be written as YAML, which a test rules out.
pub fn manifests() -> Result<Vec<Manifest>, ManifestError> {
    let kinds = kinds();
    let mut manifests = crd::manifests(&kinds)?;
    manifests.extend(sample::manifests(&kinds)?);
    manifests.extend(webhook::manifests(&kinds)?);
    manifests.extend(monitoring::manifests()?);
    manifests.extend(rbac::manifests(&kinds)?);
    Ok(manifests)
}

/// Every generated file, by its path below the root of the repository, in a stable order.
///
/// # Errors
/// When a type cannot be written as YAML or JSON, which a test rules out.
pub fn files() -> Result<Vec<Manifest>, ManifestError> {
    let below = |folder: &'static str| {
        move |manifest: Manifest| Manifest {
            path: Path::new(folder).join(manifest.path),
            ..manifest
        }
    };
    let config = manifests()?.into_iter().map(below("config"));
    let grafana = monitoring::dashboards()?.into_iter().map(below("grafana"));
    Ok(config.chain(grafana).collect())
}

#[cfg(test)]
mod tests;
