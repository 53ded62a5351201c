//! The permissions of a manager of some namespaces, there and elsewhere.

use serde_json::{Value, json};

use super::{NAMESPACE, authority, chart, deployment, find, is, modes, prerequisites};
use crate::graph::Graph;
use crate::rendered::{moved, overlay};

/// Returns the rules that the manager has in the whole cluster.
fn cluster_rules(objects: &[Value]) -> Vec<Value> {
    let account = "quartet-operator-controller-manager";
    let bindings = objects
        .iter()
        .filter(|it| it["kind"] == "ClusterRoleBinding");
    let bindings = bindings.filter(|it| it["subjects"][0]["name"] == account);
    let rules = bindings.flat_map(|binding| {
        let name = binding["roleRef"]["name"].as_str().expect("a name");
        let role = find(objects, "ClusterRole", name);
        role["rules"].as_array().expect("rules").clone()
    });
    rules.collect()
}

/// Asserts that a manager of one namespace may only register its webhooks in the cluster, by name.
#[track_caller]
fn assert_registers_webhooks_only(rules: Vec<Value>) {
    assert!(!rules.is_empty(), "no cluster rules found");
    for rule in rules {
        let resource = &rule["resources"][0];
        let registers = [
            "customresourcedefinitions",
            "validatingwebhookconfigurations",
        ];
        assert!(registers.iter().any(|it| resource == it), "{rule}");
        assert!(rule["resourceNames"].is_array(), "{rule}");
    }
}

#[test]
fn a_namespaced_manager_has_roles_in_its_namespaces_and_registers_webhooks() {
    let [.., (_, values)] = modes();
    let objects = chart(&values);
    let everywhere = chart(&json!({}));
    let wanted = find(&everywhere, "ClusterRole", "quartet-operator-manager-role");
    // Several namespaces are watched by watches of the cluster.
    let is_watch = |rule: &Value| rule["verbs"] == json!(["list", "watch"]);
    let (watches, others): (Vec<_>, _) = cluster_rules(&objects).into_iter().partition(is_watch);
    let resources = |rules: &[Value]| -> Vec<Value> {
        rules.iter().map(|rule| rule["resources"].clone()).collect()
    };
    let mut watched = wanted["rules"].as_array().expect("rules").clone();
    watched.retain(|rule| rule["verbs"].to_string().contains("\"watch\""));
    assert_eq!(resources(&watches), resources(&watched));
    assert_registers_webhooks_only(others);
    let alone = chart(&json!({"watchNamespaces": ["team-a"]}));
    assert_registers_webhooks_only(cluster_rules(&alone));
    for team in ["team-a", "team-b"] {
        let mut roles = objects.iter().filter(|it| {
            is(it, "Role", "quartet-operator-manager-role") && it["metadata"]["namespace"] == team
        });
        let found = &roles.next().expect("a Role")["rules"];
        assert_eq!(*found, wanted["rules"], "{team}");
    }
    let container = &deployment(&objects)["spec"]["template"]["spec"]["containers"][0];
    let variables = container["env"].as_array().expect("variables");
    let watched = json!({"name": "WATCH_NAMESPACE", "value": "team-a,team-b"});
    assert!(variables.contains(&watched), "{variables:?}");
    let arguments = container["args"].to_string();
    let no_metrics = "--metrics-bind-address=0";
    assert!(arguments.contains(no_metrics), "{arguments}");

    // With a caBundle from another source it has no cluster-wide permissions.
    let provided = json!({
        "watchNamespaces": ["team-a"],
        "certificates": {"mode": "provided", "provided": {"caBundle": authority()}},
    });
    assert_eq!(cluster_rules(&chart(&provided)), [Value::Null; 0]);

    // Enabling metrics adds only the permissions that they need.
    let mut measured = values.clone();
    measured["metrics"] = json!({"enabled": true});
    let rules = cluster_rules(&chart(&measured));
    let reviews = ["tokenreviews", "subjectaccessreviews"];
    let is_review = |rule: &&Value| reviews.iter().any(|it| rule["resources"][0] == *it);
    let added = rules.iter().filter(is_review);
    assert_eq!(added.count(), reviews.len());
    assert_eq!(rules.len(), cluster_rules(&objects).len() + reviews.len());
}

#[test]
fn the_overlay_for_one_namespace_grants_what_the_chart_for_one_grants() {
    let overlaid = overlay("namespaced");
    assert_registers_webhooks_only(cluster_rules(&overlaid));
    let charted = chart(&json!({"watchNamespaces": [NAMESPACE]}));
    assert_eq!(cluster_rules(&overlaid), cluster_rules(&charted));
    let role =
        |objects: &[Value]| find(objects, "Role", "quartet-operator-manager-role")["rules"].clone();
    assert_eq!(role(&overlaid), role(&charted));
    // The team's namespace is not part of the installation.
    assert!(overlaid.iter().all(|it| it["kind"] != "Namespace"));

    let moved = moved("namespaced", "team-a");
    assert!(!Value::from(moved.clone()).to_string().contains(NAMESPACE));
    let found = Graph::of([moved, prerequisites()].concat()).problems();
    assert_eq!(found, [""; 0]);
}
