//! The steps of a rollout: when each enqueues the owner, and what of a pod does.

use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::cache::cached::CachedPod;
use crate::event_handlers::COALESCE;
use crate::object::ObjectKey;

#[tokio::test(start_paused = true)]
async fn a_child_that_differs_by_nothing_but_its_resource_version_wakes_nobody() {
    let scene = Scene::of_web();
    let object = child("web", &[reference(NGINX, "Nginx web")]);
    let mut later = object.clone();
    later["metadata"]["resourceVersion"] = "8".into();
    later["metadata"]["annotations"] = json!({"team": "blue"});
    let (old, new) = (deployment(&object), deployment(&later));
    scene.deployment_changed(updated(Arc::clone(&old), new));
    assert_eq!(scene.enqueued(), NOBODY);
    later["status"] = json!({"readyReplicas": 1});
    for _ in 0..2 {
        scene.deployment_changed(updated(Arc::clone(&old), deployment(&later)));
    }
    assert_eq!(scene.enqueued_later().await, ["Nginx ns/web"], "once");
    later["status"] = rolled_out();
    scene.deployment_changed(updated(old, deployment(&later)));
    assert_eq!(scene.enqueued(), ["Nginx ns/web"], "at its end");
}

/// A step of a rollout of a Deployment of `web` that its controller has observed.
fn step(ready: i64) -> Change<CachedChild> {
    let object = |ready: i64| {
        let mut object = child("web", &[reference(NGINX, "Nginx web")]);
        object["spec"] = json!({"replicas": 9});
        object["status"] = json!({"observedGeneration": 0, "replicas": 9, "readyReplicas": ready});
        deployment(&object)
    };
    updated(object(ready - 1), object(ready))
}

#[tokio::test(start_paused = true)]
async fn a_step_of_a_rollout_wakes_its_resource_after_four_seconds() {
    let scene = Scene::of_web();
    let queue = Arc::clone(&scene.controller("Nginx").queue);
    let key = ObjectKey::new("ns", "web");
    let wait = Duration::from_millis(100);
    for (timer, wakes_after) in [(wait, wait), (Duration::from_secs(10), COALESCE)] {
        queue.add_after(key.clone(), timer);
        scene.deployment_changed(step(1));
        scene.deployment_changed(step(2));
        tokio::time::advance(wakes_after - Duration::from_millis(1)).await;
        assert_eq!(scene.enqueued(), NOBODY, "timer of {timer:?}");
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(scene.enqueued(), ["Nginx ns/web"], "timer of {timer:?}");
    }
    scene.deployment_changed(step(1));
    assert_eq!(scene.enqueued_later().await, ["Nginx ns/web"], "no timer");
}

#[tokio::test(start_paused = true)]
async fn the_first_report_of_a_deployment_enqueues_soon_and_one_of_an_earlier_spec_never() {
    let scene = Scene::of_web();
    let mut object = child("web", &[reference(NGINX, "Nginx web")]);
    object["metadata"]["generation"] = 2.into();
    for (observed, expected) in [(1, &NOBODY[..]), (2, &["Nginx ns/web"])] {
        let before = deployment(&object);
        object["status"] = json!({"observedGeneration": observed, "replicas": 1});
        scene.deployment_changed(updated(before, deployment(&object)));
        assert_eq!(scene.enqueued_later().await, expected, "{observed}");
    }
}

/// The status of a Deployment of one pod whose rollout is complete.
fn rolled_out() -> Value {
    json!({"observedGeneration": 0, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1})
}

fn pod(deployment: &str, is_ready: bool) -> CachedPod {
    let status = if is_ready { "True" } else { "False" };
    let object = json!({
        "metadata": {
            "namespace": "ns", "name": format!("{deployment}-5f7c-abcde"), "uid": "pod", "resourceVersion": "9",
            "labels": {"pod-template-hash": "5f7c"},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{deployment}-5f7c"),
                "uid": "rs", "controller": true,
            }],
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": status}]},
    });
    CachedPod::decode(&BRAND, &object).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_pod_wakes_the_owner_of_the_deployment_that_it_is_of() {
    let scene = Scene::of_web();
    let ready = |name| added(Arc::new(pod(name, true)));
    scene.handlers.pod_changed(&ready("web"));
    assert_eq!(scene.enqueued(), NOBODY, "its Deployment is not known yet");
    let children = &scene.handlers.children;
    let mut owned = child("web", &[reference(NGINX, "Nginx web")]);
    children.put_written(DEPLOYMENT, &owned, 0);
    children.put_written(DEPLOYMENT, &child("orphan", &[]), 0);
    scene.handlers.pod_changed(&ready("orphan"));
    assert_eq!(scene.enqueued(), NOBODY, "its Deployment is nobody's");
    scene.handlers.pod_changed(&ready("web"));
    assert_eq!(scene.enqueued_later().await, ["Nginx ns/web"]);
    owned["metadata"]["resourceVersion"] = "9".into();
    owned["status"] = rolled_out();
    children.put_written(DEPLOYMENT, &owned, 0);
    let (old, same) = (Arc::new(pod("web", true)), Arc::new(pod("web", true)));
    scene.handlers.pod_changed(&updated(Arc::clone(&old), same));
    assert_eq!(scene.enqueued(), NOBODY, "as ready as it was");
    let new = Arc::new(pod("web", false));
    scene.handlers.pod_changed(&updated(Arc::clone(&old), new));
    assert_eq!(scene.enqueued(), ["Nginx ns/web"]);
    scene.handlers.pod_changed(&deleted(old));
    assert_eq!(scene.enqueued(), ["Nginx ns/web"]);
}
