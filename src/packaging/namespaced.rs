//! The overlay of a manager for one team: it reconciles the namespace that it runs in, by a Role.
//! What it may do in the cluster is to register its webhooks, by name.

use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::{Value, json};

use super::manager;
use super::manifest::{Manifest, ManifestError};
use super::names::{CONTAINER, DEPLOYMENT, METRICS_SERVICE, NAMESPACE, PROJECT};
use super::overlay::SELF_MANAGED;
use super::rbac;
use crate::api::Kind;
use crate::controller::rights;

const MANAGER_ROLE: &str = "manager-role";
const PATCH: &str = "manager_patch.yaml";

/// The files of `namespaced`.
pub(super) fn manifests(kinds: &[&Kind]) -> Result<Vec<Manifest>, ManifestError> {
    let rules: Vec<PolicyRule> = rights::rights(kinds);
    let removed = removed();
    let mut patches = vec![json!({ "path": PATCH })];
    patches.extend(removed.iter().map(|(kind, name)| {
        json!({
            "target": { "kind": kind, "name": name },
            "patch": format!("$patch: delete\nkind: {kind}\nmetadata:\n  name: {name}\n"),
        })
    }));
    Ok(vec![
        Manifest::object("namespaced/role.yaml", &rbac::role(MANAGER_ROLE, rules))?,
        Manifest::object(
            "namespaced/role_binding.yaml",
            &rbac::binding("manager-rolebinding", MANAGER_ROLE),
        )?,
        Manifest::object(format!("namespaced/{PATCH}"), &patch())?,
        Manifest::with_heading(
            "namespaced/kustomization.yaml",
            "# A manager for one team, in a namespace that is there already: it reconciles that\n\
             # namespace alone, by a Role. It makes its own webhook certificate, for which it may\n\
             # update the CRDs and the webhook configuration, by name; it has no other right in the\n\
             # cluster, and so serves no metrics, which need some. Another namespace is an overlay:\n\
             # namespace: team-a\n",
            &json!({
                "apiVersion": "kustomize.config.k8s.io/v1beta1",
                "kind": "Kustomization",
                "resources": [
                    "../crd",
                    "../rbac-self-managed",
                    "../webhook",
                    "../manager",
                    "role.yaml",
                    "role_binding.yaml",
                ],
                "patches": patches,
            }),
        )?,
    ])
}

/// What `default` has and this overlay does not: rights in the cluster, what serves metrics, and
/// the namespace, which must outlive the manager.
fn removed() -> [(&'static str, String); 7] {
    let ours = |name: &str| format!("{PROJECT}-{name}");
    [
        ("Namespace", NAMESPACE.to_owned()),
        ("ClusterRole", ours(MANAGER_ROLE)),
        ("ClusterRoleBinding", ours("manager-rolebinding")),
        ("ClusterRole", ours("metrics-auth-role")),
        ("ClusterRoleBinding", ours("metrics-auth-rolebinding")),
        ("ClusterRole", ours("metrics-reader")),
        ("Service", METRICS_SERVICE.to_owned()),
    ]
}

fn patch() -> Value {
    let (name, value) = SELF_MANAGED;
    // The flag wins over the variable of the same name.
    let arguments = manager::arguments().into_iter().map(|argument| {
        match argument.strip_prefix("--metrics-bind-address=") {
            Some(_) => "--metrics-bind-address=0".to_owned(),
            None => argument,
        }
    });
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": DEPLOYMENT, "namespace": NAMESPACE },
        "spec": { "template": { "spec": { "containers": [{
            "name": CONTAINER,
            "args": arguments.collect::<Vec<_>>(),
            "env": [
                { "name": name, "value": value },
                {
                    "name": "WATCH_NAMESPACE",
                    "valueFrom": { "fieldRef": { "fieldPath": "metadata.namespace" } },
                },
            ],
        }] } } },
    })
}
