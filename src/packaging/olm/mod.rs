//! Manifests for OLM: the bundle with its ClusterServiceVersion, the catalog, and the roles that
//! OLM v1 installs with. The texts are templates. Used by `packaging` alone. The rules for bundles are
//! cited where they apply.

mod catalog;
pub mod csv;
mod descriptor;
mod installer;

use serde_json::Value;

use super::kinds::kinds;
use super::manifest::{Manifest, ManifestError};
use super::names::PROJECT;
use super::release::Release;
use super::{crd, rbac, template};

pub(super) use catalog::catalog;
pub(super) use installer::installer_rules;

/// The name of the package.
const PACKAGE: &str = PROJECT;

/// Every file of the bundle: one document per file, with operator-sdk's file names. Not included
/// are objects that OLM creates itself (webhook Service and configuration, ServiceAccounts),
/// objects whose CRDs a cluster may lack (ServiceMonitor, PrometheusRule), and the
/// NetworkPolicies, which the community catalog rejects.
pub(super) fn bundle(release: &Release) -> Result<Vec<Manifest>, ManifestError> {
    let path = format!("manifests/{PACKAGE}.clusterserviceversion.yaml");
    let mut files = vec![Manifest::object(path, &csv::csv(release)?)?];
    for kind in kinds() {
        let path = format!("manifests/{}_{}.yaml", kind.group, kind.plural);
        files.push(Manifest::object(path, &crd::both_versions(kind))?);
    }
    for object in objects()? {
        let path = format!("manifests/{}", file_name(&object));
        files.push(Manifest::object(path, &object)?);
    }
    files.push(template::manifest(
        "metadata/annotations.yaml",
        "olm/annotations.yaml",
        &release.fields(),
    )?);
    let scorecard = template::read("src/packaging/olm/scorecard.yaml")?;
    files.push(Manifest::new("tests/scorecard/config.yaml", scorecard));
    Ok(files)
}

/// The objects of the bundle except the ClusterServiceVersion and the CRDs.
fn objects() -> Result<Vec<Value>, ManifestError> {
    let mut objects = vec![
        template::config("manager/metrics_service.yaml")?,
        template::config("manager/disruption_budget.yaml")?,
    ];
    // OLM sets the namespace.
    for metadata in objects.iter_mut().map(|it| &mut it["metadata"]) {
        metadata.as_object_mut().map(|it| it.remove("namespace"));
    }
    objects.extend(rbac::roles_beside_the_manager()?);
    Ok(objects)
}

/// E.g. `quartet-operator-metrics-reader_rbac.authorization.k8s.io_v1_clusterrole.yaml`.
fn file_name(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!(
        "{}_{}_{}.yaml",
        text(&object["metadata"]["name"]),
        text(&object["apiVersion"]).replace('/', "_"),
        text(&object["kind"]).to_lowercase()
    )
}

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
    let mut files = super::below(&of_version, bundle(release)?);
    files.push(template::manifest(&ci, "olm/community_ci.yaml", &fields)?);
    let template = "olm/community_release.yaml";
    files.push(template::manifest(&config, template, &fields)?);
    Ok(files)
}

#[cfg(test)]
mod tests;
