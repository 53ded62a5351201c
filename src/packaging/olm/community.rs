//! The directory for a pull request to the community catalogs
//! (k8s-operatorhub/community-operators, docs/contributing-fbc.md):
//! `operators/quartet-operator/<version>`, with the bundle and the file that makes the pipeline
//! there add the version to the file-based catalog. Template and catalog are not included, since
//! they name the image of the bundle that the pipeline builds; the pipeline writes them
//! (operator-pipelines, add_bundle_to_fbc.py). Not committed, since it would be a copy of the
//! bundle.

use serde_json::json;

use super::bundle;
use super::csv::PACKAGE;
use crate::api::Kind;
use crate::packaging::manifest::{Manifest, ManifestError};
use crate::packaging::project::project;
use crate::packaging::release::{Release, csv_name, skip_range};

/// The catalog's template, in `catalog-templates`.
const TEMPLATE: &str = "basic.yaml";
/// The catalogs of that repository.
const CATALOGS: [&str; 1] = ["latest"];

/// Every file, below the root of a clone of the catalog's repository.
///
/// # Errors
/// A type has no YAML form, which a test excludes.
pub fn files(kinds: &[&Kind], release: &Release) -> Result<Vec<Manifest>, ManifestError> {
    let folder = format!("operators/{PACKAGE}");
    let mapping = json!({
        "template_name": TEMPLATE,
        "catalog_names": CATALOGS,
        "type": "olm.template.basic",
    });
    let ci = json!({
        "fbc": { "enabled": true, "catalog_mapping": [mapping] },
        "reviewers": project().reviewers(),
    });
    // The entry of the channels, as in our own catalog.
    let mut entry = json!({
        "template_name": TEMPLATE,
        "channels": release.channels,
        "skipRange": skip_range(&release.version),
    });
    if let Some(version) = &release.replaces {
        entry["replaces"] = csv_name(version).into();
    }
    let config = json!({
        "defaultChannel": release.default_channel,
        "catalog_templates": [entry],
    });
    let below = format!("{folder}/{}", release.version);
    let mut files = vec![
        Manifest::object(format!("{folder}/ci.yaml"), &ci)?,
        Manifest::object(format!("{below}/release-config.yaml"), &config)?,
    ];
    for file in bundle::files(kinds, release)? {
        files.push(Manifest {
            path: format!("{below}/{}", file.path.display()).into(),
            ..file
        });
    }
    Ok(files)
}
