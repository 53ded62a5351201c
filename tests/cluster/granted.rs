//! What the manager may ask of the API server, as the generated roles say, and what requests
//! need. Reads files; asks nothing. Used by the tests that run a manager with these roles and
//! by the one that reads the audit log of a whole test run.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use testkit::Request;

/// API group, resource, verb.
pub(crate) type Right = (String, String, String);

/// The roles of the manager, below `config`.
pub(crate) const CORE: &[&str] = &[
    "rbac/role.yaml",
    "rbac/leader_election_role.yaml",
    METRICS_AUTH,
];

/// To ask who may read the metrics, which is asked of no namespace.
pub(crate) const METRICS_AUTH: &str = "rbac/metrics_auth_role.yaml";

/// The roles that `--cert-mode=self-managed` needs besides.
#[allow(dead_code)] // unused by the test of the whole run
pub(crate) const SELF_MANAGED: &[&str] = &[
    "rbac-self-managed/webhook_registration_role.yaml",
    "rbac-self-managed/webhook_certificate_role.yaml",
];

/// Rights that no request shows, on each of our kinds: what an admission plugin of OpenShift
/// asks about.
const NEVER_SEEN: (&str, &str) = ("/finalizers", "update");

/// One generated file below `config`.
pub(crate) fn generated(file: &str) -> Value {
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("config");
    let path: PathBuf = config.join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    serde_saphyr::from_str(&text).expect("YAML")
}

/// Every right that these roles give and that a request could show.
pub(crate) fn granted(roles: &[&str]) -> BTreeSet<Right> {
    let texts = |rule: &Value, field: &str| -> Vec<String> {
        let items = rule[field].as_array().expect("a list").iter();
        items
            .map(|text| text.as_str().expect("a text").to_owned())
            .collect()
    };
    let mut rights = BTreeSet::new();
    for role in roles {
        for rule in generated(role)["rules"].as_array().expect("rules") {
            for group in texts(rule, "apiGroups") {
                for resource in texts(rule, "resources") {
                    let verbs = texts(rule, "verbs").into_iter();
                    rights.extend(verbs.map(|verb| (group.clone(), resource.clone(), verb)));
                }
            }
        }
    }
    rights
        .retain(|(_, resource, verb)| !(resource.ends_with(NEVER_SEEN.0) && verb == NEVER_SEEN.1));
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
