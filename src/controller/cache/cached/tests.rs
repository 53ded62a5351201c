use serde_json::{Value, json};

use super::{CachedDeployment, CachedPod, CachedResource, Owner};
use crate::controller::cache::decode::Decode;

fn owned_by(api_version: &str) -> Value {
    json!({"metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "9", "ownerReferences": [
        {"apiVersion": "v1", "kind": "Other", "name": "not the controller", "uid": "0"},
        {"apiVersion": api_version, "kind": "Memcached", "name": "m", "uid": "1", "controller": true},
    ]}})
}

/// kube-runtime's `owns()` compares the whole apiVersion and so loses the children that
/// were made before the storage version moved.
#[test]
fn an_owner_is_the_same_in_whatever_version_the_reference_names_it() {
    let old = Owner::of(&owned_by("cache.example.com/v1alpha1"));
    let new = Owner::of(&owned_by("cache.example.com/v1"));
    assert!(old.is_some());
    assert_eq!(old, new);
    assert_ne!(old, Owner::of(&owned_by("other.example.com/v1")));
}

#[test]
fn a_pod_is_found_by_its_deployment_through_its_replica_set_alone() {
    let pod = |owner: &str, kind: &str| {
        json!({"metadata": {
            "name": "p", "namespace": "n", "uid": "u", "resourceVersion": "9", "labels": {"pod-template-hash": "5d4f"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": "r", "controller": true}],
        }})
    };
    let deployment = |object: Value| CachedPod::from_json(&object).expect("decodes").deployment;
    assert_eq!(
        deployment(pod("web-5d4f", "ReplicaSet")).as_deref(),
        Some("n/web")
    );
    assert_eq!(
        deployment(pod("web-other", "ReplicaSet")),
        None,
        "another's label on our pod"
    );
    assert_eq!(deployment(pod("web-5d4f", "Job")), None);
}

#[test]
fn an_ending_or_ended_pod_is_not_live() {
    let pod = |phase: &str, deleted: Value| {
        let object = json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "resourceVersion": "9", "deletionTimestamp": deleted},
            "status": {"phase": phase, "conditions": [{"type": "Ready", "status": "True"}]},
        });
        CachedPod::from_json(&object).expect("decodes")
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
    assert!(CachedDeployment::from_json(&odd).is_ok());
    assert!(CachedPod::from_json(&odd).is_ok());
    assert!(CachedResource::from_json(&odd).is_ok());
    assert!(CachedResource::from_json(&json!({})).is_err());
    assert!(CachedResource::from_json(&json!({"metadata": {"name": "a"}})).is_err());
}

#[test]
fn the_message_of_a_condition_is_kept_only_where_something_is_wrong() {
    let deployment = |status: &str| {
        let object = json!({
            "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "9"},
            "status": {"conditions": [{"type": "Progressing", "status": status, "reason": "R", "message": "é".repeat(400)}]},
        });
        let deployment = CachedDeployment::from_json(&object).expect("decodes");
        deployment
            .state
            .progressing_condition
            .expect("there")
            .message
    };
    assert_eq!(deployment("True"), "");
    assert_eq!(
        deployment("False").len(),
        512,
        "cut at a character's border"
    );
}
