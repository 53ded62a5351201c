//! The rules of the roles in `config/olm-v1`, of the ServiceAccount that OLM v1 installs with. The
//! rules are those that the documentation of OLM v1 derives from a bundle
//! (howto/derive-service-account): to manage each object, and to grant what the bundle grants.

use serde_json::Value;

use super::bundle::objects;
use crate::names::{DEPLOYMENT, PACKAGE, SERVICE_ACCOUNT, WEBHOOK_SERVICE};
use crate::packaging::kinds::{crd_names, kinds};
use crate::packaging::manifest::ManifestError;
use crate::packaging::rbac::{self, named, rule};
use crate::packaging::webhook::validating_webhook_configuration;

/// Objects of one type that OLM v1 creates from the bundle: group, resource and names. Without
/// names if OLM v1 generates them, from a version and a hash.
type ObjectSet = (&'static str, &'static str, Vec<String>);

fn cluster_scoped() -> [ObjectSet; 4] {
    // OLM v1 creates a configuration for each webhook.
    let webhooks = validating_webhook_configuration(&kinds()).webhooks;
    let webhooks = webhooks.into_iter().flatten().map(|it| it.name).collect();
    let (crds, rbac) = ("customresourcedefinitions", "rbac.authorization.k8s.io");
    let configurations = "validatingwebhookconfigurations";
    [
        ("apiextensions.k8s.io", crds, crd_names()),
        ("admissionregistration.k8s.io", configurations, webhooks),
        (rbac, "clusterroles", Vec::new()),
        (rbac, "clusterrolebindings", Vec::new()),
    ]
}

fn namespaced(bundled: &[Value]) -> [ObjectSet; 6] {
    let names = |kind: &str| -> Vec<String> {
        let of_kind = bundled.iter().filter(|it| it["kind"] == kind);
        let names = of_kind.filter_map(|it| it["metadata"]["name"].as_str());
        names.map(ToOwned::to_owned).collect()
    };
    let mut services = names("Service");
    services.push(WEBHOOK_SERVICE.to_owned());
    let certificate = suffixed(WEBHOOK_SERVICE, "cert");
    let issuer = suffixed(&certificate, "selfsigned-issuer");
    let budgets = names("PodDisruptionBudget");
    [
        ("", "serviceaccounts", vec![SERVICE_ACCOUNT.to_owned()]),
        ("", "services", services),
        ("apps", "deployments", vec![DEPLOYMENT.to_owned()]),
        ("policy", "poddisruptionbudgets", budgets),
        ("cert-manager.io", "certificates", vec![certificate]),
        ("cert-manager.io", "issuers", vec![issuer]),
    ]
}

/// The name that OLM v1 derives from another: at most 63 characters.
fn suffixed(base: &str, suffix: &str) -> String {
    const MAX_LENGTH: usize = 63;
    let kept = base.get(..MAX_LENGTH - suffix.len() - 1).unwrap_or(base);
    format!("{kept}-{suffix}")
}

/// RBAC rules to create and manage these objects, by name if the names are known.
fn management_rules((group, resource, names): ObjectSet, unnamed: &[&str]) -> Vec<Value> {
    const MANAGE: [&str; 4] = ["delete", "get", "patch", "update"];
    if names.is_empty() {
        return vec![rule(group, resource, &[unnamed, &MANAGE].concat())];
    }
    vec![
        rule(group, resource, unnamed),
        named(rule(group, resource, &MANAGE), names),
    ]
}

/// The rules that the bundle grants to the manager and to users; an account cannot grant rules
/// that it lacks. OLM v1 grants all rules of the manager in all namespaces, and adds the last
/// one.
fn granted_rules(bundled: &[Value]) -> Result<Vec<Value>, ManifestError> {
    let mut rules = rbac::cluster_rules()?;
    rules.extend(rbac::namespace_rules()?);
    rules.push(rule("", "namespaces", &["get", "list", "watch"]));
    for rule in bundled
        .iter()
        .filter_map(|it| it["rules"].as_array())
        .flatten()
    {
        if !rules.contains(rule) {
            rules.push(rule.clone());
        }
    }
    Ok(rules)
}

fn cluster_rules(bundled: &[Value]) -> Result<Vec<Value>, ManifestError> {
    let mut rules = Vec::new();
    for set in cluster_scoped() {
        rules.extend(management_rules(set, &["create", "list", "watch"]));
    }
    for (group, resource, _) in namespaced(bundled) {
        rules.push(rule(group, resource, &["list", "watch"]));
    }
    // Not for a request, but required by OwnerReferencesPermissionEnforcement.
    let finalizers = "clusterextensions/finalizers";
    let finalizers = rule("olm.operatorframework.io", finalizers, &["update"]);
    rules.push(named(finalizers, vec![PACKAGE.to_owned()]));
    rules.extend(granted_rules(bundled)?);
    Ok(rules)
}

/// The rules of its ClusterRole, and of its Role in the namespace of the manager, by placeholder.
pub(in crate::packaging) fn installer_rules()
-> Result<[(&'static str, Vec<Value>); 2], ManifestError> {
    let bundled = objects()?;
    let sets = namespaced(&bundled).into_iter();
    let namespace_rules = sets.flat_map(|set| management_rules(set, &["create"]));
    Ok([
        ("INSTALLER_CLUSTER_RULES", cluster_rules(&bundled)?),
        ("INSTALLER_RULES", namespace_rules.collect()),
    ])
}
