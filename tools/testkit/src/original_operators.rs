//! The state that the four original operators left in a cluster, in `original/*.yaml`, and the
//! state after adoption. Data and comparisons only; sends no requests.

use serde_json::{Value, json};

/// The kinds, each with its resource and then the children that its operator created.
pub const ALL: [(&str, &str); 4] = [
    (
        "Memcached",
        include_str!("../../../tests/support/original/memcached.yaml"),
    ),
    (
        "Nginx",
        include_str!("../../../tests/support/original/nginx.yaml"),
    ),
    (
        "ElasticWeb",
        include_str!("../../../tests/support/original/elasticweb.yaml"),
    ),
    (
        "HelloWorld",
        include_str!("../../../tests/support/original/helloworld.yaml"),
    ),
];

/// Returns the resource and the children of one of [`ALL`].
pub fn resource_and_children(documents: &str) -> (Value, Vec<Value>) {
    let mut all: Vec<Value> = serde_saphyr::from_multiple(documents).expect("YAML");
    let children = all.split_off(1);
    (all.remove(0), children)
}

/// Adds the owner reference that controller-runtime's `SetControllerReference` sets.
pub fn owned(mut child: Value, owner: &Value) -> Value {
    child["metadata"]["ownerReferences"] = json!([{
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": true,
        "blockOwnerDeletion": true,
    }]);
    child
}

/// Panics unless `after` is the object `before`, adopted: no other field manager owns a field of
/// its spec, its immutable fields are unchanged, and no field of the original operator is left.
#[track_caller]
pub fn assert_adopted(before: &Value, after: &Value) {
    let (old, new) = (&before["metadata"], &after["metadata"]);
    assert_eq!(old["uid"], new["uid"], "the same object: {after:#}");
    let owner = |metadata: &Value| metadata["ownerReferences"][0]["uid"].clone();
    assert_eq!(owner(old), owner(new));
    assert_eq!(new["ownerReferences"].as_array().map(Vec::len), Some(1));
    let kind = new["ownerReferences"][0]["kind"].as_str().expect("a kind");
    assert_owned_by(new, &format!("quartet-operator-{}", kind.to_lowercase()));
    if after["kind"] == "Service" {
        assert_eq!(before["spec"]["clusterIP"], after["spec"]["clusterIP"]);
        let ports = after["spec"]["ports"].as_array().expect("ports");
        assert_eq!(ports.len(), 1, "{ports:?}");
        assert_eq!(ports[0]["targetPort"], "http");
        assert_eq!(ports[0]["nodePort"], before["spec"]["ports"][0]["nodePort"]);
        let selector = &after["spec"]["selector"];
        let ours = json!({
            "app.kubernetes.io/instance": new["name"], "app.kubernetes.io/name": kind.to_lowercase(),
            "quartet-operator.example.com/kind": kind.to_lowercase(),
        });
        assert_eq!(*selector, ours);
        return;
    }
    assert_eq!(before["spec"]["selector"], after["spec"]["selector"]);
    let pods = &after["spec"]["template"];
    let containers = pods["spec"]["containers"].as_array().expect("containers");
    let names: Vec<&Value> = containers.iter().map(|one| &one["name"]).collect();
    assert_eq!(names, [&json!(kind.to_lowercase())]);
    let ports = containers[0]["ports"].as_array().expect("ports");
    assert!(
        ports.iter().all(|port| port["protocol"] == "TCP"),
        "{ports:?}"
    );
    assert_eq!(ports.len(), 1, "{ports:?}");
    let kept = before["spec"]["selector"]["matchLabels"].as_object();
    for (label, value) in kept.expect("labels") {
        assert_eq!(pods["metadata"]["labels"][label], *value);
    }
}

/// Asserts that the only other field manager is the controller-manager, which owns fields of the
/// status only.
#[track_caller]
fn assert_owned_by(metadata: &Value, manager: &str) {
    let entries = metadata["managedFields"].as_array().expect("entries");
    let is_ours = |entry: &&Value| entry["manager"] == manager;
    let (ours, others): (Vec<&Value>, Vec<&Value>) = entries.iter().partition(is_ours);
    assert_eq!(ours.len(), 1, "{entries:#?}");
    assert_eq!(ours[0]["operation"], "Apply");
    for entry in others {
        assert_eq!(entry["manager"], "kube-controller-manager", "{entry:#}");
        assert_eq!(entry["subresource"], "status", "{entry:#}");
    }
}
