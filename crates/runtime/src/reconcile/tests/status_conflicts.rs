//! Another writer keeps changing a status: it is corrected a few times, and then less and less often.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::{STATUS, Scenario, refusal, rolled_out, willing};
use crate::reconcile::Action;

#[tokio::test(start_paused = true)]
async fn a_status_that_another_manager_keeps_changing_is_written_ever_more_rarely() {
    let scenario = Scenario::new(willing);
    let mut last = Ok(Action::AwaitChange);
    for _ in 0..20 {
        // As written by a manager that sees no problem.
        scenario.holds(-1, json!({"status": {"readyReplicas": 1}}));
        last = scenario.reconcile().await;
        tokio::time::advance(Duration::from_millis(10)).await;
    }
    let sent = scenario.sent();
    assert_eq!(sent.iter().filter(|line| *line == STATUS).count(), 6);
    assert!(matches!(last, Ok(Action::RequeueAfter(wait)) if wait <= Duration::from_secs(15)));
}

#[tokio::test(start_paused = true)]
async fn a_healthy_status_that_another_writer_keeps_changing_is_written_ever_more_rarely() {
    let counts = |status: &mut Value| status["readyReplicas"] = json!(7);
    // As written by a manager whose apply fails.
    let not_ready = |status: &mut Value| {
        let conditions = status["conditions"].as_array_mut().expect("conditions");
        let ready = conditions.iter_mut().find(|it| it["type"] == "Ready");
        let ready = ready.expect("the condition");
        (ready["status"], ready["reason"]) = (json!("False"), json!("ApplyFailed"));
    };
    for change in [counts, not_ready] {
        fight_about_a_healthy_status(change).await;
    }
}

async fn fight_about_a_healthy_status(change: fn(&mut Value)) {
    let scenario = Scenario::new(willing);
    scenario.holds(0, json!({}));
    scenario.reconcile().await.expect("applied");
    scenario.deployment_is(3, rolled_out(0));
    scenario.reconcile().await.expect("reconciled");
    assert_eq!(scenario.condition("Ready").0, "True");
    let mut next = Action::AwaitChange;
    for _ in 0..40 {
        let sent = scenario.sent_ever.lock().expect("not poisoned").clone();
        let (_, body) = sent.last().expect("a status was written");
        let mut status = body[1]["value"].clone();
        assert_eq!(status["observedGeneration"], 1);
        change(&mut status);
        scenario.holds(0, json!({"status": status}));
        next = scenario.reconcile().await.expect("reconciled");
        tokio::time::advance(Duration::from_millis(10)).await;
    }
    let sent = scenario.sent();
    let statuses = sent.iter().filter(|line| *line == STATUS);
    assert_eq!(statuses.count(), 6, "{sent:?}");
    assert!(matches!(next, Action::RequeueAfter(wait) if wait <= Duration::from_secs(15)));
    scenario.after_ms(15_000).await.expect("reconciled");
    assert_eq!(scenario.sent(), [STATUS], "one attempt after the wait");
}

/// The API server rejects each repair, and another manager sees no problem.
#[tokio::test(start_paused = true)]
async fn a_failed_apply_that_another_manager_calls_ready_is_written_ever_more_rarely() {
    let rejects = Arc::new(AtomicBool::new(false));
    let is_rejected = Arc::clone(&rejects);
    let scenario = Scenario::new(move |line, body| {
        if line.contains("/deployments/") && is_rejected.load(Ordering::Relaxed) {
            refusal(409, "the object has been modified", "Conflict", "")
        } else {
            willing(line, body)
        }
    });
    scenario.holds(0, json!({}));
    scenario.reconcile().await.expect("applied");
    scenario.deployment_is(3, rolled_out(0));
    scenario.reconcile().await.expect("reconciled");
    let ready = scenario.sent_ever.lock().expect("not poisoned").clone();
    let ready = &ready.last().expect("a status was written").1[1]["value"];
    scenario.sent();

    rejects.store(true, Ordering::Relaxed);
    let mut edited = rolled_out(0);
    edited["spec"]["template"]["spec"]["containers"] = json!([]);
    scenario.deployment_is(4, edited);
    for _ in 0..40 {
        scenario.holds(0, json!({"status": ready}));
        let failed = scenario.reconcile().await.expect_err("the apply fails");
        assert!(failed.contains("has been modified"), "{failed}");
        tokio::time::advance(Duration::from_millis(10)).await;
    }
    assert_eq!(scenario.condition("Ready").1, "ApplyFailed");
    let sent = scenario.sent();
    assert_eq!(sent.iter().filter(|line| *line == STATUS).count(), 6);
}

/// An original operator that still runs: it sets its finalizer and its status in each reconcile.
#[tokio::test(start_paused = true)]
async fn an_older_operator_that_still_runs_is_answered_ever_more_rarely() {
    let condition = json!({
        "type": "Available", "status": "Unknown", "reason": "Reconciling", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    answer_the_older_operator(&json!({"conditions": [condition]})).await;
    answer_the_older_operator(&json!({"nodes": ["b", "a"]})).await;
}

async fn answer_the_older_operator(status: &Value) {
    let scenario = Scenario::new(willing);
    let mut next = Action::AwaitChange;
    for number in 0..40 {
        let metadata = json!({"finalizers": ["cache.example.com/finalizer"]});
        scenario.holds(0, json!({"metadata": metadata, "status": status}));
        next = scenario.reconcile().await.expect("reconciled");
        if number == 0 {
            scenario.deployment_is(3, rolled_out(0));
        }
        tokio::time::advance(Duration::from_millis(10)).await;
    }
    let sent = scenario.sent();
    let count = |wanted: &str| sent.iter().filter(|line| *line == wanted).count();
    assert_eq!(count(STATUS), 6, "{sent:?}");
    let strip = "PATCH /apis/cache.example.com/v1alpha1/namespaces/ns/memcacheds/cache?…";
    assert_eq!(count(strip), 6, "{sent:?}");
    assert!(matches!(next, Action::RequeueAfter(wait) if wait <= Duration::from_secs(15)));
}
