use serde_json::{Value, json};

use super::{CachedChild, CachedPod, CachedResource, Owner, of_index};
use crate::object::{Object as _, ObjectKey};
use quartet_operator::kinds::memcached::KIND;
use quartet_operator::kinds::{BRAND, OPERATORS};
use quartet_operator::packaging::kinds;
use quartet_workload::{DEPLOYMENT, owned_by as owned_types};

fn resource(object: Value) -> Result<CachedResource, String> {
    CachedResource::decode(&KIND, &serde_json::from_value(object).unwrap())
}

fn owned_by(api_version: &str) -> Value {
    json!({"metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "9", "ownerReferences": [
        {"apiVersion": "v1", "kind": "Other", "name": "not the controller", "uid": "0"},
        {"apiVersion": api_version, "kind": "Memcached", "name": "m", "uid": "1", "controller": true},
    ]}})
}

/// kube-runtime's `owns()` compares the whole apiVersion, and so misses children that were created
/// before the storage version changed.
#[test]
fn an_owner_is_the_same_in_whatever_version_the_reference_names_it() {
    let old = Owner::of(&BRAND, &owned_by("cache.example.com/v1alpha1"));
    let new = Owner::of(&BRAND, &owned_by("cache.example.com/v1"));
    assert!(old.is_some());
    assert_eq!(old, new);
    assert_ne!(old, Owner::of(&BRAND, &owned_by("other.example.com/v1")));
}

/// The API server does not limit these texts, and the cache keeps them twice.
#[test]
fn an_owner_that_cannot_exist_is_not_cached() {
    let mut child = owned_by("cache.example.com/v1");
    child["metadata"]["ownerReferences"][1]["uid"] = json!("u".repeat(1024));
    assert_eq!(Owner::of(&BRAND, &child), None);
    let retained = format!("g/K/{}/u", "n".repeat(1024));
    let child = json!({"metadata": {"annotations": {BRAND.retained_for: retained}}});
    assert_eq!(Owner::of(&BRAND, &child), None);
}

#[test]
fn a_cached_object_has_the_identity_of_the_object() {
    let object = owned_by("cache.example.com/v1");
    let pod = CachedPod::decode(&BRAND, &object).expect("decodes");
    assert_eq!(*pod.key(), ObjectKey::new("n", "a"));
    assert_eq!((pod.uid(), pod.resource_version()), ("u", 9));
    assert_eq!(pod.index(), Some("Memcached/n/m"));
}

#[test]
fn a_pod_is_found_by_what_made_it_and_by_the_deployment_of_its_replica_set() {
    let pod = |owner: &str, kind: &str| {
        json!({"metadata": {
            "name": "p", "namespace": "n", "uid": "u", "resourceVersion": "9", "labels": {"pod-template-hash": "5d4f"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": "r", "controller": true}],
        }})
    };
    let decode = |object: Value| CachedPod::decode(&BRAND, &object);
    let maker = |object: Value| decode(object).expect("decodes").workload;
    let found = maker(pod("web-5d4f", "ReplicaSet"));
    assert_eq!(found.as_deref(), Some("Deployment/n/web"));
    let found = maker(pod("web-other", "ReplicaSet"));
    assert_eq!(found, None, "another's label on our pod");
    let of_set = maker(pod("web", "StatefulSet"));
    assert_eq!(of_set.as_deref(), Some("StatefulSet/n/web"));
    let expected = Some(("StatefulSet", ObjectKey::new("n", "web")));
    assert_eq!(of_set.as_deref().and_then(of_index), expected);
}

#[test]
fn an_ending_or_ended_pod_is_not_live() {
    let pod = |phase: &str, deleted: Value| {
        let object = json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "resourceVersion": "9", "deletionTimestamp": deleted},
            "status": {"phase": phase, "conditions": [{"type": "Ready", "status": "True"}]},
        });
        CachedPod::decode(&BRAND, &object).expect("decodes")
    };
    assert!(pod("Running", Value::Null).live && pod("Running", Value::Null).ready);
    assert!(!pod("Failed", Value::Null).live);
    assert!(!pod("Succeeded", Value::Null).live);
    assert!(!pod("Running", json!("2026-01-01T00:00:00Z")).live);
}

#[test]
fn decoding_takes_whatever_there_is_and_refuses_only_what_has_no_version() {
    let odd = json!({
        "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "9", "ownerReferences": "none", "finalizers": 3},
        "spec": [], "status": {"conditions": {"type": 1}, "replicas": "many"},
    });
    for owned in owned_types(OPERATORS) {
        assert!(CachedChild::decode(&BRAND, &kinds(), owned.kind, &odd).is_ok());
    }
    assert!(CachedPod::decode(&BRAND, &odd).is_ok());
    assert!(resource(odd).is_ok());
    assert!(resource(json!({})).is_err());
    assert!(resource(json!({"metadata": {"name": "a"}})).is_err());
}

#[test]
fn a_resource_is_paused_by_whatever_is_not_false() {
    let paused = |value: Value| {
        let mut object = owned_by("cache.example.com/v1");
        let annotations = json!({"quartet-operator.example.com/paused": value});
        object["metadata"]["annotations"] = annotations;
        resource(object).expect("a resource").paused
    };
    for value in ["0", "f", "F", "false", "False", "FALSE", " false "] {
        assert_eq!(paused(value.into()), None);
    }
    for value in ["true", "True", "TRUE", "1", "yes", "", "true "] {
        assert_eq!(paused(value.into()).as_deref(), Some(value));
    }
    assert_eq!(paused(Value::Null), None);
}

#[test]
fn of_a_condition_only_what_a_status_needs_is_kept() {
    let workload = |type_: &str, status: &str, reason: &str| {
        let object = json!({
            "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "9"},
            "status": {"conditions": [{"type": type_, "status": status, "reason": reason, "message": "é".repeat(400)}]},
        });
        let child = CachedChild::decode(&BRAND, &kinds(), DEPLOYMENT, &object).expect("decodes");
        child.workload().expect("it makes pods").clone()
    };
    // Cut at a character's border.
    let cut = Some("é".repeat(256).into_boxed_str());
    let exceeded = "ProgressDeadlineExceeded";
    let stalled = workload("Progressing", "False", exceeded).stalled;
    assert_eq!(stalled, cut);
    assert_eq!(workload("Progressing", "True", exceeded).stalled, None);
    assert_eq!(workload("Progressing", "False", "R").stalled, None);
    for (status, failure) in [("True", cut), ("False", None)] {
        let found = workload("ReplicaFailure", status, "R").replica_failure;
        assert_eq!(found, failure);
        let found = workload("Available", status, "R").is_available;
        assert_eq!(found, Some(status == "True"));
    }
    assert_eq!(workload("Progressing", "True", "R").is_available, None);
}

/// Objects in a list of the API server do not contain their type.
#[test]
fn a_child_in_a_list_gets_its_type_from_the_informer() {
    let object = owned_by("cache.example.com/v1");
    for owned in owned_types(OPERATORS) {
        let child = CachedChild::decode(&BRAND, &kinds(), owned.kind, &object).expect("decodes");
        assert_eq!(child.workload().is_some(), owned.kind.has_pods);
    }
}

#[test]
fn a_spec_is_as_we_write_it_although_go_escapes_more_and_a_status_as_it_was_sent() {
    let text = r#"{"apiVersion":"cache.example.com/v1","kind":"Memcached","metadata":{"name":"a",
        "namespace":"n","uid":"u","resourceVersion":"1"},
        "spec":{"image":"a\u0026b"},"status":{"message":"\u003c1"}}"#;
    let decoded = |text: &str| {
        let received = serde_json::from_str(text).expect("JSON");
        CachedResource::decode(&KIND, &received).expect("decodes")
    };
    let resource = decoded(text);
    assert_eq!(&*resource.spec, r#"{"image":"a&b"}"#);
    assert_eq!(&*resource.status, r#"{"message":"\u003c1"}"#);
    let text = text.replace("\\u0026", "-");
    assert_eq!(&*decoded(&text).spec, r#"{"image":"a-b"}"#);
}
