//! What a new leader finds of paced rollouts.

use serde_json::{Value, json};

use super::paced::another_may_begin;
use super::{Scenario, merge, willing};
use crate::object::ObjectKey;
use quartet_operator::kinds::BRAND;
use quartet_workload::DEPLOYMENT;

/// The cache has the Memcached `rolling` with the UID `o` and its Deployment, in a paced rollout.
async fn with_a_rollout(namespace: &str, uid: Option<&str>, more: Value) -> Scenario {
    let scenario = Scenario::new(willing);
    if let Some(uid) = uid {
        let metadata = json!({"name": "rolling", "namespace": namespace, "uid": uid});
        scenario.holds(1, json!({"metadata": metadata}));
    }
    let stamp = json!({"generation": 1, "spec": "00", "desired": "00", "rollout": 2}).to_string();
    let owner = json!({
        "apiVersion": "cache.example.com/v1", "kind": "Memcached", "name": "rolling", "uid": "o",
        "controller": true,
    });
    let mut rolling = json!({
        "metadata": {
            "name": "rolling", "namespace": namespace, "uid": "u", "resourceVersion": "3",
            "generation": 2, "annotations": {BRAND.applied: stamp}, "ownerReferences": [owner],
        },
        "spec": {"replicas": 3},
        "status": {"observedGeneration": 1},
    });
    merge(&mut rolling, more);
    scenario.children.put_written(DEPLOYMENT, &rolling, 0);
    scenario
}

#[tokio::test(start_paused = true)]
async fn another_leader_finds_what_is_rolling_in_the_cache() {
    let scenario = with_a_rollout("ns", Some("o"), json!({})).await;
    assert!(!another_may_begin(&scenario));
    let rolling = ObjectKey::new("ns", "rolling");
    assert!(scenario.reconciler.may_begin(&rolling), "it goes on");
}

#[tokio::test(start_paused = true)]
async fn a_rollout_ends_for_every_leader_when_its_pods_are_or_were_available() {
    let progress = |reason| json!([{"type": "Progressing", "status": "True", "reason": reason}]);
    for (available, conditions, has_ended) in [
        (0, json!([]), false),
        (0, progress("ReplicaSetUpdated"), false),
        (0, progress("NewReplicaSetAvailable"), true),
        (3, json!([]), true),
    ] {
        let status = json!({
            "observedGeneration": 2, "replicas": 3, "updatedReplicas": 3,
            "availableReplicas": available, "conditions": conditions,
        });
        let scenario = with_a_rollout("ns", Some("o"), json!({"status": status})).await;
        assert_eq!(another_may_begin(&scenario), has_ended, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_rollout_that_this_leader_does_not_go_on_with_does_not_count() {
    for (what, namespace, known, generation) in [
        ("deleted", "ns", None, 2),
        ("replaced by another of that name", "ns", Some("later"), 2),
        ("of a namespace that is not watched", "other", None, 2),
        ("changed by somebody since", "ns", Some("o"), 3),
    ] {
        let more = json!({"metadata": {"generation": generation}});
        let scenario = with_a_rollout(namespace, known, more).await;
        assert!(another_may_begin(&scenario), "{what}");
    }
}
