//! An outdated cache of resources: an older generation is never applied over a newer one.

use std::time::Duration;

use serde_json::{Value, json};

use super::{APPLY, FORCE, Scenario, applied, willing};
use crate::reconcile::Action;
use quartet_applied::fingerprint::of_observed;
use quartet_operator::kinds::BRAND;

const LIST: &str = "GET /apis/cache.example.com/v1alpha1/namespaces/ns/memcacheds?fieldSelector=metadata.name%3Dcache&limit=1";

/// A cached resource of generation 5, whose child another leader applied for generation 7; the API
/// server has the resource at generation `live`.
async fn behind(live: i64) -> Scenario {
    let scenario = Scenario::new(move |line, body| match line {
        line if line.contains("fieldSelector") => Some((
            200,
            json!({"items": [{
                "metadata": {"uid": "owner", "generation": live}, "spec": {"size": 2},
            }]}),
        )),
        line => willing(line, body),
    });
    scenario
        .reconciles(1, json!({"metadata": {"generation": 5}}))
        .await;
    let stamp = json!({"generation": 7, "spec": "00", "desired": "00"}).to_string();
    let newer =
        json!({"metadata": {"annotations": {BRAND.applied: stamp}}, "spec": {"replicas": 3}});
    scenario.deployment_is(9, newer);
    assert_eq!(scenario.sent(), [APPLY]);
    scenario
}

#[tokio::test(start_paused = true)]
async fn a_child_of_a_newer_generation_is_left_until_the_cache_has_it() {
    let scenario = behind(7).await;
    for _ in 0..2 {
        let next = scenario.reconcile().await;
        assert_eq!(next, Ok(Action::RequeueAfter(Duration::from_secs(1))));
        assert_eq!(scenario.sent(), [LIST], "neither a child nor a status");
    }
    let metadata = json!({"generation": 7, "resourceVersion": "8"});
    scenario.holds(2, json!({"metadata": metadata}));
    scenario.reconcile().await.expect("reconciled");
    assert_eq!(scenario.sent(), [LIST, FORCE]);
}

/// A resource of the older version, with a part of the hub's spec in an annotation, whose change makes no
/// generation.
fn with_data(data: Value) -> Value {
    let data = json!({"v1": data}).to_string();
    json!({
        "metadata": {
            "uid": "owner", "generation": 1,
            "annotations": {"quartet-operator.example.com/conversion-data": data},
        },
        "spec": {"size": 1},
    })
}

/// The API server has `live`.
fn server_with(live: Value) -> Scenario {
    Scenario::new(move |line, body| match line {
        line if line.contains("fieldSelector") => Some((200, json!({"items": [live]}))),
        line => willing(line, body),
    })
}

#[tokio::test(start_paused = true)]
async fn a_spec_that_changed_within_its_generation_is_not_applied_as_it_was_before() {
    let changed = with_data(json!({"image": "memcached:2"}));
    let scenario = server_with(changed.clone());
    scenario.reconciles(1, json!({})).await;
    let stamp = json!({"generation": 1, "spec": "00", "desired": "00"}).to_string();
    let later =
        json!({"metadata": {"annotations": {BRAND.applied: stamp}}, "spec": {"replicas": 3}});
    scenario.deployment_is(9, later);
    assert_eq!(scenario.sent(), [APPLY]);
    let next = scenario.reconcile().await;
    assert_eq!(next, Ok(Action::RequeueAfter(Duration::from_secs(1))));
    assert_eq!(scenario.sent(), [LIST], "neither a child nor a status");
    scenario.reconciles(1, changed).await;
    assert_eq!(scenario.sent(), [LIST, FORCE]);
}

#[tokio::test(start_paused = true)]
async fn a_child_that_a_later_annotation_of_the_same_generation_wants_is_not_deleted() {
    let with_service = with_data(json!({"service": {"enabled": true}}));
    let scenario = server_with(with_service.clone());
    scenario.reconciles(1, with_service).await;
    let applied = scenario.sent();
    assert_eq!(applied.len(), 2, "{applied:?}");
    // As an outdated API server has it.
    scenario.holds(1, json!({}));
    let next = scenario.reconcile().await;
    assert_eq!(next, Ok(Action::RequeueAfter(Duration::from_secs(1))));
    assert_eq!(scenario.sent(), [LIST], "nothing is deleted");
}

#[tokio::test(start_paused = true)]
async fn a_stamp_that_the_resource_has_not_reached_is_overwritten() {
    let scenario = behind(5).await;
    scenario.reconcile().await.expect("reconciled");
    let body = scenario.sent.lock().expect("not poisoned")[1].1.clone();
    assert_eq!(scenario.sent(), [LIST, FORCE]);
    let stamp = body["metadata"]["annotations"][BRAND.applied].as_str();
    let stamp: Value = serde_json::from_str(stamp.expect("a stamp")).expect("JSON");
    assert_eq!(stamp["generation"], 5);
}

#[tokio::test(start_paused = true)]
async fn a_write_names_the_state_of_the_child_that_it_is_made_for() {
    let scenario = Scenario::new(willing);
    scenario.reconciles(1, json!({})).await;
    let created = scenario.sent.lock().expect("not poisoned")[0].1.clone();
    assert_eq!(created["metadata"].get("resourceVersion"), None);
    scenario.deployment_is(9, json!({"spec": {"replicas": 3}}));
    scenario.reconcile().await.expect("reconciled");
    let forced = scenario.sent.lock().expect("not poisoned")[1].1.clone();
    assert_eq!(scenario.sent(), [APPLY, FORCE]);
    assert_eq!(forced["metadata"]["resourceVersion"], "9");
    assert_eq!(forced["metadata"]["uid"], "child");
}

#[test]
fn the_stamp_is_owned_and_moves_with_other_changes_only() {
    let mut body = json!({"apiVersion": "apps/v1", "metadata": {"annotations": {BRAND.applied: "1"}}, "spec": {"replicas": 1}});
    let manager = "quartet-operator-memcached";
    let of = |body: &Value| of_observed(&applied(body, 2), manager, BRAND.applied);
    let before = of(&body);
    body["metadata"]["annotations"][BRAND.applied] = json!("2");
    assert_eq!(of(&body), before);
    assert!(before.is_some());
}
