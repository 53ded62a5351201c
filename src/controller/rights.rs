//! The requests of the controllers as RBAC rules. The packaged roles contain these rules, and the
//! audit of a whole test run compares them with the requests that were made. Data only.

use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::api::Kind;
use crate::operators::Owned;

/// The rules that controllers of these kinds need wherever they reconcile, if they own such children.
pub fn rights(kinds: &[&Kind], owned: &[Owned]) -> Vec<PolicyRule> {
    let mut rules: Vec<_> = owned.iter().map(of_child).collect();
    rules.push(rule("", "pods", &["list", "watch"]));
    rules.push(rule("events.k8s.io", "events", &["create", "patch"]));
    for kind in kinds {
        let part = |subresource: &str| format!("{}/{subresource}", kind.plural);
        // To strip a finalizer that an older operator left.
        let verbs: &[&str] = match kind.legacy_finalizers {
            [] => &["list", "watch"],
            _ => &["list", "patch", "watch"],
        };
        rules.push(rule(kind.group, kind.plural, verbs));
        rules.push(rule(kind.group, &part("status"), &["patch"]));
        // No request, but what OpenShift's OwnerReferencesPermissionEnforcement wants of who
        // makes a child whose owner reference has `blockOwnerDeletion`.
        rules.push(rule(kind.group, &part("finalizers"), &["update"]));
    }
    rules
}

fn of_child(Owned { kind, optional }: &Owned) -> PolicyRule {
    // `create` because an apply that creates needs it, `get` to see whose a name is.
    let verbs: &[&str] = match optional {
        true => &["create", "delete", "get", "list", "patch", "watch"],
        false => &["create", "get", "list", "patch", "watch"],
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
