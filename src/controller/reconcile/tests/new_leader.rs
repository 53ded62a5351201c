//! What a new leader finds of paced rollouts.

use serde_json::{Value, json};

use super::paced::of_another_default;
use crate::controller::drift::fingerprint::APPLIED;
use crate::controller::object::ObjectKey;
use crate::operators::DEPLOYMENT;

/// A Deployment of the Memcached `rolling` with the UID `o`, in a paced rollout.
fn rolling_in(namespace: &str) -> Value {
    let stamp = json!({"generation": 1, "spec": "00", "desired": "00", "rollout": 2}).to_string();
    let owner = json!({
        "apiVersion": "cache.example.com/v1", "kind": "Memcached", "name": "rolling", "uid": "o",
        "controller": true,
    });
    json!({
        "metadata": {
            "name": "rolling", "namespace": namespace, "uid": "u", "resourceVersion": "3",
            "generation": 2, "annotations": {APPLIED: stamp}, "ownerReferences": [owner],
        },
        "status": {"observedGeneration": 1},
    })
}

#[tokio::test(start_paused = true)]
async fn another_leader_finds_what_is_rolling_in_the_cache() {
    let scenario = of_another_default().await;
    scenario.holds(1, json!({"metadata": {"name": "rolling", "uid": "o"}}));
    let rolling = rolling_in("ns");
    scenario.children.put_written(DEPLOYMENT, &rolling);
    let another = ObjectKey::new("ns", "another");
    assert!(!scenario.reconciler.pacer.may_begin(&another));
}

#[tokio::test(start_paused = true)]
async fn a_rollout_that_this_leader_does_not_go_on_with_takes_no_place() {
    for (what, namespace, known, generation) in [
        ("deleted", "ns", None, 2),
        ("replaced by another of that name", "ns", Some("later"), 2),
        ("of a namespace that is not watched", "other", None, 2),
        ("changed by somebody since", "ns", Some("o"), 3),
    ] {
        let scenario = of_another_default().await;
        if let Some(uid) = known {
            let metadata = json!({"name": "rolling", "namespace": namespace, "uid": uid});
            scenario.holds(1, json!({"metadata": metadata}));
        }
        let mut rolling = rolling_in(namespace);
        rolling["metadata"]["generation"] = generation.into();
        scenario.children.put_written(DEPLOYMENT, &rolling);
        let another = ObjectKey::new("ns", "another");
        assert!(scenario.reconciler.pacer.may_begin(&another), "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn of_more_rollouts_than_the_limit_the_first_go_on() {
    let scenario = of_another_default().await;
    for name in ["a", "b"] {
        scenario.holds(1, json!({"metadata": {"name": name, "uid": name}}));
        let mut rolling = rolling_in("ns");
        rolling["metadata"]["name"] = name.into();
        rolling["metadata"]["ownerReferences"][0]["name"] = name.into();
        rolling["metadata"]["ownerReferences"][0]["uid"] = name.into();
        scenario.children.put_written(DEPLOYMENT, &rolling);
    }
    let may = ["b", "a", "c"].map(|name| {
        let key = ObjectKey::new("ns", name);
        scenario.reconciler.pacer.may_begin(&key)
    });
    assert_eq!(may, [false, true, false]);
}
