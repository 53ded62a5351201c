//! What `--cert-mode=self-managed` asks of the API server, as RBAC rules. Data only.

use k8s_openapi::api::rbac::v1::PolicyRule;

use super::objects::Registered;

/// Reading and replacing what is there, by its name.
const OWN: [&str; 4] = ["get", "list", "watch", "update"];

/// What the replicas need in their own namespace: the Secret `name`.
pub fn secret_rights(name: &str) -> Vec<PolicyRule> {
    vec![
        // A name cannot be required of what does not exist yet.
        rule("", "secrets", None, &["create"]),
        rule("", "secrets", Some(name), &OWN),
    ]
}

/// What they need in the cluster: the objects that carry the caBundle, each by its name, and
/// never to create or patch one.
pub fn registered_rights(registered: &[Registered]) -> Vec<PolicyRule> {
    let places = registered.iter().map(Registered::place);
    places
        .map(|place| rule(place.group, place.plural, Some(&place.name), &OWN))
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
