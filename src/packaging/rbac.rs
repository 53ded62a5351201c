//! RBAC: the manager's roles in two profiles, those for metrics and leader election, and roles
//! for users, with the names and files of a kubebuilder scaffold.
//!
//! *core* (`rbac`) is sufficient if another program creates the webhook certificate;
//! *self-managed* (`rbac-self-managed`) adds the rules for `--cert-mode=self-managed`. The rules
//! themselves are defined next to the code that makes the requests; an additional kind needs no
//! change here.

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::crd::kustomization;
use super::manifest::{Manifest, ManifestError};
use super::names::{LEASE, METRICS_PATH, NAMESPACE, PROJECT, SERVICE_ACCOUNT};
use super::webhook::{has_scale, registered};
use crate::api::Kind;
use crate::certificates::{SECRET, registered_rights, secret_rights};
use crate::controller::rights;
use crate::operators::{OPERATORS, owned_by};

const API_GROUP: &str = "rbac.authorization.k8s.io";

/// Rules for the Lease of the leader election, in the manager's own namespace.
fn leader_election_rights() -> Vec<PolicyRule> {
    let leases = |verbs: &[&str]| rule("coordination.k8s.io", &["leases"], verbs);
    vec![
        // RBAC cannot restrict `create` to a name.
        leases(&["create"]),
        PolicyRule {
            resource_names: Some(vec![LEASE.to_owned()]),
            ..leases(&["get", "list", "watch", "update"])
        },
    ]
}

/// Rules for authentication and authorization of clients of the metrics, by the API server.
fn metrics_auth_rights() -> Vec<PolicyRule> {
    vec![
        rule("authentication.k8s.io", &["tokenreviews"], &["create"]),
        rule(
            "authorization.k8s.io",
            &["subjectaccessreviews"],
            &["create"],
        ),
    ]
}

/// Rules of the controllers, wherever they reconcile.
fn controller_rights(kinds: &[&Kind]) -> Vec<PolicyRule> {
    rights::rights(kinds, &owned_by(OPERATORS))
}

/// Cluster-wide rules of the manager if another program creates the webhook certificate.
pub(super) fn cluster_rights(kinds: &[&Kind]) -> Vec<PolicyRule> {
    let mut rules = controller_rights(kinds);
    rules.extend(metrics_auth_rights());
    rules
}

/// Additional rules in its own namespace.
pub(super) fn namespace_rights() -> Vec<PolicyRule> {
    leader_election_rights()
}

/// The roles of others: to read the metrics, and for users.
pub(super) fn roles_beside_the_manager(kinds: &[&Kind]) -> Vec<ClusterRole> {
    let people = of_people(kinds).into_iter().map(|(_, role)| role);
    [metrics_reader()].into_iter().chain(people).collect()
}

fn metrics_reader() -> ClusterRole {
    let reader = PolicyRule {
        non_resource_urls: Some(vec![METRICS_PATH.to_owned()]),
        verbs: vec!["get".to_owned()],
        ..PolicyRule::default()
    };
    cluster_role("metrics-reader", vec![reader])
}

/// The rules for users of a kind, by the built-in role (view, edit or admin) that they are added
/// to.
fn rights_of_people(kind: &Kind, role: &str) -> Vec<PolicyRule> {
    let viewing: &[&str] = &["get", "list", "watch"];
    let editing: &[&str] = &[
        "create", "delete", "get", "list", "patch", "update", "watch",
    ];
    let (verbs, scaling): (_, &[&str]) = match role {
        "view" => (viewing, &["get"]),
        "edit" => (editing, &["get", "patch", "update"]),
        _ => (&["*"] as &[&str], &["*"]),
    };
    let part = |subresource: &str| format!("{}/{subresource}", kind.plural);
    let mut rules = vec![
        rule(kind.group, &[kind.plural], verbs),
        rule(kind.group, &[&part("status")], &["get"]),
    ];
    if has_scale(&kind.spoke) || has_scale(&kind.hub) {
        rules.push(rule(kind.group, &[&part("scale")], scaling));
    }
    rules
}

pub(super) fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> PolicyRule {
    let owned = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(owned(resources)),
        verbs: owned(verbs),
        ..PolicyRule::default()
    }
}

/// Metadata of an object named `quartet-operator-<name>`.
fn metadata(name: &str, namespace: Option<&str>) -> ObjectMeta {
    let labels = [
        ("app.kubernetes.io/managed-by", "kustomize"),
        ("app.kubernetes.io/name", PROJECT),
    ];
    ObjectMeta {
        name: Some(format!("{PROJECT}-{name}")),
        namespace: namespace.map(ToOwned::to_owned),
        labels: Some(
            labels
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
        ),
        ..ObjectMeta::default()
    }
}

pub(super) fn cluster_role(name: &str, rules: Vec<PolicyRule>) -> ClusterRole {
    ClusterRole {
        metadata: metadata(name, None),
        rules: Some(rules),
        ..ClusterRole::default()
    }
}

pub(super) fn role(name: &str, rules: Vec<PolicyRule>) -> Role {
    Role {
        metadata: metadata(name, Some(NAMESPACE)),
        rules: Some(rules),
    }
}

fn role_ref(kind: &str, role: &str) -> RoleRef {
    RoleRef {
        api_group: API_GROUP.to_owned(),
        kind: kind.to_owned(),
        name: format!("{PROJECT}-{role}"),
    }
}

fn manager() -> Option<Vec<Subject>> {
    Some(vec![Subject {
        kind: "ServiceAccount".to_owned(),
        name: SERVICE_ACCOUNT.to_owned(),
        namespace: Some(NAMESPACE.to_owned()),
        ..Subject::default()
    }])
}

fn cluster_binding(name: &str, role: &str) -> ClusterRoleBinding {
    ClusterRoleBinding {
        metadata: metadata(name, None),
        role_ref: role_ref("ClusterRole", role),
        subjects: manager(),
    }
}

fn binding(name: &str, role: &str) -> RoleBinding {
    RoleBinding {
        metadata: metadata(name, Some(NAMESPACE)),
        role_ref: role_ref("Role", role),
        subjects: manager(),
    }
}

/// The files of `rbac` and `rbac-self-managed`, and the rights of `namespaced`.
pub(super) fn manifests(kinds: &[&Kind]) -> Result<Vec<Manifest>, ManifestError> {
    let mut core = core(kinds)?;
    for (file, role) in of_people(kinds) {
        core.push(Manifest::object(file, &role)?);
    }
    core.push(kustomization(
        "rbac/kustomization.yaml",
        "# Rules of the manager if another program creates the webhook certificate, and roles for\n\
         # users, which are aggregated to the cluster roles view, edit and admin.\n",
        &file_names(&core),
    )?);
    let mut more = self_managed(kinds)?;
    let mut resources = vec!["../rbac".to_owned()];
    resources.extend(file_names(&more));
    more.push(kustomization(
        "rbac-self-managed/kustomization.yaml",
        "# config/rbac, and the additional rules for --cert-mode=self-managed.\n",
        &resources,
    )?);
    core.extend(more);
    core.extend(namespaced(kinds)?);
    Ok(core)
}

/// The rules of a manager for one team: those of `rbac`, in its own namespace only.
fn namespaced(kinds: &[&Kind]) -> Result<[Manifest; 2], ManifestError> {
    let (file, rules) = ("namespaced/role.yaml", controller_rights(kinds));
    let bound = binding("manager-rolebinding", "manager-role");
    Ok([
        Manifest::object(file, &role("manager-role", rules))?,
        Manifest::object("namespaced/role_binding.yaml", &bound)?,
    ])
}

fn file_names(manifests: &[Manifest]) -> Vec<String> {
    let names = manifests
        .iter()
        .filter_map(|manifest| manifest.path.file_name()?.to_str());
    names.map(ToOwned::to_owned).collect()
}

fn core(kinds: &[&Kind]) -> Result<Vec<Manifest>, ManifestError> {
    let account = ServiceAccount {
        metadata: metadata("controller-manager", Some(NAMESPACE)),
        ..ServiceAccount::default()
    };
    let (lead, ask) = ("leader-election-role", "metrics-auth-role");
    let file = |name: &str| format!("rbac/{name}.yaml");
    Ok(vec![
        Manifest::object(file("service_account"), &account)?,
        Manifest::object(
            file("role"),
            &cluster_role("manager-role", controller_rights(kinds)),
        )?,
        Manifest::object(
            file("role_binding"),
            &cluster_binding("manager-rolebinding", "manager-role"),
        )?,
        Manifest::object(
            file("leader_election_role"),
            &role(lead, leader_election_rights()),
        )?,
        Manifest::object(
            file("leader_election_role_binding"),
            &binding("leader-election-rolebinding", lead),
        )?,
        Manifest::object(
            file("metrics_auth_role"),
            &cluster_role(ask, metrics_auth_rights()),
        )?,
        Manifest::object(
            file("metrics_auth_role_binding"),
            &cluster_binding("metrics-auth-rolebinding", ask),
        )?,
        Manifest::object(file("metrics_reader_role"), &metrics_reader())?,
    ])
}

/// The roles for users, each with its file.
fn of_people(kinds: &[&Kind]) -> Vec<(String, ClusterRole)> {
    let mut roles = Vec::new();
    for kind in kinds {
        for (person, built_in) in [("admin", "admin"), ("editor", "edit"), ("viewer", "view")] {
            let name = kind.controller_name();
            let mut role = cluster_role(
                &format!("{name}-{person}-role"),
                rights_of_people(kind, built_in),
            );
            let aggregated = format!("{API_GROUP}/aggregate-to-{built_in}");
            let labels = role.metadata.labels.get_or_insert_default();
            labels.insert(aggregated, "true".to_owned());
            roles.push((format!("rbac/{name}_{person}_role.yaml"), role));
        }
    }
    roles
}

fn self_managed(kinds: &[&Kind]) -> Result<Vec<Manifest>, ManifestError> {
    let (named, secret) = ("webhook-registration-role", "webhook-certificate-role");
    let file = |name: &str| format!("rbac-self-managed/{name}.yaml");
    let registered = registered_rights(&registered(kinds));
    Ok(vec![
        Manifest::object(
            file("webhook_registration_role"),
            &cluster_role(named, registered),
        )?,
        Manifest::object(
            file("webhook_registration_role_binding"),
            &cluster_binding("webhook-registration-rolebinding", named),
        )?,
        Manifest::object(
            file("webhook_certificate_role"),
            &role(secret, secret_rights(SECRET)),
        )?,
        Manifest::object(
            file("webhook_certificate_role_binding"),
            &binding("webhook-certificate-rolebinding", secret),
        )?,
    ])
}
