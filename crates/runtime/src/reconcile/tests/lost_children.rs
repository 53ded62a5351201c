//! A child is missing: the garbage collector may see the deletion of the resource before this watch.

use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

use super::{APPLY, Scenario, applied};
use crate::object::ObjectKey;
use crate::reconcile::Action;
use quartet_workload::DEPLOYMENT;

const LIST: &str = "GET /apis/cache.example.com/v1alpha1/namespaces/ns/memcacheds?fieldSelector=metadata.name%3Dcache&limit=1";

/// A resource that has lost its Deployment, and an API server with `found` of it.
async fn after_a_loss(found: Value) -> Scenario {
    let version = AtomicU32::new(1);
    let scenario = Scenario::new(move |line, body| match line {
        line if line.contains("fieldSelector") => Some((200, json!({"items": found}))),
        // Later than the loss, if it is created again.
        _ => Some((200, applied(body, version.fetch_add(20, Ordering::Relaxed)))),
    });
    scenario.reconciles(1, json!({})).await;
    assert_eq!(scenario.sent(), [APPLY], "a new one costs no question");
    lose(&scenario);
    scenario
}

/// The garbage collector, or a user, deletes the Deployment.
fn lose(scenario: &Scenario) {
    let key = ObjectKey::new("ns", "cache");
    let deleted = scenario
        .children
        .store(DEPLOYMENT)
        .unwrap()
        .deleted(&key, 9);
    assert_eq!(deleted.len(), 1, "it was there");
    let states = &scenario.reconciler.states;
    states.of(&key, "owner").has_lost_child = true;
}

#[tokio::test(start_paused = true)]
async fn a_lost_child_of_a_resource_that_is_gone_is_not_made_anew() {
    let later = json!([{"metadata": {"uid": "later"}}]);
    let ending =
        json!([{"metadata": {"uid": "owner", "deletionTimestamp": "2026-01-01T00:00:00Z"}}]);
    for found in [json!([]), later, ending] {
        let scenario = after_a_loss(found.clone()).await;
        for _ in 0..2 {
            let next = scenario.reconcile().await;
            assert!(
                matches!(next, Ok(Action::RequeueAfter(wait)) if wait.as_secs() >= 12),
                "in case the watch does not tell: {next:?}, {found}"
            );
            assert_eq!(scenario.sent(), [LIST], "{found}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_child_of_a_resource_that_lives_is_made_anew_after_one_question() {
    let scenario = after_a_loss(json!([{"metadata": {"uid": "owner"}, "spec": {"size": 1}}])).await;
    scenario.reconcile().await.expect("reconciled");
    assert_eq!(scenario.sent(), [LIST, APPLY]);
    scenario.reconcile().await.expect("reconciled");
    assert_eq!(scenario.sent(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn what_was_lost_is_forgotten_with_the_resource() {
    let scenario = after_a_loss(json!([])).await;
    let key = ObjectKey::new("ns", "cache");
    let states = &scenario.reconciler.states;
    assert!(states.of(&key, "owner").has_lost_child);
    states.forget(&key, "owner");
    assert!(!states.of(&key, "owner").has_lost_child);
    states.of(&key, "owner").has_lost_child = true;
    assert!(!states.of(&key, "another of this name").has_lost_child);
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_that_began_before_the_resource_was_gone_makes_nothing_for_it() {
    let scenario = Scenario::new(|line, body| match line {
        // The status, which is written between the two reads of the cache.
        line if line.contains("/status") => Some((200, json!({}))),
        _ => Some((200, applied(body, 2))),
    });
    let key = ObjectKey::new("ns", "cache");
    // Removed first, with a request.
    let finalizers = json!({"metadata": {"finalizers": ["cache.example.com/finalizer"]}});
    scenario.holds(1, finalizers);
    let reconciling = scenario.reconcile();
    let ending = async {
        scenario.resources.deleted(&key, 9);
    };
    // The first is polled first, and waits for its answer.
    let (next, ()) = tokio::join!(reconciling, ending);
    assert_eq!(next, Ok(Action::AwaitChange));
    let sent = scenario.sent();
    assert_eq!(sent.len(), 1, "the finalizer, and no child: {sent:?}");
}
