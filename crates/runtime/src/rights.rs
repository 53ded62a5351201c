//! RBAC rules for the requests of the controllers. The packaged roles contain them, and an audit of a
//! test run compares them with the actual requests. Data only.

use k8s_openapi::api::rbac::v1::PolicyRule;

use quartet_versions::Kind;
use quartet_workload::{Legacy, Owned};

/// The rules for controllers of these kinds with these children, in each reconciled namespace.
pub fn rights(kinds: &[&Kind], owned: &[Owned], legacy: Legacy) -> Vec<PolicyRule> {
    let mut rules: Vec<_> = owned.iter().map(of_child).collect();
    rules.push(rule("", "pods", &["list", "watch"]));
    rules.push(rule("events.k8s.io", "events", &["create"]));
    for kind in kinds {
        let part = |subresource: &str| format!("{}/{subresource}", kind.plural);
        // To remove a finalizer of an older operator.
        let verbs: &[&str] = if (legacy.finalizer)(kind).is_some() {
            &["list", "patch", "watch"]
        } else {
            &["list", "watch"]
        };
        rules.push(rule(kind.group, kind.plural, verbs));
        rules.push(rule(kind.group, &part("status"), &["patch"]));
        // Not requested, but required by OpenShift's OwnerReferencesPermissionEnforcement to create a
        // child whose owner reference has `blockOwnerDeletion`.
        rules.push(rule(kind.group, &part("finalizers"), &["update"]));
    }
    rules
}

fn of_child(Owned { kind, optional }: &Owned) -> PolicyRule {
    // `create` for an apply that creates, `get` to resolve the ownership of a name.
    let verbs: &[&str] = if *optional {
        &["create", "delete", "get", "list", "patch", "watch"]
    } else {
        &["create", "get", "list", "patch", "watch"]
    };
    rule(kind.group, kind.plural, verbs)
}

fn rule(group: &str, resource: &str, verbs: &[&str]) -> PolicyRule {
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(vec![resource.to_owned()]),
        verbs: verbs.iter().map(ToString::to_string).collect(),
        ..PolicyRule::default()
    }
}
