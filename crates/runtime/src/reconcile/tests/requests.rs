//! The requests for a resource from its first apply to its deletion.

use std::time::Duration;

use serde_json::{Value, json};

use super::{APPLY, FORCE, STATUS, Scenario, refusal, willing};
use crate::reconcile::Action;

const PAUSED: &str = "quartet-operator.example.com/paused";

/// Removes the finalizer of an older operator.
const STRIP: &str = "PATCH /apis/cache.example.com/v1alpha1/namespaces/ns/memcacheds/cache?…";

#[tokio::test(start_paused = true)]
async fn a_new_resource_costs_one_unforced_apply_and_one_status_later() {
    let scenario = Scenario::new(willing);
    scenario.holds(1, json!({}));
    let wait = Duration::from_millis(500);
    let next = scenario.reconcile().await;
    assert_eq!(next, Ok(Action::RequeueAfter(wait)), "the status waits");
    tokio::time::advance(wait).await;
    assert_eq!(scenario.sent(), [APPLY]);
    assert_eq!(scenario.reconcile().await, Ok(Action::AwaitChange));
    assert_eq!(scenario.sent(), [STATUS]);
    assert_eq!(scenario.reconcile().await, Ok(Action::AwaitChange));
    assert_eq!(scenario.sent(), Vec::<String>::new(), "and nothing more");
}

#[tokio::test(start_paused = true)]
async fn what_the_api_server_makes_of_an_apply_is_not_fought() {
    let scenario = Scenario::new(|line, body| {
        let (code, mut object) = willing(line, body)?;
        if line.contains("force=") {
            object["spec"]["replicas"] = json!(7);
        }
        Some((code, object))
    });
    scenario.reconciles(1, json!({})).await;
    assert_eq!(scenario.sent(), [APPLY]);
    scenario.after_ms(20_000).await.expect("reconciled");
    scenario.reconcile().await.expect("reconciled");
    assert_eq!(scenario.sent(), [STATUS]);
    // A new desired state is sent, whatever the result of the last one.
    let changed = json!({"metadata": {"generation": 2}});
    scenario.reconciles(2, changed).await;
    assert_eq!(scenario.sent(), [FORCE]);
}

#[tokio::test(start_paused = true)]
async fn fault_49_a_resource_that_is_being_deleted_gets_one_status_and_nothing_else() {
    let scenario = Scenario::new(willing);
    let condition = |type_: &str, status: &str| {
        let time = "2026-01-01T00:00:00Z";
        json!({"type": type_, "status": status, "reason": "Paused", "message": "", "lastTransitionTime": time})
    };
    scenario.holds(
        1,
        json!({
            "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "annotations": {PAUSED: "true"}},
            "status": {
                "replicas": 3, "readyReplicas": 3, "nodes": ["a"], "selector": "app=a", "observedGeneration": 1,
                "conditions": [condition("Ready", "Unknown"), condition("Available", "True"), condition("Degraded", "True")],
            },
        }),
    );
    let wait = Duration::from_millis(500);
    let next = scenario.reconcile().await;
    assert_eq!(next, Ok(Action::RequeueAfter(wait)), "it may be gone soon");
    let found = scenario.reconcile_after(wait).await;
    assert_eq!(found, Ok(Action::AwaitChange));
    let status = scenario.sent.lock().expect("not poisoned")[0].1[1]["value"].clone();
    assert_eq!(scenario.sent(), [STATUS]);
    let told: Vec<_> = ["Ready", "Available", "Degraded"]
        .map(|type_| scenario.condition(type_))
        .map(|(status, reason, _)| format!("{status} {reason}"))
        .into();
    let expected = ["False Terminating", "Unknown Terminating", "True Paused"];
    assert_eq!(told, expected);
    assert_eq!(status["selector"], "app=a", "for the scale subresource");
    let numbers = ["replicas", "readyReplicas"].map(|field| status.get(field));
    assert_eq!((numbers, &status["nodes"]), ([None, None], &json!([])));
    assert_eq!(scenario.told(), Vec::<String>::new(), "it is not resumed");
    assert_eq!(scenario.reconcile().await, Ok(Action::AwaitChange));
    let wanted = Vec::<String>::new();
    assert_eq!(scenario.sent(), wanted, "whatever becomes of its children");
}

#[tokio::test(start_paused = true)]
async fn fault_33_the_finalizer_of_an_older_operator_is_stripped_and_no_other() {
    let scenario = Scenario::new(willing);
    scenario.holds(
        1,
        json!({"metadata": {
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": ["theirs.example.com/one", "cache.example.com/finalizer"],
        }}),
    );
    assert_eq!(scenario.reconcile().await, Ok(Action::AwaitChange));
    let sent = scenario.sent.lock().expect("not poisoned").clone();
    assert_eq!(sent.len(), 1);
    let removal = json!({"op": "remove", "path": "/metadata/finalizers/1"});
    assert_eq!(sent[0].1[2], removal);
}

/// A resource with a finalizer of an older operator, which a policy keeps.
fn with_a_finalizer_that_stays(annotations: Value) -> Scenario {
    let scenario = Scenario::new(|line, body| match line {
        line if line.contains("memcacheds/cache?") => refusal(403, "denied by a policy", "", ""),
        line => willing(line, body),
    });
    let finalizers = json!(["cache.example.com/finalizer"]);
    let metadata = json!({"finalizers": finalizers, "annotations": annotations});
    scenario.holds(1, json!({"metadata": metadata}));
    scenario
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_that_stays_prevents_neither_children_nor_status() {
    let scenario = with_a_finalizer_that_stays(json!({}));
    scenario.asks_to_stay_away(Duration::from_secs(7));
    scenario.reconcile().await.expect_err("tried again");
    assert_eq!(scenario.sent(), Vec::<String>::new(), "nothing else");
    let error = scenario.after_ms(7_000).await.expect_err("tried again");
    assert!(error.contains("denied by a policy"), "{error}");
    assert_eq!(scenario.sent(), [STRIP, APPLY]);
    scenario.after_ms(30_000).await.expect_err("tried again");
    assert_eq!(scenario.sent(), [STRIP, STATUS]);
}

#[tokio::test(start_paused = true)]
async fn a_paused_resource_with_a_finalizer_that_stays_has_a_status() {
    let paused = json!({"quartet-operator.example.com/paused": "true"});
    let scenario = with_a_finalizer_that_stays(paused);
    scenario.reconcile().await.expect_err("tried again");
    let error = scenario.after_ms(4_000).await.expect_err("tried again");
    assert!(error.contains("denied by a policy"), "{error}");
    assert_eq!(scenario.sent(), [STRIP, STRIP, STATUS]);
    assert_eq!(scenario.condition("Ready").1, "Paused");
}

#[tokio::test(start_paused = true)]
async fn fault_50_a_namespace_that_is_going_away_gets_neither_child_nor_status() {
    let scenario = Scenario::new(|_, _| refusal(403, "forbidden", "NamespaceTerminating", ""));
    scenario.holds(1, json!({}));
    assert_eq!(scenario.reconcile().await, Ok(Action::AwaitChange));
    assert_eq!(scenario.sent(), [APPLY]);
}

#[tokio::test(start_paused = true)]
async fn a_call_without_an_answer_ends_at_its_deadline() {
    let scenario = Scenario::new(|_, _| None);
    scenario.holds(1, json!({}));
    let started = tokio::time::Instant::now();
    let error = scenario.reconcile().await.expect_err("no answer");
    let expected = "cannot apply deployments ns/cache: no answer within 10 s";
    assert_eq!(error, expected);
    let took = started.elapsed();
    assert!(took < Duration::from_secs(21), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn fault_48_an_invalid_spec_is_told_and_nothing_is_applied() {
    let scenario = Scenario::new(|line, body| {
        let (code, mut object) = willing(line, body)?;
        object["spec"]["size"] = json!(-1);
        Some((code, object))
    });
    scenario.holds(-1, json!({}));
    assert_eq!(scenario.reconcile().await, Ok(Action::AwaitChange));
    let body = scenario.sent.lock().expect("not poisoned")[0].1.to_string();
    // Of the version that was read.
    let is_told = body.contains("spec.size: Invalid value: -1");
    assert!(is_told, "{body}");
    let sent = scenario.sent();
    assert_eq!(sent[0], STATUS, "{sent:?}");
    assert!(!sent.iter().any(|line| line.contains("deployments")));
}
