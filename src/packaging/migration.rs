//! The generated files below `config/migrate-storage`, a Job that runs `manager migrate-storage`
//! with its own ServiceAccount: its RBAC rules and its image.

use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::json;

use super::manager::patch;
use super::manifest::{Manifest, ManifestError};
use super::names::CONTAINER;
use super::rbac::{cluster_role, rule};
use super::release::Release;
use crate::api::Kind;

/// Name of the Job, its ServiceAccount, role and binding, without the prefix of the project.
const NAME: &str = "storage-migration";
const JOB: &str = "quartet-operator-storage-migration";

/// The rules for the requests of `src/migration/calls.rs`. A test runs the migration with these
/// rules only.
fn rules(kinds: &[&Kind]) -> Vec<PolicyRule> {
    let crds = |resource: &str, verb: &str| PolicyRule {
        resource_names: Some(
            kinds
                .iter()
                .map(|kind| format!("{}.{}", kind.plural, kind.group))
                .collect(),
        ),
        ..rule("apiextensions.k8s.io", &[resource], &[verb])
    };
    let mut rules = vec![
        crds("customresourcedefinitions", "get"),
        crds("customresourcedefinitions/status", "patch"),
    ];
    for kind in kinds {
        let status = format!("{}/status", kind.plural);
        rules.push(rule(kind.group, &[kind.plural], &["get", "list"]));
        rules.push(rule(kind.group, &[&status], &["patch"]));
    }
    rules
}

/// Its role and its image.
pub(super) fn manifests(
    kinds: &[&Kind],
    release: &Release,
) -> Result<Vec<Manifest>, ManifestError> {
    let pod = json!({ "containers": [{ "name": CONTAINER, "image": release.image }] });
    Ok(vec![
        Manifest::object(
            "migrate-storage/role.yaml",
            &cluster_role(NAME, rules(kinds)),
        )?,
        Manifest::object(
            "migrate-storage/release_patch.yaml",
            &patch("batch/v1", "Job", JOB, &pod),
        )?,
    ])
}
