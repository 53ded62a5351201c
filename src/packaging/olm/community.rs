//! The folder that is proposed to the community catalogs (k8s-operatorhub/community-operators, its
//! docs/contributing-fbc.md): `operators/quartet-operator/<version>`, which is the bundle, and what has
//! the pipeline there add the version to the file-based catalog. Template and catalog are not in it:
//! they name the image of the bundle that the pipeline builds, and the pipeline writes them
//! (operator-pipelines, add_bundle_to_fbc.py). Written on demand: committed, it would be the bundle
//! once more.

use serde_json::json;

use super::bundle;
use super::csv::PACKAGE;
use crate::api::Kind;
use crate::packaging::manifest::{Manifest, ManifestError};
use crate::packaging::project::project;
use crate::packaging::release::{Release, csv_name, skip_range};

/// The name of the catalog's template, in `catalog-templates`.
const TEMPLATE: &str = "basic.yaml";
/// The catalogs of that repository: one.
const CATALOGS: [&str; 1] = ["latest"];

/// Every file, below the root of a clone of the catalog's repository.
///
/// # Errors
/// When a type has no YAML form, which a test rules out.
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
    // The entry of the channels, as our own catalog has it.
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
