//! Children of an older operator: what must not change, and the order in which the rest is adopted.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::{APPLY, FORCE, GET, STATUS, Scenario, applied, merge, refusal, rolled_out, willing};
use crate::object::ObjectKey;
use crate::reconcile::Action;
use quartet_workload::DEPLOYMENT;

const HAND_OVER: &str = "PATCH /apis/apps/v1/namespaces/ns/deployments/cache?…";
const APPLY_SERVICE: &str = "PATCH /api/v1/namespaces/ns/services/cache?…&force=false";
const GET_SERVICE: &str = "GET /api/v1/namespaces/ns/services/cache";
const HAND_OVER_SERVICE: &str = "PATCH /api/v1/namespaces/ns/services/cache?…";
const FORCE_SERVICE: &str = "PATCH /api/v1/namespaces/ns/services/cache?…&force=true";

/// The selector of operator-sdk's scaffold.
fn selector() -> Value {
    json!({"matchLabels": {
        "app.kubernetes.io/name": "memcached-operator",
        "app.kubernetes.io/managed-by": "MemcachedController",
    }})
}

/// A child of `owner`, created by an older operator.
fn older(spec: Value) -> Value {
    json!({
        "metadata": {
            "name": "cache", "namespace": "ns", "uid": "child", "resourceVersion": "3",
            "ownerReferences": [{
                "apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached", "name": "cache",
                "uid": "owner", "controller": true,
            }],
            "managedFields": [{"manager": "manager", "operation": "Update", "fieldsV1": {
                "f:metadata": {"f:ownerReferences": {"k:{\"uid\":\"owner\"}": {}}},
            }}],
        },
        "spec": spec,
    })
}

/// A server with the child of an older operator at `path`.
fn holding(path: &'static str, child: Value) -> Scenario {
    Scenario::new(move |line, body| match line {
        line if !line.contains(path) => willing(line, body),
        line if line.starts_with("GET") => Some((200, child.clone())),
        line if line.contains("force=false") => {
            refusal(409, "conflict", "FieldManagerConflict", ".spec.selector")
        }
        line => willing(line, body),
    })
}

#[tokio::test(start_paused = true)]
async fn the_selector_of_an_older_operators_deployment_is_kept_for_good() {
    let scenario = holding("/deployments/", older(json!({"selector": selector()})));
    scenario.reconciles(1, json!({})).await;
    let body = |index: usize| scenario.sent.lock().expect("not poisoned")[index].1.clone();
    let forced = body(3);
    assert_eq!(scenario.sent(), [APPLY, GET, HAND_OVER, FORCE]);
    assert_eq!(forced["spec"]["selector"], selector());
    let labels = &forced["spec"]["template"]["metadata"]["labels"];
    assert_eq!(labels["app.kubernetes.io/name"], "memcached-operator");
    assert_eq!(labels["app.kubernetes.io/instance"], "cache");
    assert_eq!(labels["quartet-operator.example.com/kind"], "memcached");

    scenario.after_ms(20_000).await.expect("reconciled");
    let status = body(0)[1]["value"]["selector"].clone();
    assert_eq!(scenario.sent(), [STATUS], "nothing of the child differs");
    let pods = "app.kubernetes.io/instance=cache,app.kubernetes.io/name=memcached-operator,quartet-operator.example.com/kind=memcached";
    assert_eq!(status, pods);

    let changed = json!({"metadata": {"generation": 2}});
    scenario.reconciles(2, changed).await;
    let scaled = body(0);
    assert_eq!(scenario.sent(), [FORCE]);
    assert_eq!(scaled["spec"]["replicas"], 2);
    assert_eq!(scaled["spec"]["selector"], selector());
}

/// A server with a Deployment of an older operator that is rolled out whenever it is applied, each time in a
/// later version.
fn rolled_out_at_once() -> Scenario {
    let version = AtomicU32::new(10);
    Scenario::new(move |line, body| match line {
        GET => Some((200, older(json!({"selector": selector()})))),
        line if !line.contains("/deployments/") => willing(line, body),
        line if line.contains("force=false") => {
            refusal(409, "conflict", "FieldManagerConflict", ".spec.selector")
        }
        _ => {
            let mut answer = applied(body, version.fetch_add(1, Ordering::Relaxed));
            merge(&mut answer, rolled_out(1));
            Some((200, answer))
        }
    })
}

#[tokio::test(start_paused = true)]
async fn a_deployment_with_a_kept_selector_stays_ready_if_its_label_is_removed_once() {
    let scenario = rolled_out_at_once();
    scenario.reconciles(1, json!({})).await;
    scenario.after_ms(20_000).await.expect("reconciled");
    assert_eq!(scenario.condition("Ready").0, "True");
    let store = scenario.children.store(DEPLOYMENT).expect("a store");
    let key = ObjectKey::new("ns", "cache");
    let version = store.get(&key).expect("cached").meta.resource_version;
    store.deleted(&key, version);
    scenario.sent();
    scenario.reconcile().await.expect("reconciled");
    assert_eq!(scenario.sent(), [APPLY, GET, HAND_OVER, FORCE]);
    assert_eq!(scenario.condition("Ready").0, "True");
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_removes_the_label_is_found_out_although_a_selector_is_kept() {
    let scenario = rolled_out_at_once();
    scenario.holds(1, json!({}));
    let store = scenario.children.store(DEPLOYMENT).expect("a store");
    let key = ObjectKey::new("ns", "cache");
    for _ in 0..20 {
        scenario.after_ms(100).await.expect("reconciled");
        if let Some(child) = store.get(&key) {
            store.deleted(&key, child.meta.resource_version);
        }
    }
    let forced = scenario.sent().iter().filter(|line| *line == FORCE).count();
    assert_eq!(forced, 6);
    assert_eq!(scenario.condition("Ready").1, "FieldConflict");
}

/// Requests for children since the last call.
fn of_children(scenario: &Scenario) -> Vec<String> {
    let mut sent = scenario.sent();
    sent.retain(|line| line != STATUS);
    sent
}

#[tokio::test(start_paused = true)]
async fn the_service_of_an_older_operator_waits_for_the_rollout() {
    let service = older(json!({"selector": {"app": "memcached"}}));
    let scenario = holding("/services/", service);
    let asked = json!({"v1": {"service": {"enabled": true}}}).to_string();
    let annotated = json!({"metadata": {"annotations": {
        "quartet-operator.example.com/conversion-data": asked,
    }}});
    scenario.holds(1, annotated);
    let next = scenario.reconcile().await.expect("reconciled");
    let deployment = scenario.sent.lock().expect("not poisoned")[0].1.clone();
    let expected = [APPLY, APPLY_SERVICE, GET_SERVICE];
    assert_eq!(of_children(&scenario), expected, "it is left as it is");
    assert!(matches!(next, Action::RequeueAfter(wait) if wait <= Duration::from_secs(18)));
    assert_eq!(scenario.told(), Vec::<String>::new(), "nothing is wrong");

    // Whatever event enqueues the resource.
    scenario.reconcile().await.expect("reconciled");
    assert_eq!(of_children(&scenario), Vec::<String>::new());

    let mut complete = applied(&deployment, 9);
    merge(&mut complete, rolled_out(1));
    scenario.children.put_written(DEPLOYMENT, &complete, 0);
    scenario.reconcile().await.expect("reconciled");
    let expected = [APPLY_SERVICE, GET_SERVICE, HAND_OVER_SERVICE, FORCE_SERVICE];
    assert_eq!(of_children(&scenario), expected);
    assert_eq!(scenario.told(), ["Adopted"]);
}
