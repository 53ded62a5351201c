//! The generated files below `config/olm-v1`, which installs from the catalog with `kubectl apply
//! -k` on a cluster with OLM v1: ClusterCatalog, ClusterExtension, and the RBAC rules of the
//! ServiceAccount that OLM v1 uses. The rules are those that the documentation of OLM v1 derives
//! from a bundle (howto/derive-service-account): to manage each object, and to grant what the
//! bundle grants.

use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::{Value, json};

use super::bundle::objects;
use super::csv::PACKAGE;
use super::subscription::CATALOG;
use crate::api::Kind;
use crate::packaging::manifest::{Manifest, ManifestError};
use crate::packaging::names::{DEPLOYMENT, NAMESPACE, PROJECT, SERVICE_ACCOUNT, WEBHOOK_SERVICE};
use crate::packaging::rbac::{self, cluster_role, role, rule};
use crate::packaging::release::Release;
use crate::packaging::webhook::validating_webhook_configuration;

const API_GROUP: &str = "olm.operatorframework.io";

/// Objects of one kind that OLM v1 creates from the bundle.
struct ObjectSet {
    group: &'static str,
    resource: &'static str,
    /// Empty if OLM v1 generates the names, from a version and a hash.
    names: Vec<String>,
}

fn object_set(group: &'static str, resource: &'static str, names: Vec<String>) -> ObjectSet {
    ObjectSet {
        group,
        resource,
        names,
    }
}

fn cluster_scoped(kinds: &[&Kind]) -> Vec<ObjectSet> {
    let crds = kinds.iter();
    let crds = crds.map(|kind| format!("{}.{}", kind.plural, kind.group));
    // OLM v1 creates a configuration for each webhook.
    let webhooks = validating_webhook_configuration(kinds).webhooks;
    let webhooks = webhooks.into_iter().flatten().map(|it| it.name);
    let rbac = "rbac.authorization.k8s.io";
    vec![
        object_set(
            "apiextensions.k8s.io",
            "customresourcedefinitions",
            crds.collect(),
        ),
        object_set(
            "admissionregistration.k8s.io",
            "validatingwebhookconfigurations",
            webhooks.collect(),
        ),
        object_set(rbac, "clusterroles", Vec::new()),
        object_set(rbac, "clusterrolebindings", Vec::new()),
    ]
}

fn namespaced(bundled: &[Value]) -> Vec<ObjectSet> {
    let names = |kind: &str| {
        let of_kind = bundled.iter().filter(|it| it["kind"] == kind);
        let names = of_kind.filter_map(|it| it["metadata"]["name"].as_str());
        names.map(ToOwned::to_owned).collect::<Vec<_>>()
    };
    let mut services = names("Service");
    services.push(WEBHOOK_SERVICE.to_owned());
    let certificate = suffixed(WEBHOOK_SERVICE, "cert");
    let issuer = suffixed(&certificate, "selfsigned-issuer");
    vec![
        object_set("", "serviceaccounts", vec![SERVICE_ACCOUNT.to_owned()]),
        object_set("", "services", services),
        object_set("apps", "deployments", vec![DEPLOYMENT.to_owned()]),
        object_set(
            "policy",
            "poddisruptionbudgets",
            names("PodDisruptionBudget"),
        ),
        object_set("cert-manager.io", "certificates", vec![certificate]),
        object_set("cert-manager.io", "issuers", vec![issuer]),
    ]
}

/// The name that OLM v1 derives from another: at most 63 characters.
fn suffixed(base: &str, suffix: &str) -> String {
    const MAX_LENGTH: usize = 63;
    let kept = base.get(..MAX_LENGTH - suffix.len() - 1).unwrap_or(base);
    format!("{kept}-{suffix}")
}

/// RBAC rules to create and manage these objects, by name if the names are known.
fn management_rules(set: &ObjectSet, unnamed: &[&str]) -> Vec<PolicyRule> {
    const MANAGE: [&str; 4] = ["delete", "get", "patch", "update"];
    let rule = |verbs: &[&str]| rule(set.group, &[set.resource], verbs);
    if set.names.is_empty() {
        return vec![rule(&[unnamed, &MANAGE].concat())];
    }
    let named = PolicyRule {
        resource_names: Some(set.names.clone()),
        ..rule(&MANAGE)
    };
    vec![rule(unnamed), named]
}

/// The rules that the bundle grants to the manager and to users; an account cannot grant rules
/// that it lacks. OLM v1 grants all rules of the manager in all namespaces, and adds the last
/// one.
fn granted_rules(kinds: &[&Kind]) -> Vec<PolicyRule> {
    let mut rules = rbac::cluster_rights(kinds);
    rules.extend(rbac::namespace_rights());
    rules.push(rule("", &["namespaces"], &["get", "list", "watch"]));
    let roles = rbac::roles_beside_the_manager(kinds);
    for rule in roles.into_iter().filter_map(|role| role.rules).flatten() {
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    rules
}

fn cluster_rules(kinds: &[&Kind], bundled: &[Value]) -> Vec<PolicyRule> {
    let mut rules = Vec::new();
    for set in cluster_scoped(kinds) {
        rules.extend(management_rules(&set, &["create", "list", "watch"]));
    }
    for set in namespaced(bundled) {
        rules.push(rule(set.group, &[set.resource], &["list", "watch"]));
    }
    // Not for a request, but required by OwnerReferencesPermissionEnforcement.
    rules.push(PolicyRule {
        resource_names: Some(vec![PACKAGE.to_owned()]),
        ..rule(API_GROUP, &["clusterextensions/finalizers"], &["update"])
    });
    rules.extend(granted_rules(kinds));
    rules
}

fn namespace_rules(bundled: &[Value]) -> Vec<PolicyRule> {
    let sets = namespaced(bundled);
    let rules = sets
        .iter()
        .flat_map(|set| management_rules(set, &["create"]));
    rules.collect()
}

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": format!("{API_GROUP}/v1"),
        "kind": kind,
        "metadata": {
            "name": name,
            "labels": {
                "app.kubernetes.io/name": PROJECT,
                "app.kubernetes.io/managed-by": "kustomize",
            },
        },
        "spec": spec,
    })
}

fn cluster_catalog(release: &Release) -> Value {
    let image = json!({
        // A floating tag: the tag of a version would never receive an upgrade.
        "ref": release.catalog_following,
        "pollIntervalMinutes": 30,
    });
    let spec = json!({ "source": { "type": "Image", "image": image } });
    object("ClusterCatalog", CATALOG, &spec)
}

fn cluster_extension(release: &Release) -> Value {
    let catalog = json!({
        "packageName": PACKAGE,
        "channels": [release.default_channel],
        // Excludes a package of the same name in another catalog.
        "selector": { "matchLabels": { "olm.operatorframework.io/metadata.name": CATALOG } },
    });
    let spec = json!({
        "namespace": NAMESPACE,
        "serviceAccount": { "name": format!("{PROJECT}-installer") },
        "source": { "sourceType": "Catalog", "catalog": catalog },
    });
    object("ClusterExtension", PACKAGE, &spec)
}

/// The generated files.
pub(super) fn manifests(
    kinds: &[&Kind],
    release: &Release,
) -> Result<Vec<Manifest>, ManifestError> {
    let bundled = objects(kinds)?;
    let file = |name: &str| format!("olm-v1/{name}.yaml");
    let cluster_role = cluster_role("installer", cluster_rules(kinds, &bundled));
    let role = role("installer", namespace_rules(&bundled));
    Ok(vec![
        Manifest::object(file("cluster_catalog"), &cluster_catalog(release))?,
        Manifest::object(file("cluster_extension"), &cluster_extension(release))?,
        Manifest::object(file("cluster_role"), &cluster_role)?,
        Manifest::object(file("role"), &role)?,
    ])
}
