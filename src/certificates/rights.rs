//! RBAC rules of `--cert-mode=self-managed`. Data only.

use k8s_openapi::api::rbac::v1::PolicyRule;

use super::objects::Registered;

/// Read and update existing objects, by name.
const OWN: [&str; 4] = ["get", "list", "watch", "update"];

/// Rules for the replicas' own namespace: the Secret `name`.
pub fn secret_rights(name: &str) -> Vec<PolicyRule> {
    vec![
        // RBAC cannot restrict create by name.
        rule("", "secrets", None, &["create"]),
        rule("", "secrets", Some(name), &OWN),
    ]
}

/// Cluster-wide rules: read and update the objects with a caBundle, each by name, without create and
/// patch.
pub fn registered_rights(registered: &[Registered]) -> Vec<PolicyRule> {
    let objects = registered.iter().map(Registered::object_ref);
    objects
        .map(|at| rule(&at.dyntype.group, &at.dyntype.plural, Some(&at.name), &OWN))
        .collect()
}

fn rule(group: &str, resource: &str, name: Option<&str>, verbs: &[&str]) -> PolicyRule {
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(vec![resource.to_owned()]),
        resource_names: name.map(|name| vec![name.to_owned()]),
        verbs: verbs.iter().map(ToString::to_string).collect(),
        ..PolicyRule::default()
    }
}
