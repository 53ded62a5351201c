//! RBAC rules that follow from the code: of the manager in two profiles, of the storage migration,
//! and for users. Their roles are templates, with the names and files of a kubebuilder scaffold;
//! bindings and the other roles are hand-written files of `config`.
//!
//! *core* (`rbac`) is sufficient if another program creates the webhook certificate;
//! *self-managed* (`rbac-self-managed`) adds the rules for `--cert-mode=self-managed`. The rules
//! themselves are defined next to the code that makes the requests; an additional kind needs no
//! change here.

use serde_json::{Value, json};

use super::crd::kustomization;
use super::kinds::{crd_names, kinds};
use super::manifest::{Manifest, ManifestError};
use super::template;
use crate::controller::rights;
use crate::kinds::OPERATORS;
use crate::names::{PROJECT, WEBHOOK_CONFIGURATION, WEBHOOK_SECRET};
use crate::operators::owned_by;
use quartet_certificates::{registered, registered_rights, secret_rights};
use quartet_versions::Kind;

/// The resources of `rbac`, before the roles for users.
const CORE: [&str; 8] = [
    "service_account.yaml",
    "role.yaml",
    "role_binding.yaml",
    "leader_election_role.yaml",
    "leader_election_role_binding.yaml",
    "metrics_auth_role.yaml",
    "metrics_auth_role_binding.yaml",
    "metrics_reader_role.yaml",
];

/// Rules of the controllers, wherever they reconcile.
fn controller_rules() -> Vec<Value> {
    values(rights::rights(&kinds(), &owned_by(OPERATORS)))
}

/// Cluster-wide rules of the manager if another program creates the webhook certificate.
///
/// # Errors
/// A file of `config` cannot be read.
pub(super) fn cluster_rules() -> Result<Vec<Value>, ManifestError> {
    let mut rules = controller_rules();
    rules.extend(rules_in("rbac/metrics_auth_role.yaml")?);
    Ok(rules)
}

/// Additional rules in its own namespace.
///
/// # Errors
/// A file of `config` cannot be read.
pub(super) fn namespace_rules() -> Result<Vec<Value>, ManifestError> {
    rules_in("rbac/leader_election_role.yaml")
}

fn rules_in(path: &str) -> Result<Vec<Value>, ManifestError> {
    let role = template::config(path)?;
    Ok(role["rules"].as_array().cloned().unwrap_or_default())
}

/// The roles of others: to read the metrics, and for users.
///
/// # Errors
/// A file of `config` or a template cannot be read.
pub(super) fn roles_beside_the_manager() -> Result<Vec<Value>, ManifestError> {
    let mut roles = vec![template::config("rbac/metrics_reader_role.yaml")?];
    roles.extend(user_roles()?.into_iter().map(|(_, role)| role));
    Ok(roles)
}

/// The roles for users, each with its file in `rbac`.
fn user_roles() -> Result<Vec<(String, Value)>, ManifestError> {
    let mut roles = Vec::new();
    for kind in kinds() {
        for (person, built_in) in [("admin", "admin"), ("editor", "edit"), ("viewer", "view")] {
            let name = kind.controller_name();
            let mut labels = json!({
                "app.kubernetes.io/name": PROJECT,
                "app.kubernetes.io/managed-by": "kustomize",
            });
            labels[format!("rbac.authorization.k8s.io/aggregate-to-{built_in}")] = "true".into();
            let fields = json!({
                "NAME": format!("{name}-{person}-role"),
                "LABELS": labels,
                "RULES": user_rules(kind, built_in),
            });
            let role = template::object("rbac/user_role.yaml", &fields)?;
            roles.push((format!("{name}_{person}_role.yaml"), role));
        }
    }
    Ok(roles)
}

fn user_rules(kind: &Kind, built_in: &str) -> Vec<Value> {
    let edit = [
        "create", "delete", "get", "list", "patch", "update", "watch",
    ];
    let (verbs, scaling): (&[&str], &[&str]) = match built_in {
        "view" => (&["get", "list", "watch"], &["get"]),
        "edit" => (&edit, &["get", "patch", "update"]),
        _ => (&["*"], &["*"]),
    };
    let part = |subresource: &str| format!("{}/{subresource}", kind.plural);
    let mut rules = vec![
        rule(kind.group, kind.plural, verbs),
        rule(kind.group, &part("status"), &["get"]),
    ];
    if kind.spoke.has_scale() || kind.hub.has_scale() {
        rules.push(rule(kind.group, &part("scale"), scaling));
    }
    rules
}

/// The rules for the requests of `src/migration`. A test runs the migration with these
/// rules only.
fn migration_rules() -> Vec<Value> {
    let crds = |resource, verb| named(rule("apiextensions.k8s.io", resource, &[verb]), crd_names());
    let mut rules = vec![
        crds("customresourcedefinitions", "get"),
        crds("customresourcedefinitions/status", "patch"),
    ];
    for kind in kinds() {
        let status = format!("{}/status", kind.plural);
        rules.push(rule(kind.group, kind.plural, &["list"]));
        rules.push(rule(kind.group, &status, &["patch"]));
    }
    rules
}

/// A rule for all objects of a resource.
pub(super) fn rule(group: &str, resource: &str, verbs: &[&str]) -> Value {
    json!({ "apiGroups": [group], "resources": [resource], "verbs": verbs })
}

/// `rule` for the objects with these names.
pub(super) fn named(mut rule: Value, names: Vec<String>) -> Value {
    rule["resourceNames"] = names.into();
    rule
}

fn values(rules: impl IntoIterator<Item = impl serde::Serialize>) -> Vec<Value> {
    rules.into_iter().map(|rule| json!(rule)).collect()
}

/// The rules of the roles with a template, by placeholder.
pub(super) fn rules() -> [(&'static str, Vec<Value>); 4] {
    let registration = registered_rights(&registered(crd_names(), WEBHOOK_CONFIGURATION));
    [
        ("CONTROLLER_RULES", controller_rules()),
        ("REGISTRATION_RULES", values(registration)),
        ("CERTIFICATE_RULES", values(secret_rights(WEBHOOK_SECRET))),
        ("MIGRATION_RULES", migration_rules()),
    ]
}

/// The roles for users, and the list of all files of `rbac`.
pub(super) fn user_manifests() -> Result<Vec<Manifest>, ManifestError> {
    let mut manifests = Vec::new();
    let mut resources = CORE.map(ToOwned::to_owned).to_vec();
    for (file, role) in user_roles()? {
        manifests.push(Manifest::object(format!("rbac/{file}"), &role)?);
        resources.push(file);
    }
    manifests.push(kustomization(
        "rbac/kustomization.yaml",
        "# Rules of the manager if another program creates the webhook certificate, and roles for\n\
         # users, which are aggregated to the cluster roles view, edit and admin.\n",
        &resources,
    )?);
    Ok(manifests)
}
