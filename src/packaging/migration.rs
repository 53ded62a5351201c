//! `config/migrate-storage`: a Job that runs `manager migrate-storage` with an account of its own.
//! The image has no shell, and the manager's account may not write what the migration writes.
#![allow(clippy::indexing_slicing, reason = "fields of JSON literals, in the generator alone")]

use serde_json::{Value, json};

use super::crd::kustomization;
use super::manifest::{Manifest, ManifestError};
use super::metadata::metadata;
use super::names::{CONTAINER, NAMESPACE};
use super::release::Release;
use crate::api::Kind;

/// The Job, its account, role and binding.
const NAME: &str = "quartet-operator-storage-migration";

/// The requests of `src/migration/calls.rs`. A test runs the migration with them and no more.
fn rules(kinds: &[&Kind]) -> Vec<Value> {
    let rule = |group: &str, resource: &str, names: Option<&[String]>, verbs: &[&str]| {
        let mut rule = json!({ "apiGroups": [group], "resources": [resource], "verbs": verbs });
        if let Some(names) = names {
            rule["resourceNames"] = json!(names);
        }
        rule
    };
    let crds: Vec<String> = kinds
        .iter()
        .map(|kind| format!("{}.{}", kind.plural, kind.group))
        .collect();
    let (group, crd) = ("apiextensions.k8s.io", "customresourcedefinitions");
    let mut rules = vec![
        rule(group, crd, Some(&crds), &["get"]),
        rule(group, &format!("{crd}/status"), Some(&crds), &["patch"]),
    ];
    for kind in kinds {
        let status = format!("{}/status", kind.plural);
        rules.push(rule(kind.group, kind.plural, None, &["get", "list"]));
        rules.push(rule(kind.group, &status, None, &["patch"]));
    }
    rules
}

fn job(release: &Release) -> Value {
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata(NAME, Some(NAMESPACE)),
        "spec": {
            // It may be begun again at any time.
            "backoffLimit": 5,
            "template": {
                "spec": {
                    "serviceAccountName": NAME,
                    "restartPolicy": "Never",
                    "securityContext": {
                        "runAsNonRoot": true,
                        "seccompProfile": { "type": "RuntimeDefault" },
                    },
                    "containers": [{
                        "name": CONTAINER,
                        "image": release.image,
                        "args": ["migrate-storage"],
                        "resources": { "requests": { "cpu": "10m", "memory": "64Mi" } },
                        "securityContext": {
                            "allowPrivilegeEscalation": false,
                            "capabilities": { "drop": ["ALL"] },
                            "readOnlyRootFilesystem": true,
                        },
                    }],
                },
            },
        },
    })
}

/// The files of `migrate-storage`.
pub(super) fn manifests(
    kinds: &[&Kind],
    release: &Release,
) -> Result<Vec<Manifest>, ManifestError> {
    const RBAC: &str = "rbac.authorization.k8s.io";
    let objects = [
        (
            "service_account.yaml",
            json!({
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": metadata(NAME, Some(NAMESPACE)),
            }),
        ),
        (
            "role.yaml",
            json!({
                "apiVersion": format!("{RBAC}/v1"),
                "kind": "ClusterRole",
                "metadata": metadata(NAME, None),
                "rules": rules(kinds),
            }),
        ),
        (
            "role_binding.yaml",
            json!({
                "apiVersion": format!("{RBAC}/v1"),
                "kind": "ClusterRoleBinding",
                "metadata": metadata(NAME, None),
                "roleRef": { "apiGroup": RBAC, "kind": "ClusterRole", "name": NAME },
                "subjects": [{ "kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE }],
            }),
        ),
        ("job.yaml", job(release)),
    ];
    let mut manifests = Vec::new();
    for (file, object) in &objects {
        manifests.push(Manifest::object(format!("migrate-storage/{file}"), object)?);
    }
    manifests.push(kustomization(
        "migrate-storage/kustomization.yaml",
        "# `manager migrate-storage` as a Job, beside a manager that runs: apply it, wait for it, delete\n\
         # it. Its rights are needed for that long only.\n",
        &objects.map(|(file, _)| file.to_owned()),
    )?);
    Ok(manifests)
}
