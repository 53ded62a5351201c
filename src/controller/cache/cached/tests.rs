use serde_json::{Value, json};

use super::{CachedChild, CachedPod, CachedResource, Owner, of_index};
use crate::controller::cache::decode::Decode;
use crate::controller::object::ObjectKey;
use crate::json::Json;
use crate::operators::{DEPLOYMENT, OPERATORS, owned_by as owned_types};

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
    let old = Owner::of(&Json::from(&owned_by("cache.example.com/v1alpha1")));
    let new = Owner::of(&Json::from(&owned_by("cache.example.com/v1")));
    assert!(old.is_some());
    assert_eq!(old, new);
    assert_ne!(
        old,
        Owner::of(&Json::from(&owned_by("other.example.com/v1")))
    );
}

#[test]
fn a_pod_is_found_by_what_made_it_and_by_the_deployment_of_its_replica_set() {
    let pod = |owner: &str, kind: &str| {
        json!({"metadata": {
            "name": "p", "namespace": "n", "uid": "u", "resourceVersion": "9", "labels": {"pod-template-hash": "5d4f"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": "r", "controller": true}],
        }})
    };
    let maker = |object: Value| {
        CachedPod::from_json(&Json::from(&object))
            .expect("decodes")
            .workload
    };
    assert_eq!(
        maker(pod("web-5d4f", "ReplicaSet")).as_deref(),
        Some("Deployment/n/web")
    );
    assert_eq!(
        maker(pod("web-other", "ReplicaSet")),
        None,
        "another's label on our pod"
    );
    let of_set = maker(pod("web", "StatefulSet"));
    assert_eq!(of_set.as_deref(), Some("StatefulSet/n/web"));
    assert_eq!(
        of_set.as_deref().and_then(of_index),
        Some(("StatefulSet", ObjectKey::new("n", "web")))
    );
}

#[test]
fn an_ending_or_ended_pod_is_not_live() {
    let pod = |phase: &str, deleted: Value| {
        let object = json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "resourceVersion": "9", "deletionTimestamp": deleted},
            "status": {"phase": phase, "conditions": [{"type": "Ready", "status": "True"}]},
        });
        CachedPod::from_json(&Json::from(&object)).expect("decodes")
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
        assert!(CachedChild::decode(owned.kind, None, &Json::from(&odd)).is_ok());
    }
    assert!(CachedPod::from_json(&Json::from(&odd)).is_ok());
    assert!(CachedResource::from_json(&Json::from(&odd)).is_ok());
    assert!(CachedResource::from_json(&Json::from(&json!({}))).is_err());
    assert!(CachedResource::from_json(&Json::from(&json!({"metadata": {"name": "a"}}))).is_err());
}

#[test]
fn the_message_of_a_condition_is_kept_only_where_something_is_wrong() {
    let deployment = |status: &str| {
        let object = json!({
            "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "9"},
            "status": {"conditions": [{"type": "Progressing", "status": status, "reason": "R", "message": "é".repeat(400)}]},
        });
        let deployment =
            CachedChild::decode(DEPLOYMENT, None, &Json::from(&object)).expect("decodes");
        let workload = deployment.workload().expect("it makes pods");
        let progressing = workload.progressing_condition.clone();
        progressing.expect("there").message
    };
    assert_eq!(deployment("True"), "");
    assert_eq!(
        deployment("False").len(),
        512,
        "cut at a character's border"
    );
}

/// Objects in a list of the API server do not contain their type.
#[tokio::test]
async fn a_child_is_decoded_as_what_is_watched_and_not_without_a_watch() {
    let object = owned_by("cache.example.com/v1");
    assert!(CachedChild::from_json(&Json::from(&object)).is_err());
    for owned in owned_types(OPERATORS) {
        let decode = async { CachedChild::from_json(&Json::from(&object)).expect("decodes") };
        let child = CachedChild::watched_as(owned.kind, None, decode).await;
        assert_eq!(child.workload().is_some(), owned.kind.has_pods);
    }
}
