//! What the manager may ask of the API server: the least that it needs, written out by hand
//! as the word that its requests are held against. Data only; used by the test that runs a
//! manager with these rights and by the one that reads the audit log of a whole test run.

use std::collections::BTreeSet;

use quartet_operator::operators::OPERATORS;

use crate::audit::Request;

/// API group, resource, verb.
pub(crate) type Right = (String, String, String);

/// Rights on what is not ours.
const OTHERS: &[(&str, &str, &[&str])] = &[
    ("", "pods", &["list", "watch"]),
    // `create` because an apply that creates needs it, `get` to see whose a name is.
    (
        "",
        "services",
        &["create", "delete", "get", "list", "patch", "watch"],
    ),
    (
        "apps",
        "deployments",
        &["create", "get", "list", "patch", "watch"],
    ),
    ("events.k8s.io", "events", &["create"]),
];

/// Every right that the manager has.
pub(crate) fn granted() -> BTreeSet<Right> {
    let right = |group: &str, resource: &str, verb: &str| {
        (group.to_owned(), resource.to_owned(), verb.to_owned())
    };
    let mut rights = BTreeSet::new();
    for (group, resource, verbs) in OTHERS {
        rights.extend(verbs.iter().map(|verb| right(group, resource, verb)));
    }
    for kind in OPERATORS.iter().map(|operator| operator.kind()) {
        rights.extend(["list", "watch"].map(|verb| right(kind.group, kind.plural, verb)));
        rights.insert(right(
            kind.group,
            &format!("{}/status", kind.plural),
            "patch",
        ));
        // To strip a finalizer that an older operator left.
        if !kind.legacy_finalizers.is_empty() {
            rights.insert(right(kind.group, kind.plural, "patch"));
        }
    }
    rights
}

/// The rights that a manager used in these requests.
pub(crate) fn used(requests: &[Request]) -> BTreeSet<Right> {
    let mut rights = BTreeSet::new();
    for request in requests {
        let right = |verb: &str| {
            (
                request.group.clone(),
                request.resource.clone(),
                verb.to_owned(),
            )
        };
        rights.insert(right(&request.verb));
        // The API server asks for `create` as well when an apply creates.
        if request.verb == "patch" && request.code == 201 {
            rights.insert(right("create"));
        }
    }
    rights
}
