//! The permissions of the manager in the generated roles, and the permissions that requests need.
//! Reads files only. Used by the tests that run a manager with these roles and by the test that
//! reads the audit log of a whole test run.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use quartet_operator::kinds::OPERATORS;
use quartet_operator::legacy::LEGACY;
use quartet_runtime::rights;
use quartet_workload::{Operator, owned_by};
use serde_json::Value;

use testkit::{Request, is_original};

/// API group, resource, verb.
pub(crate) type Right = (String, String, String);

/// The roles of the manager, below `config`.
pub(crate) const CORE: &[&str] = &[
    "rbac/role.yaml",
    "rbac/leader_election_role.yaml",
    METRICS_AUTH,
];

/// SubjectAccessReviews for readers of the metrics; these reviews have no namespace.
pub(crate) const METRICS_AUTH: &str = "rbac/metrics_auth_role.yaml";

/// Permissions that no request uses: an OpenShift admission plugin requires them on each of our
/// kinds.
const NEVER_SEEN: (&str, &str) = ("/finalizers", "update");

/// Reads one generated file below `config`.
pub(crate) fn generated(file: &str) -> Value {
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("config");
    let path: PathBuf = config.join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    serde_saphyr::from_str(&text).expect("YAML")
}

/// Returns every permission in a list of rules.
fn rights_in(rules: &Value) -> BTreeSet<Right> {
    let texts = |rule: &Value, field: &str| -> Vec<String> {
        let items = rule[field].as_array().expect("a list").iter();
        items
            .map(|text| text.as_str().expect("a text").to_owned())
            .collect()
    };
    let mut rights = BTreeSet::new();
    for rule in rules.as_array().expect("rules") {
        for group in texts(rule, "apiGroups") {
            for resource in texts(rule, "resources") {
                let verbs = texts(rule, "verbs").into_iter();
                rights.extend(verbs.map(|verb| (group.clone(), resource.clone(), verb)));
            }
        }
    }
    rights
}

/// Returns the permissions that a manager needs only for the kinds that were added to the original
/// ones: these tests have no resources of such a kind.
fn of_added_kinds() -> BTreeSet<Right> {
    let needed_by = |operators: &[&'static dyn Operator]| {
        let kinds: Vec<_> = operators.iter().map(|operator| operator.kind()).collect();
        let rules = rights(&kinds, &owned_by(operators), LEGACY);
        rights_in(&serde_json::to_value(rules).expect("JSON"))
    };
    let mut original = OPERATORS.to_vec();
    original.retain(|operator| is_original(operator.kind().kind));
    &needed_by(OPERATORS) - &needed_by(&original)
}

/// Returns every permission in these roles that a request of these tests can use.
pub(crate) fn granted(roles: &[&str]) -> BTreeSet<Right> {
    let rules = roles.iter().map(|role| generated(role)["rules"].take());
    let all: BTreeSet<Right> = rules.flat_map(|rules| rights_in(&rules)).collect();
    let mut rights = &all - &of_added_kinds();
    rights
        .retain(|(_, resource, verb)| !(resource.ends_with(NEVER_SEEN.0) && verb == NEVER_SEEN.1));
    rights
}

/// Returns the permissions that a manager used in these requests, except [`of_added_kinds`].
pub(crate) fn used(requests: &[Request]) -> BTreeSet<Right> {
    let mut rights = BTreeSet::new();
    for request in requests {
        let (group, resource) = (&request.group, &request.resource);
        let right = |verb: &str| (group.clone(), resource.clone(), verb.to_owned());
        rights.insert(right(&request.verb));
        // The API server also requires `create` when an apply creates the object.
        if request.verb == "patch" && request.code == 201 {
            rights.insert(right("create"));
        }
    }
    &rights - &of_added_kinds()
}
