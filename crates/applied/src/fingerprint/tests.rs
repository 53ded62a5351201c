use serde_json::{Value, json};

use super::Fingerprint;

const APPLIED: &str = "example.com/applied";

fn of_desired(body: &Value) -> Fingerprint {
    super::of_desired(body, APPLIED)
}

fn of_observed(object: &Value, manager: &str) -> Option<Fingerprint> {
    super::of_observed(object, manager, APPLIED)
}

fn desired() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "a", "namespace": "b", "labels": {"app": "a"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "a", "uid": "1", "controller": true}],
        },
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "a"}}, "template": {"spec": {"containers": [{
            "name": "c", "image": "i", "args": ["-m", "64"],
            "resources": {"requests": {"cpu": "100m"}},
            "ports": [{"name": "http", "containerPort": 80, "protocol": "TCP"}],
        }]}}},
    })
}

/// The stored form of `desired()`: with defaults, other managers' fields, and `managedFields`.
fn observed() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "a", "namespace": "b", "uid": "u", "resourceVersion": "7", "generation": 1,
            "labels": {"app": "a", "team": "theirs"}, "annotations": {"deployment.kubernetes.io/revision": "1"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "a", "uid": "1", "controller": true}],
            "managedFields": [
                {"manager": "kube-controller-manager", "operation": "Update", "subresource": "status", "fieldsV1": {"f:status": {}}},
                {"manager": "ours", "operation": "Apply", "fieldsV1": {
                    "f:metadata": {"f:labels": {"f:app": {}}, "f:ownerReferences": {"k:{\"uid\":\"1\"}": {}}},
                    "f:spec": {"f:replicas": {}, "f:selector": {}, "f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {
                        ".": {}, "f:name": {}, "f:image": {}, "f:args": {},
                        "f:resources": {"f:requests": {"f:cpu": {}}},
                        "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}, "f:containerPort": {}, "f:protocol": {}}},
                    }}}}},
                }},
            ],
        },
        "spec": {"replicas": 3, "revisionHistoryLimit": 10, "selector": {"matchLabels": {"app": "a"}},
            "template": {"spec": {"restartPolicy": "Always", "containers": [
                {"name": "sidecar", "image": "theirs"},
                {
                    "name": "c", "image": "i", "args": ["-m", "64"], "terminationMessagePath": "/dev/termination-log",
                    "resources": {"requests": {"cpu": "0.1"}},
                    "ports": [{"name": "http", "containerPort": 80, "protocol": "TCP"}],
                },
            ]}}},
        "status": {"replicas": 3},
    })
}

fn changed(pointer: &str, value: Value) -> Value {
    let mut object = observed();
    *object
        .pointer_mut(pointer)
        .expect("the pointer fits the object") = value;
    object
}

#[test]
fn a_child_as_applied_has_the_fingerprint_of_its_apply_body() {
    let found = of_observed(&observed(), "ours");
    assert_eq!(found, Some(of_desired(&desired())));
}

#[test]
fn every_kind_of_owned_field_edited_by_hand_changes_the_fingerprint() {
    for (pointer, value) in [
        ("/spec/replicas", json!(4)),
        ("/metadata/labels/app", json!("b")),
        ("/metadata/ownerReferences/0/controller", json!(false)),
        ("/spec/selector/matchLabels/app", json!("b")),
        ("/spec/template/spec/containers/1/image", json!("j")),
        ("/spec/template/spec/containers/1/args", json!(["-m", "65"])),
        (
            "/spec/template/spec/containers/1/args",
            json!(["-m", "64", "-v"]),
        ),
        (
            "/spec/template/spec/containers/1/resources/requests/cpu",
            json!("200m"),
        ),
        (
            "/spec/template/spec/containers/1/ports/0/name",
            json!("web"),
        ),
    ] {
        let edited = of_observed(&changed(pointer, value), "ours");
        assert_ne!(edited, Some(of_desired(&desired())), "{pointer}");
    }
}

#[test]
fn a_field_taken_over_by_another_manager_changes_the_fingerprint() {
    let mut object = observed();
    let spec = object
        .pointer_mut("/metadata/managedFields/1/fieldsV1/f:spec")
        .expect("there");
    spec.as_object_mut()
        .expect("an object")
        .remove("f:replicas");
    assert_ne!(of_observed(&object, "ours"), Some(of_desired(&desired())));
}

#[test]
fn fields_of_others_do_not_enter_the_fingerprint() {
    for (pointer, value) in [
        ("/metadata/labels/team", json!("other")),
        ("/metadata/annotations", json!({"a": "b"})),
        ("/spec/revisionHistoryLimit", json!(3)),
        (
            "/spec/template/spec/containers/0",
            json!({"name": "sidecar", "image": "newer"}),
        ),
        ("/status/replicas", json!(0)),
    ] {
        let edited = of_observed(&changed(pointer, value), "ours");
        assert_eq!(edited, Some(of_desired(&desired())), "{pointer}");
    }
}

#[test]
fn quantities_are_compared_by_value_and_only_where_quantities_stand() {
    let cpu = "/spec/template/spec/containers/1/resources/requests/cpu";
    let same = changed(cpu, json!("100000u"));
    assert_eq!(of_observed(&same, "ours"), Some(of_desired(&desired())));
    let (mut one, mut thousand_milli) = (desired(), desired());
    one["metadata"]["labels"]["app"] = json!("1");
    thousand_milli["metadata"]["labels"]["app"] = json!("1000m");
    assert_ne!(of_desired(&one), of_desired(&thousand_milli));
}

#[test]
fn the_stamp_does_not_enter_the_fingerprint() {
    let mut object = observed();
    object["metadata"]["annotations"][APPLIED] = json!("{}");
    object["metadata"]["managedFields"][1]["fieldsV1"]["f:metadata"]["f:annotations"] =
        json!({".": {}, (format!("f:{APPLIED}")): {}});
    assert_eq!(of_observed(&object, "ours"), Some(of_desired(&desired())));
    let mut stamped = desired();
    stamped["metadata"]["annotations"] = json!({APPLIED: "{}"});
    assert_eq!(of_desired(&stamped), of_desired(&desired()));
    stamped["metadata"]["annotations"]["other"] = json!("x");
    assert_ne!(of_desired(&stamped), of_desired(&desired()));
}

#[test]
fn owner_references_are_hashed_apart_from_the_rest() {
    let pointer = "/metadata/ownerReferences/0/apiVersion";
    let moved = of_observed(&changed(pointer, json!("v2")), "ours").expect("ours");
    let before = of_desired(&desired());
    assert_eq!(moved.fields, before.fields);
    assert_ne!(moved, before);
}

#[test]
fn an_object_that_we_never_applied_has_no_fingerprint() {
    assert_eq!(of_observed(&observed(), "somebody else"), None);
    assert_eq!(of_observed(&Value::Null, "ours"), None);
    let updated = json!({"metadata": {"managedFields": [
        {"manager": "ours", "operation": "Update", "fieldsV1": {}},
    ]}});
    assert_eq!(of_observed(&updated, "ours"), None);
}

#[test]
#[allow(clippy::disallowed_types, clippy::disallowed_methods)] // real time
fn thousands_of_owned_fields_and_items_cost_no_comparison_of_each_with_each() {
    const MANY: usize = 20_000;
    let names = || (0..MANY).map(|number| format!("{number:05}"));
    let keys = names().map(|name| (format!("f:{name}"), json!({})));
    let keys: serde_json::Map<_, _> = keys.collect();
    let items = names().map(|name| (format!("k:{{\"name\":\"{name}\"}}"), json!({".": {}})));
    let items: serde_json::Map<_, _> = items.collect();
    let annotations = names().map(|name| (name, json!("")));
    let annotations: serde_json::Map<_, _> = annotations.collect();
    let listed: Vec<_> = names().map(|name| json!({"name": name})).collect();
    let object = json!({
        "metadata": {
            "annotations": annotations,
            "managedFields": [{"manager": "ours", "operation": "Apply", "fieldsV1": {
                "f:metadata": {"f:annotations": keys}, "f:spec": {"f:ports": items},
            }}],
        },
        "spec": {"ports": listed},
    });
    let began = std::time::Instant::now();
    assert!(of_observed(&object, "ours").is_some());
    // 400 million comparisons take minutes in this build, and these some milliseconds.
    let took = began.elapsed();
    assert!(took < std::time::Duration::from_secs(20), "{took:?}");
}
