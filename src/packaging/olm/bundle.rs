//! The bundle: the ClusterServiceVersion, the CRDs, and the few other objects that OLM creates
//! unchanged; one document per file, with operator-sdk's file names. Not included are objects
//! that OLM creates itself (webhook Service and configuration, ServiceAccounts), objects whose
//! CRDs a cluster may lack (ServiceMonitor, PrometheusRule), and the NetworkPolicies, which the
//! community catalog rejects.

use std::path::Path;

use serde_json::{Value, json};

use super::csv::{OLDEST_OPENSHIFT, PACKAGE, csv};
use crate::api::Kind;
use crate::packaging::by_hand;
use crate::packaging::crd;
use crate::packaging::manifest::{Manifest, ManifestError};
use crate::packaging::rbac;
use crate::packaging::release::Release;

/// The configuration of scorecard, as operator-sdk writes it.
const SCORECARD: &str = include_str!("scorecard.yaml");
const SCORECARD_FOLDER: &str = "tests/scorecard";

/// Every file of the bundle, below its directory.
///
/// # Errors
/// A type has no YAML form, which a test excludes.
pub fn files(kinds: &[&Kind], release: &Release) -> Result<Vec<Manifest>, ManifestError> {
    let csv = csv(kinds, release)?;
    let mut files = vec![Manifest::object(
        format!("manifests/{PACKAGE}.clusterserviceversion.yaml"),
        &csv,
    )?];
    for kind in kinds {
        files.push(Manifest::object(
            format!("manifests/{}_{}.yaml", kind.group, kind.plural),
            &crd::both_versions(kind),
        )?);
    }
    for object in objects(kinds)? {
        files.push(Manifest::object(
            format!("manifests/{}", file_name(&object)),
            &object,
        )?);
    }
    let labels = labels(release);
    let labels: serde_json::Map<_, _> = labels
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.into()))
        .collect();
    files.push(Manifest::object(
        "metadata/annotations.yaml",
        &json!({ "annotations": labels }),
    )?);
    files.push(Manifest {
        path: format!("{SCORECARD_FOLDER}/config.yaml").into(),
        text: SCORECARD.to_owned(),
    });
    Ok(files)
}

/// The objects of the bundle except the ClusterServiceVersion and the CRDs.
///
/// # Errors
/// A hand-written file is not YAML.
pub(super) fn objects(kinds: &[&Kind]) -> Result<Vec<Value>, ManifestError> {
    let mut objects = vec![
        by_hand::object(by_hand::METRICS_SERVICE)?,
        by_hand::object(by_hand::DISRUPTION_BUDGET)?,
    ];
    // OLM sets the namespace.
    for metadata in objects.iter_mut().map(|it| &mut it["metadata"]) {
        metadata.as_object_mut().map(|it| it.remove("namespace"));
    }
    let roles = rbac::roles_beside_the_manager(kinds);
    objects.extend(roles.iter().map(|it| json!(it)));
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

/// Properties of the bundle, as annotations of its directory and as labels of its image.
fn labels(release: &Release) -> Vec<(&'static str, String)> {
    let text = ToOwned::to_owned;
    vec![
        (
            "operators.operatorframework.io.bundle.mediatype.v1",
            text("registry+v1"),
        ),
        (
            "operators.operatorframework.io.bundle.manifests.v1",
            text("manifests/"),
        ),
        (
            "operators.operatorframework.io.bundle.metadata.v1",
            text("metadata/"),
        ),
        (
            "operators.operatorframework.io.bundle.package.v1",
            text(PACKAGE),
        ),
        (
            "operators.operatorframework.io.bundle.channels.v1",
            release.channels.join(","),
        ),
        (
            "operators.operatorframework.io.bundle.channel.default.v1",
            release.default_channel.clone(),
        ),
        (
            "operators.operatorframework.io.test.mediatype.v1",
            text("scorecard+v1"),
        ),
        (
            "operators.operatorframework.io.test.config.v1",
            format!("{SCORECARD_FOLDER}/"),
        ),
        ("com.redhat.openshift.versions", text(OLDEST_OPENSHIFT)),
    ]
}

/// The Dockerfile of the bundle in the directory `folder`. The build context is the parent of the
/// directory.
pub fn dockerfile(folder: &Path, release: &Release) -> Manifest {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let labels = labels(release);
    let labels = labels
        .iter()
        .map(|(key, value)| format!("LABEL {key}={value}\n"));
    let text = format!(
        "# The image of the bundle: its files, and labels with its metadata.\n\
         FROM scratch\n\n\
         {}\n\
         COPY {name}/manifests /manifests/\n\
         COPY {name}/metadata /metadata/\n\
         COPY {name}/{SCORECARD_FOLDER} /{SCORECARD_FOLDER}/\n",
        labels.collect::<String>()
    );
    Manifest {
        path: format!("{name}.Dockerfile").into(),
        text,
    }
}
