//! A changed default of the operator: paced rollouts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::{FORCE, Scenario, applied, refusal, rolled_out, willing};
use crate::object::ObjectKey;
use crate::reconcile::Action;
use quartet_operator::kinds::BRAND;
use quartet_workload::DEPLOYMENT;

fn stamp_of(body: &Value) -> Value {
    let text = body["metadata"]["annotations"][BRAND.applied].as_str();
    serde_json::from_str(text.expect("a stamp")).expect("JSON")
}

pub(super) fn another_may_begin(scenario: &Scenario) -> bool {
    let another = ObjectKey::new("ns", "another");
    scenario.reconciler.may_begin(&another)
}

pub(super) fn another_ends(scenario: &Scenario) {
    let another = ObjectKey::new("ns", "another");
    scenario.reconciler.begun.lock().remove(&another);
}

/// The answer to an apply that changes the Deployment for the second time.
fn changed(body: &Value) -> Value {
    let mut answer = applied(body, 11);
    answer["metadata"]["generation"] = json!(2);
    answer
}

/// The Deployment after a complete rollout of this generation.
fn rolled_out_in(replicas: i64, generation: i64) -> Value {
    let mut state = rolled_out(replicas);
    state["metadata"] = json!({"generation": generation});
    state["status"]["observedGeneration"] = generation.into();
    state
}

/// Stamps the Deployment as by an earlier paced rollout.
fn stamp_as_desired(deployment: &mut Value, desired: u64) {
    let mut stamp = stamp_of(deployment);
    stamp["desired"] = format!("{desired:016x}").into();
    stamp["rollout"] = json!(1);
    deployment["metadata"]["annotations"][BRAND.applied] = stamp.to_string().into();
}

/// The stamp of the Deployment, which was changed with the first request since the last call.
fn forced(scenario: &Scenario) -> Value {
    let body = scenario.sent.lock().expect("not poisoned")[0].1.clone();
    assert_eq!(scenario.sent()[0], FORCE, "it does not wait");
    stamp_of(&body)
}

/// A ready resource, written by a manager with another default image, in a paced rollout.
pub(super) async fn of_another_default() -> Scenario {
    // Later than the watch events.
    of_another_default_at(|line, body| {
        if line.contains("/status") {
            willing(line, body)
        } else {
            Some((200, changed(body)))
        }
    })
    .await
}

/// As [`of_another_default`], with these answers to all but the first apply.
pub(super) async fn of_another_default_at(
    script: impl Fn(&str, &Value) -> Option<(u16, Value)> + Send + Sync + 'static,
) -> Scenario {
    let scenario = Scenario::new(move |line, body| match line {
        line if line.contains("force=false") => willing(line, body),
        line => script(line, body),
    });
    scenario
        .reconciles(1, json!({"status": {"observedGeneration": 1}}))
        .await;
    let mut made = scenario.sent.lock().expect("not poisoned")[0].1.clone();
    made["spec"]["template"]["spec"]["containers"][0]["image"] = json!("older");
    let desired = quartet_applied::fingerprint::of_desired(&made, BRAND.applied).fields;
    stamp_as_desired(&mut made, desired);
    scenario.sent_ever.lock().expect("not poisoned")[0].1 = made;
    scenario.deployment_is(9, rolled_out(1));
    scenario.sent();
    scenario
}

#[tokio::test(start_paused = true)]
async fn a_changed_default_waits_for_its_turn_and_is_ready_meanwhile() {
    let scenario = of_another_default().await;
    assert!(another_may_begin(&scenario), "one at a time");
    for _ in 0..2 {
        let Ok(Action::RequeueAfter(wait)) = scenario.reconcile().await else {
            panic!("it looks again by itself")
        };
        assert!(wait <= Duration::from_secs(60), "{wait:?}");
        tokio::time::advance(wait).await;
    }
    assert_eq!(scenario.condition("Ready").0, "True", "as it was applied");
    assert!(!scenario.sent().contains(&FORCE.to_owned()));

    another_ends(&scenario);
    scenario.reconcile().await.expect("reconciled");
    assert_eq!(forced(&scenario)["rollout"], 2);
    assert!(!another_may_begin(&scenario), "the place is taken");
}

#[tokio::test(start_paused = true)]
async fn a_deployment_that_waits_and_is_scaled_down_is_repaired_at_once() {
    let scenario = of_another_default().await;
    assert!(another_may_begin(&scenario));
    let mut scaled = rolled_out_in(0, 2);
    scaled["spec"]["replicas"] = json!(0);
    scenario.deployment_is(10, scaled);
    scenario.reconcile().await.expect("reconciled");
    assert_eq!(forced(&scenario).get("rollout"), None);
}

#[tokio::test(start_paused = true)]
async fn a_deployment_that_drifted_waits_too_and_is_not_ready_meanwhile() {
    let scenario = of_another_default().await;
    assert!(another_may_begin(&scenario));
    let mut edited = rolled_out(1);
    edited["metadata"]["generation"] = json!(2);
    edited["spec"]["template"]["spec"]["automountServiceAccountToken"] = true.into();
    for (version, state, ready) in [(9, rolled_out(1), "True"), (10, edited, "False")] {
        scenario.deployment_is(version, state);
        for _ in 0..2 {
            scenario.reconcile().await.expect("reconciled");
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert_eq!(scenario.condition("Ready").0, ready);
    }
    assert_eq!(scenario.condition("Ready").1, "RolloutQueued");
    assert!(!scenario.sent().contains(&FORCE.to_owned()));
}

#[tokio::test(start_paused = true)]
async fn an_unavailable_deployment_of_an_earlier_paced_rollout_takes_no_place() {
    let scenario = of_another_default().await;
    let mut down = rolled_out(1);
    down["status"]["availableReplicas"] = json!(0);
    down["status"]["conditions"] = json!([
        {"type": "Available", "status": "False"},
        {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
    ]);
    scenario.deployment_is(10, down);
    scenario.reconcile().await.expect("reconciled");
    assert_eq!(forced(&scenario).get("rollout"), None);
    assert!(another_may_begin(&scenario));
}

#[tokio::test(start_paused = true)]
async fn a_rollout_without_an_answer_counts_when_the_cache_shows_it() {
    let scenario = of_another_default_at(|line, body| {
        if line.contains("/status") {
            willing(line, body)
        } else {
            refusal(500, "no", "", "")
        }
    })
    .await;
    scenario.reconcile().await.expect_err("no answer");
    let executed = json!({"metadata": {"generation": 2}});
    scenario.deployment_is(11, executed);
    scenario.reconcile().await.expect("it is as desired");
    assert!(!another_may_begin(&scenario));
}

#[tokio::test(start_paused = true)]
async fn a_resource_whose_deployment_is_gone_has_no_place() {
    let scenario = of_another_default().await;
    scenario.reconcile().await.expect("reconciled");
    assert!(!another_may_begin(&scenario), "one at a time");
    let paused = json!({"quartet-operator.example.com/paused": "true"});
    scenario.holds(1, json!({"metadata": {"annotations": paused}}));
    let deployments = scenario.children.store(DEPLOYMENT).expect("a cache");
    deployments.deleted(&ObjectKey::new("ns", "cache"), 20);
    scenario.reconcile().await.expect("paused");
    assert!(another_may_begin(&scenario));
}

#[tokio::test(start_paused = true)]
async fn a_complete_rollout_frees_its_place_although_the_status_cannot_be_written() {
    let is_failing = Arc::new(AtomicBool::new(false));
    let fails = Arc::clone(&is_failing);
    let scenario = of_another_default_at(move |line, body| {
        if !line.contains("/status") {
            Some((200, changed(body)))
        } else if fails.load(Ordering::Relaxed) {
            refusal(500, "no", "", "")
        } else {
            willing(line, body)
        }
    })
    .await;
    scenario.reconcile().await.expect("reconciled");
    is_failing.store(true, Ordering::Relaxed);
    scenario.holds(1, json!({}));
    let _ = scenario.reconcile().await;
    scenario.deployment_is(12, rolled_out_in(1, 2));
    scenario.after_ms(10_000).await.expect_err("no status");
    assert!(another_may_begin(&scenario));
}

#[tokio::test(start_paused = true)]
async fn a_users_change_of_a_rollout_that_does_not_complete_frees_no_place() {
    let scenario = of_another_default().await;
    scenario.reconcile().await.expect("reconciled");
    assert_eq!(scenario.sent(), [FORCE]);
    let mut stuck = rolled_out_in(1, 2);
    stuck["status"]["updatedReplicas"] = json!(0);
    scenario.deployment_is(12, stuck);
    let changed = json!({"metadata": {"generation": 2, "resourceVersion": "10"}});
    scenario.reconciles(2, changed).await;
    assert_eq!(forced(&scenario)["rollout"], 3, "the next leader counts it");
    let still_stuck = json!({"metadata": {"generation": 3}});
    scenario.deployment_is(13, still_stuck);
    scenario.reconcile().await.expect("reconciled");
    assert!(!another_may_begin(&scenario));
    scenario.deployment_is(20, rolled_out_in(2, 3));
    scenario.reconcile().await.expect("reconciled");
    assert!(another_may_begin(&scenario));
}

#[tokio::test(start_paused = true)]
async fn a_rollout_of_a_users_own_that_does_not_complete_takes_no_place() {
    for more in [
        json!({"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}),
        json!({"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate"}),
    ] {
        is_changed_without_a_place(more).await;
    }
}

async fn is_changed_without_a_place(more: Value) {
    let scenario = of_another_default().await;
    assert!(another_may_begin(&scenario));
    let mut stuck = rolled_out_in(1, 2);
    stuck["status"]["updatedReplicas"] = json!(0);
    let mut conditions = vec![json!({"type": "Available", "status": "True"})];
    stuck["status"]["conditions"] = conditions.clone().into();
    scenario.deployment_is(10, stuck.clone());
    scenario.reconcile().await.expect("it waits for its own");
    let deployment = |line: &String| line.contains("/deployments/");
    assert!(!scenario.sent().iter().any(deployment));
    conditions.push(more);
    stuck["status"]["conditions"] = conditions.into();
    scenario.deployment_is(11, stuck);
    scenario.reconcile().await.expect("reconciled");
    assert_eq!(forced(&scenario).get("rollout"), None);
}

#[tokio::test(start_paused = true)]
async fn a_deployment_that_a_user_paused_takes_no_place() {
    let scenario = of_another_default().await;
    let mut paused = rolled_out_in(1, 2);
    paused["spec"]["paused"] = true.into();
    scenario.deployment_is(10, paused);
    scenario.reconcile().await.expect("it waits");
    assert!(!scenario.sent().contains(&FORCE.to_owned()));
    assert!(another_may_begin(&scenario));
}

#[tokio::test(start_paused = true)]
async fn a_deployment_that_misses_a_pod_waits_while_it_is_available() {
    for (available, sent) in [("True", &[][..]), ("False", &[FORCE])] {
        let scenario = of_another_default().await;
        assert!(another_may_begin(&scenario));
        let mut drained = rolled_out(1);
        drained["metadata"]["generation"] = json!(2);
        drained["status"]["availableReplicas"] = json!(0);
        drained["status"]["conditions"] = json!([{"type": "Available", "status": available}]);
        scenario.deployment_is(10, drained);
        scenario.reconcile().await.expect("reconciled");
        let mut requests = scenario.sent();
        requests.retain(|line| line.contains("/deployments/"));
        assert_eq!(requests, sent, "{available}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_users_own_change_and_an_edit_by_hand_do_not_wait() {
    let scenario = of_another_default().await;
    assert!(another_may_begin(&scenario));
    let changed = json!({"metadata": {"generation": 2}});
    scenario.reconciles(2, changed).await;
    assert_eq!(forced(&scenario).get("rollout"), None);
    let mut edited = rolled_out(2);
    edited["spec"]["replicas"] = json!(7);
    scenario.deployment_is(20, edited);
    scenario.sent();
    scenario.reconcile().await.expect("reconciled");
    assert!(scenario.sent().contains(&FORCE.to_owned()));
}
