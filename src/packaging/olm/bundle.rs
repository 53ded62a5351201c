//! The bundle. Used for the release, and for the rules of OLM v1's installer.

use serde_json::Value;

use super::csv;
use crate::names::PACKAGE;
use crate::packaging::kinds::kinds;
use crate::packaging::manifest::{Manifest, ManifestError};
use crate::packaging::release::Release;
use crate::packaging::{crd, rbac, template};

/// Every file of the bundle: one document per file, with operator-sdk's file names. Not included
/// are objects that OLM creates itself (webhook Service and configuration, ServiceAccounts),
/// objects whose CRDs a cluster may lack (ServiceMonitor, PrometheusRule), and the
/// NetworkPolicies, which the community catalog rejects.
pub(in crate::packaging) fn bundle(release: &Release) -> Result<Vec<Manifest>, ManifestError> {
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
pub(super) fn objects() -> Result<Vec<Value>, ManifestError> {
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
