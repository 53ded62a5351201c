use std::sync::Arc;

use serde_json::{Value, json};

use super::{CachedChild, CachedPod, CachedResource, Owner, Watched, of_index};
use crate::controller::cache::decode::{Decode, DecodeGuard};
use crate::controller::cache::store::Store;
use crate::controller::object::{Object as _, ObjectKey};
use crate::json::Json;
use crate::operators::{ChildKind, DEPLOYMENT, OPERATORS, SERVICE, owned_by as owned_types};

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

/// The API server does not limit these texts, and the cache keeps them twice.
#[test]
fn an_owner_that_cannot_exist_is_not_cached() {
    let mut child = owned_by("cache.example.com/v1");
    child["metadata"]["ownerReferences"][1]["uid"] = json!("u".repeat(1024));
    assert_eq!(Owner::of(&Json::from(&child)), None);
    let retained = format!("g/K/{}/u", "n".repeat(1024));
    let child = json!({"metadata": {"annotations": {
        "quartet-operator.example.com/retained-for": retained,
    }}});
    assert_eq!(Owner::of(&Json::from(&child)), None);
}

#[test]
fn a_cached_object_has_the_identity_of_the_object() {
    let object = owned_by("cache.example.com/v1");
    let pod = CachedPod::from_json(&Json::from(&object)).expect("decodes");
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
        assert!(CachedChild::decode(owned.kind, &Json::from(&odd)).is_ok());
    }
    assert!(CachedPod::from_json(&Json::from(&odd)).is_ok());
    assert!(CachedResource::from_json(&Json::from(&odd)).is_ok());
    assert!(CachedResource::from_json(&Json::from(&json!({}))).is_err());
    assert!(CachedResource::from_json(&Json::from(&json!({"metadata": {"name": "a"}}))).is_err());
}

#[test]
fn a_resource_is_paused_by_whatever_is_not_false() {
    let paused = |value: Value| {
        let object = json!({
            "metadata": {
                "name": "a",
                "namespace": "b",
                "uid": "c",
                "resourceVersion": "1",
                "annotations": {"quartet-operator.example.com/paused": value},
            },
        });
        CachedResource::from_json(&Json::from(&object))
            .expect("a resource")
            .paused
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
        let child = CachedChild::decode(DEPLOYMENT, &Json::from(&object)).expect("decodes");
        child.workload().expect("it makes pods").clone()
    };
    // Cut at a character's border.
    let cut = Some("é".repeat(256).into_boxed_str());
    let exceeded = "ProgressDeadlineExceeded";
    assert_eq!(workload("Progressing", "False", exceeded).stalled, cut);
    assert_eq!(workload("Progressing", "True", exceeded).stalled, None);
    assert_eq!(workload("Progressing", "False", "R").stalled, None);
    assert_eq!(workload("ReplicaFailure", "True", "R").replica_failure, cut);
    assert_eq!(
        workload("ReplicaFailure", "False", "R").replica_failure,
        None
    );
    assert_eq!(workload("Available", "True", "R").is_available, Some(true));
    assert_eq!(
        workload("Available", "False", "R").is_available,
        Some(false)
    );
    assert_eq!(workload("Progressing", "True", "R").is_available, None);
}

/// Objects in a list of the API server do not contain their type.
#[tokio::test]
async fn a_child_is_decoded_as_what_is_watched_and_not_without_a_watch() {
    let object = owned_by("cache.example.com/v1");
    assert!(CachedChild::from_json(&Json::from(&object)).is_err());
    for owned in owned_types(OPERATORS) {
        let decode = async { CachedChild::from_json(&Json::from(&object)).expect("decodes") };
        let watched = Watched {
            kind: owned.kind,
            store: Arc::default(),
        };
        let child = CachedChild::watched_as(watched, decode).await;
        assert_eq!(child.workload().is_some(), owned.kind.has_pods);
    }
}

/// What `kind` decodes from a watch, after an earlier state of the object.
async fn decoded(
    kind: ChildKind,
    object: &Value,
    earlier: Option<&CachedChild>,
) -> Arc<CachedChild> {
    let store = Arc::new(Store::default());
    if let Some(earlier) = earlier {
        assert!(store.put_written(earlier.clone()));
    }
    let watched = Watched { kind, store };
    let text = object.to_string();
    let decode = async { serde_json::from_str::<DecodeGuard<CachedChild>>(&text) };
    let guard = CachedChild::watched_as(watched, decode).await;
    guard.expect("JSON").into_decoded().expect("decodes")
}

/// What was applied is read again only if it may have changed.
#[tokio::test]
async fn a_child_is_decoded_after_an_earlier_state_as_it_is_without_one() {
    let object = |generation: i64, revision: &str, owned: &Value, status: Value| {
        json!({
            "metadata": {
                "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "9", "generation": generation,
                "annotations": {"deployment.kubernetes.io/revision": revision},
                "ownerReferences": [{
                    "apiVersion": "cache.example.com/v1", "kind": "Memcached", "name": "a", "uid": "1",
                    "controller": true,
                }],
                "managedFields": [
                    {"manager": "quartet-operator-memcached", "operation": "Apply", "fieldsV1": owned},
                    {"manager": "kubelet", "operation": "Update", "fieldsV1": {"f:status": {}}},
                ],
            },
            "spec": {"replicas": generation, "template": {"spec": {"hostname": "h"}}},
            "status": status,
        })
    };
    let owned = json!({"f:spec": {"f:replicas": {}, "f:template": {"f:spec": {"f:hostname": {}}}}});
    let first = object(1, "1", &owned, json!({}));
    let earlier = decoded(DEPLOYMENT, &first, None).await;
    let whole = CachedChild::decode(DEPLOYMENT, &Json::from(&first)).expect("decodes");
    assert!(whole.fingerprint.is_some());
    assert_eq!(earlier.fingerprint, whole.fingerprint);
    for later in [
        object(1, "1", &owned, json!({"readyReplicas": 1})),
        object(2, "1", &owned, json!({})),
        object(1, "1", &json!({"f:spec": {"f:replicas": {}}}), json!({})),
        object(1, "1", &Value::Null, json!({})),
    ] {
        let after = decoded(DEPLOYMENT, &later, Some(&earlier)).await;
        assert_eq!(after, decoded(DEPLOYMENT, &later, None).await, "{later}");
    }

    // It is not read again while nothing that was applied can have changed.
    let marked = CachedChild {
        fingerprint: None,
        ..CachedChild::clone(&earlier)
    };
    // An annotation of others is nothing that was applied.
    for revision in ["1", "2"] {
        let status = object(1, revision, &owned, json!({"readyReplicas": 1}));
        let after = decoded(DEPLOYMENT, &status, Some(&marked)).await;
        assert_eq!(after.fingerprint, None);
    }
    let mut labelled = first.clone();
    labelled["metadata"]["labels"] = json!({"app": "a"});
    let fields = &mut labelled["metadata"]["managedFields"][0]["fieldsV1"];
    fields["f:metadata"] = json!({"f:labels": {"f:app": {}}});
    let earlier = decoded(DEPLOYMENT, &labelled, None).await;
    labelled["metadata"]["labels"]["app"] = json!("b");
    let after = decoded(DEPLOYMENT, &labelled, Some(&earlier)).await;
    assert_ne!(after.fingerprint, earlier.fingerprint);

    // The spec of a Service may change without a generation.
    let mut service = first;
    service["metadata"]["generation"] = Value::Null;
    let earlier = decoded(SERVICE, &service, None).await;
    service["spec"]["replicas"] = json!(7);
    let after = decoded(SERVICE, &service, Some(&earlier)).await;
    assert_ne!(after.fingerprint, earlier.fingerprint);
}

/// Texts are compared with what we write.
#[test]
fn spec_and_status_are_as_we_write_them_although_go_escapes_more() {
    let text = r#"{"apiVersion":"cache.example.com/v1","kind":"Memcached","metadata":{"name":"a",
        "namespace":"n","uid":"u","resourceVersion":"1"},
        "spec":{"image":"a\u0026b"},"status":{"message":"\u003c1"}}"#;
    let guard: DecodeGuard<CachedResource> = serde_json::from_str(text).expect("JSON");
    let resource = guard.into_decoded().expect("decodes");
    assert_eq!(&*resource.spec, r#"{"image":"a&b"}"#);
    assert_eq!(&*resource.status, r#"{"message":"<1"}"#);
    let text = text.replace("\\u0026", "-");
    let guard: DecodeGuard<CachedResource> = serde_json::from_str(&text).expect("JSON");
    assert_eq!(
        &*guard.into_decoded().expect("decodes").spec,
        r#"{"image":"a-b"}"#
    );
}
