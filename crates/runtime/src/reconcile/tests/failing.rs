//! Failed writes and terminating children: the reported status, and the time of the retry.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::{APPLY, FORCE, STATUS, Scenario, refusal, rolled_out, willing};
use crate::reconcile::Action;

fn spec_changed() -> Value {
    json!({"metadata": {"resourceVersion": "7", "generation": 2}})
}

/// A ready resource, for which `refused` answers forced applies.
async fn ready_then(
    refused: impl Fn() -> Option<(u16, Value)> + Send + Sync + 'static,
) -> Scenario {
    let scenario = Scenario::new(move |line, body| match line {
        line if line.contains("force=true") => refused().or_else(|| willing(line, body)),
        line => willing(line, body),
    });
    scenario.reconciles(1, json!({})).await;
    scenario.deployment_is(4, rolled_out(1));
    for _ in 0..2 {
        scenario.after_ms(20_000).await.expect("reconciled");
    }
    assert_eq!(scenario.condition("Ready").0, "True");
    scenario.sent();
    scenario
}

#[tokio::test(start_paused = true)]
async fn a_spec_whose_write_fails_is_not_ready_and_degraded_after_30_s() {
    let scenario =
        ready_then(|| refusal(500, "failed calling webhook: no endpoints", "", "")).await;
    // Only the memory changes: neither the number of pods nor a Service.
    let data = json!({"v1": {"memory": 99}}).to_string();
    let mut changed = spec_changed();
    changed["metadata"]["annotations"] =
        json!({"quartet-operator.example.com/conversion-data": data});
    scenario.holds(1, changed);
    scenario.reconcile().await.expect_err("tried again");
    scenario.after_ms(501).await.expect_err("tried again");
    let (status, reason, message) = scenario.condition("Ready");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "ApplyFailed"));
    assert!(message.contains("failed calling webhook"), "{message}");
    assert_eq!(scenario.condition("Degraded").0, "False");
    assert_eq!(scenario.sent(), [FORCE, FORCE, STATUS]);
    assert_eq!(scenario.told(), Vec::<String>::new());

    scenario.after_ms(30_000).await.expect_err("tried again");
    assert_eq!(scenario.condition("Degraded").1, "ApplyFailed");
    assert_eq!(scenario.told(), ["ApplyFailed"], "one Event");
    scenario.after_ms(30_000).await.expect_err("tried again");
    assert_eq!(scenario.told(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_failed_request_does_not_end_the_problem_of_the_stored_status() {
    let fails = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&fails);
    let scenario = ready_then(move || {
        if seen.load(Ordering::Relaxed) {
            refusal(500, "failed calling webhook", "", "")
        } else {
            refusal(403, "exceeded quota: q", "", "")
        }
    })
    .await;
    scenario.holds(2, spec_changed());
    let next = scenario.reconcile().await.expect("blocked");
    assert_eq!(scenario.sent(), [FORCE, STATUS]);
    assert_eq!(scenario.told(), ["QuotaExceeded"]);
    fails.store(true, Ordering::Relaxed);
    let Action::RequeueAfter(wait) = next else {
        panic!("{next:?}")
    };
    tokio::time::advance(wait).await;
    for _ in 0..3 {
        scenario.reconcile().await.expect_err("tried again");
        assert_eq!(scenario.sent(), [FORCE]);
        tokio::time::advance(Duration::from_secs(5)).await;
    }
    assert_eq!(scenario.told(), Vec::<String>::new());
    scenario.after_ms(30_000).await.expect_err("tried again");
    assert_eq!(scenario.condition("Degraded").1, "ApplyFailed");
    assert_eq!(scenario.told(), ["ApplyFailed"]);
}

#[tokio::test(start_paused = true)]
async fn what_the_api_server_does_not_find_is_looked_at_again_after_15_s() {
    let scenario = ready_then(|| refusal(404, "the server could not find it", "", "")).await;
    scenario.holds(2, spec_changed());
    let next = scenario.reconcile().await.expect("no error");
    let limit = Duration::from_secs(18);
    let is_soon = matches!(next, Action::RequeueAfter(wait) if wait <= limit);
    assert!(is_soon, "{next:?}");
    scenario.after_ms(1_000).await.expect("no error");
    assert_eq!(scenario.condition("Ready").1, "ApplyFailed");
    assert_eq!(scenario.sent(), [FORCE, STATUS], "whatever wakes it");
    scenario.after_ms(18_000).await.expect("no error");
    assert_eq!(scenario.sent(), [FORCE]);
}

#[tokio::test(start_paused = true)]
async fn a_child_that_is_being_deleted_is_waited_for_and_told() {
    let scenario = ready_then(|| None).await;
    scenario.reconciles(2, spec_changed()).await;
    let deleting = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    scenario.deployment_is(9, deleting);
    scenario.sent();
    scenario.reconcile().await.expect("reconciled");
    scenario.after_ms(1_000).await.expect("reconciled");
    let (status, reason, message) = scenario.condition("Ready");
    let found = (status.as_str(), reason.as_str());
    assert_eq!(found, ("False", "ChildTerminating"));
    assert!(message.contains("Deployment cache"), "{message}");
    assert_eq!(scenario.sent(), [STATUS], "nothing is applied to it");
    scenario.after_ms(60_000).await.expect("reconciled");
    assert_eq!(scenario.condition("Degraded").1, "ChildTerminating");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_before_the_time_that_the_api_server_asks_for() {
    let scenario = ready_then(|| None).await;
    // As API Priority and Fairness does: a header, and plain text.
    scenario.asks_to_stay_away(Duration::from_secs(7));
    scenario.holds(2, spec_changed());
    let error = scenario.reconcile().await.expect_err("refused");
    assert!(error.contains("too many requests"), "{error}");
    scenario.sent();
    let next = scenario.after_ms(6_000).await;
    assert_eq!(next, Ok(Action::Held(Duration::from_secs(1))));
    assert_eq!(scenario.sent(), Vec::<String>::new());
    scenario.after_ms(1_000).await.expect("applied");
    assert_eq!(scenario.sent().first().map(String::as_str), Some(FORCE));
}

#[tokio::test(start_paused = true)]
async fn a_status_that_is_due_waits_for_the_retry_after_of_a_child_unless_it_is_degraded() {
    let scenario = ready_then(|| refusal(500, "busy", "", "")).await;
    scenario.holds(2, spec_changed());
    scenario.reconcile().await.expect_err("tried again");
    let found = scenario.sent();
    assert_eq!(found, [FORCE], "the status is due in half a second");
    tokio::time::advance(Duration::from_millis(501)).await;
    scenario.asks_to_stay_away(Duration::from_secs(7));
    scenario.reconcile().await.expect_err("refused");
    assert_eq!(scenario.sent(), Vec::<String>::new());
    scenario.after_ms(7_000).await.expect_err("tried again");
    assert_eq!(scenario.sent(), [FORCE, STATUS]);

    tokio::time::advance(Duration::from_secs(30)).await;
    scenario.asks_to_stay_away(Duration::from_secs(7));
    scenario.reconcile().await.expect_err("refused");
    assert_eq!(scenario.sent(), [STATUS], "it has lasted");
    assert_eq!(scenario.condition("Degraded").1, "ApplyFailed");
}

#[tokio::test(start_paused = true)]
async fn the_retry_after_of_a_status_counts_even_if_a_child_failed_before_it() {
    let busy = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 429, "message": "busy",
        "details": {"retryAfterSeconds": 7},
    });
    let scenario = Scenario::new(move |line, _| match line {
        line if line.contains("/status") => Some((429, busy.clone())),
        _ => refusal(500, "failed calling webhook: no endpoints", "", ""),
    });
    scenario.holds(1, json!({}));
    scenario.reconcile().await.expect_err("tried again");
    let error = scenario.after_ms(501).await.expect_err("tried again");
    assert!(error.contains("busy"), "{error}");
    assert_eq!(scenario.sent(), [APPLY, APPLY, STATUS]);
    let next = scenario.reconcile().await;
    assert_eq!(next, Ok(Action::Held(Duration::from_secs(7))));
    assert_eq!(scenario.sent(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_failure_before_a_pause_or_an_invalid_spec_does_not_count_after_it() {
    let paused = json!({"quartet-operator.example.com/paused": "true"});
    for (size, annotations) in [(2, paused), (-1, json!({}))] {
        let conflict = || refusal(409, "the object has been modified", "", "");
        let scenario = ready_then(conflict).await;
        scenario.holds(2, spec_changed());
        scenario.reconcile().await.expect_err("tried again");
        let metadata = json!({"generation": 3, "annotations": annotations});
        scenario.holds(size, json!({"metadata": metadata}));
        scenario.reconcile().await.expect("nothing is applied");
        tokio::time::advance(Duration::from_secs(31)).await;
        scenario.holds(2, json!({"metadata": {"generation": 4}}));
        scenario.told();
        scenario.reconcile().await.expect_err("tried again");
        assert_eq!(scenario.told(), Vec::<String>::new(), "it has just begun");
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_is_written_only_onto_the_version_it_was_computed_for() {
    let scenario = Scenario::new(willing);
    scenario
        .reconciles(1, json!({"metadata": {"generation": 5}}))
        .await;
    assert_eq!(scenario.sent(), [APPLY]);
    scenario.after_ms(20_000).await.expect("reconciled");
    let body = scenario.sent.lock().expect("not poisoned")[0].1.clone();
    let expected = json!({"op": "replace", "path": "/metadata/resourceVersion", "value": "1"});
    assert_eq!(body[0], expected);
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_changed_before_its_status_is_written_waits_for_its_event() {
    let scenario = Scenario::new(|line, body| match line {
        line if line.contains("/status") => refusal(409, "the object has been modified", "", ""),
        line => willing(line, body),
    });
    scenario.holds(1, json!({}));
    scenario.reconcile().await.expect("applied");
    let next = scenario.after_ms(20_000).await;
    assert_eq!(next, Ok(Action::RequeueAfter(Duration::from_secs(1))));
    assert_eq!(scenario.sent(), [APPLY, STATUS]);
}
