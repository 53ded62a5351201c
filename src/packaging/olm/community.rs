//! The folder that is proposed to the community catalogs (k8s-operatorhub/community-operators):
//! `operators/quartet-operator/<version>`, which is the bundle, and `ci.yaml` beside it. Written
//! on demand: committed, it would be the bundle once more.

use serde_json::json;

use super::bundle;
use super::csv::PACKAGE;
use crate::api::Kind;
use crate::packaging::manifest::{Manifest, ManifestError};
use crate::packaging::project::project;
use crate::packaging::release::Release;

/// Every file, below the root of a clone of the catalog's repository.
///
/// # Errors
/// When a type has no YAML form, which a test rules out.
pub fn files(kinds: &[&Kind], release: &Release) -> Result<Vec<Manifest>, ManifestError> {
    let folder = format!("operators/{PACKAGE}");
    let mut files = vec![Manifest::object(
        format!("{folder}/ci.yaml"),
        &json!({
            // As `spec.replaces` says, which is how our own catalog has it.
            "updateGraph": "replaces-mode",
            "reviewers": project().reviewers(),
        }),
    )?];
    for file in bundle::files(kinds, release)? {
        let below = format!("{folder}/{}/{}", release.version, file.path.display());
        files.push(Manifest {
            path: below.into(),
            ..file
        });
    }
    Ok(files)
}
