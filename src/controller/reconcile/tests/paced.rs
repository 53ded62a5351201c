//! A changed default of the operator: paced rollouts.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};

use super::{FORCE, GET, Scenario, applied, merge, refusal, rolled_out, willing};
use crate::controller::drift::fingerprint::APPLIED;
use crate::controller::object::ObjectKey;
use crate::controller::reconcile::Action;
use crate::operators::DEPLOYMENT;

fn stamp_of(body: &Value) -> Value {
    let text = body["metadata"]["annotations"][APPLIED].as_str();
    serde_json::from_str(text.expect("a stamp")).expect("JSON")
}

/// The stamp of the Deployment, which was changed with the first request since the last call.
fn forced(scenario: &Scenario) -> Value {
    let body = scenario.sent.lock().expect("not poisoned")[0].1.clone();
    assert_eq!(scenario.sent()[0], FORCE, "it does not wait");
    stamp_of(&body)
}

/// A ready resource, written by a manager with another default image, in a paced rollout.
async fn of_another_default() -> Scenario {
    // Later than the watch events.
    of_another_default_at(|_, body| Some((200, applied(body, 11)))).await
}

/// As [`of_another_default`], with these answers to forced applies and reads of the Deployment.
async fn of_another_default_at(
    script: impl Fn(&str, &Value) -> Option<(u16, Value)> + Send + Sync + 'static,
) -> Scenario {
    let scenario = Scenario::new(move |line, body| match line {
        line if line.contains("force=true") || line == GET => script(line, body),
        line => willing(line, body),
    });
    scenario.holds(1, json!({"status": {"observedGeneration": 1}}));
    scenario.reconcile().await.expect("reconciled");
    let mut made = scenario.sent_ever.lock().expect("not poisoned")[0]
        .1
        .clone();
    made["spec"]["template"]["spec"]["containers"][0]["image"] = json!("older");
    let mut stamp = stamp_of(&made);
    let desired = crate::controller::drift::fingerprint::of_desired(&made).fields;
    stamp["desired"] = format!("{desired:016x}").into();
    stamp["rollout"] = json!(1);
    made["metadata"]["annotations"][APPLIED] = stamp.to_string().into();
    scenario.sent_ever.lock().expect("not poisoned")[0].1 = made;
    scenario.deployment_is(9, rolled_out(1));
    scenario.sent();
    scenario
}

#[tokio::test(start_paused = true)]
async fn a_changed_default_waits_for_its_turn_and_is_ready_meanwhile() {
    let scenario = of_another_default().await;
    let another = ObjectKey::new("ns", "another");
    assert!(
        scenario.reconciler.pacer.may_begin(&another),
        "one at a time"
    );
    for _ in 0..2 {
        let Ok(Action::RequeueAfter(_)) = scenario.reconcile().await else {
            panic!("it looks again by itself")
        };
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    assert_eq!(scenario.condition("Ready").0, "True", "as it was applied");
    assert!(!scenario.sent().contains(&FORCE.to_owned()));

    scenario.reconciler.pacer.ended(&another);
    let enqueued = scenario.queue.get().await;
    assert_eq!(enqueued, Some(ObjectKey::new("ns", "cache")));
    scenario.reconcile().await.expect("reconciled");
    assert_eq!(forced(&scenario)["rollout"], 2);
    assert!(
        !scenario.reconciler.pacer.may_begin(&another),
        "the place is taken"
    );
}

#[tokio::test(start_paused = true)]
async fn a_deployment_that_drifted_waits_too_and_is_not_ready_meanwhile() {
    let scenario = of_another_default().await;
    let another = ObjectKey::new("ns", "another");
    assert!(scenario.reconciler.pacer.may_begin(&another));
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
async fn a_place_is_given_back_when_the_rollout_is_complete() {
    let scenario = of_another_default().await;
    scenario.reconcile().await.expect("reconciled");
    let another = ObjectKey::new("ns", "another");
    assert!(!scenario.reconciler.pacer.may_begin(&another));
    scenario.deployment_is(12, rolled_out(1));
    scenario.reconcile().await.expect("reconciled");
    assert!(scenario.reconciler.pacer.may_begin(&another));
}

#[tokio::test(start_paused = true)]
async fn an_unavailable_deployment_of_an_earlier_paced_rollout_takes_no_place() {
    let scenario = of_another_default().await;
    let mut down = rolled_out(1);
    down["status"]["availableReplicas"] = json!(0);
    down["status"]["conditions"] = json!([{"type": "Available", "status": "False"}]);
    scenario.deployment_is(10, down);
    scenario.reconcile().await.expect("reconciled");
    assert_eq!(forced(&scenario).get("rollout"), None);
    let another = ObjectKey::new("ns", "another");
    assert!(scenario.reconciler.pacer.may_begin(&another));
}

/// What the API server answers to the apply, whether it has executed it, and whether it answers the read.
#[tokio::test(start_paused = true)]
async fn a_rollout_without_a_clear_answer_keeps_its_place_until_it_is_known_not_to_run() {
    for (answer, is_executed, is_read, may_another) in [
        (None, true, true, false),
        (None, true, false, false),
        (None, false, false, false),
        (None, false, true, true),
        (Some(409), false, true, true),
        (Some(500), true, true, false),
        (Some(403), false, false, true),
    ] {
        let live = Mutex::new(None);
        let scenario = of_another_default_at(move |line, body| {
            let mut live = live.lock().expect("not poisoned");
            if line == GET {
                return live.clone().filter(|_| is_read).map(|live| (200, live));
            }
            let mut after = applied(body, 11);
            match is_executed {
                true => after["metadata"]["generation"] = json!(2),
                false => merge(&mut after, rolled_out(1)),
            }
            *live = Some(after);
            refusal(answer?, "no", "", "")
        })
        .await;
        let what = format!("{answer:?} {is_executed} {is_read}");
        let _ = scenario.reconcile().await;
        let another = ObjectKey::new("ns", "another");
        let may = scenario.reconciler.pacer.may_begin(&another);
        assert_eq!(may, may_another, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_refused_stays_reported_while_its_next_attempt_waits() {
    let scenario = of_another_default_at(|_, _| refusal(403, "denied by policy", "", "")).await;
    scenario.reconcile().await.expect("refused");
    assert_eq!(scenario.told(), ["ApplyRefused"]);
    let another = ObjectKey::new("ns", "another");
    assert!(scenario.reconciler.pacer.may_begin(&another));
    tokio::time::advance(Duration::from_secs(20)).await;
    scenario.reconcile().await.expect("it waits");
    assert_eq!(scenario.told(), Vec::<String>::new());
    assert_eq!(scenario.condition("Degraded").0, "True");
}

#[tokio::test(start_paused = true)]
async fn a_users_change_of_a_rollout_that_does_not_complete_frees_no_place() {
    let scenario = of_another_default().await;
    scenario.reconcile().await.expect("reconciled");
    assert_eq!(scenario.sent(), [FORCE]);
    let mut stuck = rolled_out(1);
    stuck["status"]["updatedReplicas"] = json!(0);
    scenario.deployment_is(12, stuck);
    let changed = json!({"metadata": {"generation": 2, "resourceVersion": "10"}});
    scenario.holds(2, changed);
    scenario.reconcile().await.expect("reconciled");
    assert_eq!(forced(&scenario)["rollout"], 2, "the next leader counts it");
    let another = ObjectKey::new("ns", "another");
    assert!(!scenario.reconciler.pacer.may_begin(&another));
    scenario.deployment_is(20, rolled_out(2));
    scenario.reconcile().await.expect("reconciled");
    assert!(scenario.reconciler.pacer.may_begin(&another));
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
    let another = ObjectKey::new("ns", "another");
    assert!(scenario.reconciler.pacer.may_begin(&another));
    let mut stuck = rolled_out(1);
    stuck["metadata"]["generation"] = json!(2);
    stuck["status"]["observedGeneration"] = json!(2);
    stuck["status"]["updatedReplicas"] = json!(0);
    let mut conditions = vec![json!({"type": "Available", "status": "True"})];
    stuck["status"]["conditions"] = conditions.clone().into();
    scenario.deployment_is(10, stuck.clone());
    scenario
        .reconcile()
        .await
        .expect("it waits for its own rollout");
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
    let mut paused = rolled_out(1);
    paused["metadata"]["generation"] = json!(2);
    paused["status"]["observedGeneration"] = json!(2);
    paused["spec"]["paused"] = true.into();
    scenario.deployment_is(10, paused);
    scenario.reconcile().await.expect("it waits");
    assert!(!scenario.sent().contains(&FORCE.to_owned()));
    let another = ObjectKey::new("ns", "another");
    assert!(scenario.reconciler.pacer.may_begin(&another));
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

#[tokio::test(start_paused = true)]
async fn a_deployment_that_misses_a_pod_waits_while_it_is_available() {
    for (available, sent) in [("True", &[][..]), ("False", &[FORCE])] {
        let scenario = of_another_default().await;
        let another = ObjectKey::new("ns", "another");
        assert!(scenario.reconciler.pacer.may_begin(&another));
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
    assert!(
        scenario
            .reconciler
            .pacer
            .may_begin(&ObjectKey::new("ns", "another"))
    );
    scenario.holds(
        2,
        json!({"metadata": {"generation": 2, "resourceVersion": "10"}}),
    );
    scenario.reconcile().await.expect("reconciled");
    let body = scenario.sent.lock().expect("not poisoned")[0].1.clone();
    assert_eq!(scenario.sent(), [FORCE]);
    assert_eq!(stamp_of(&body).get("rollout"), None);

    scenario
        .sent
        .lock()
        .expect("not poisoned")
        .push((String::new(), body));
    let mut edited = rolled_out(2);
    edited["spec"]["replicas"] = json!(7);
    scenario.deployment_is(20, edited);
    scenario.sent();
    scenario.reconcile().await.expect("reconciled");
    assert!(scenario.sent().contains(&FORCE.to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_gives_up_its_turn_holds_up_no_other() {
    let scenario = of_another_default().await;
    let (rolling, later) = (ObjectKey::new("ns", "a"), ObjectKey::new("ns", "later"));
    assert!(scenario.reconciler.pacer.may_begin(&rolling));
    scenario.reconcile().await.expect("it waits");
    assert!(
        !scenario.reconciler.pacer.may_begin(&later),
        "it waits, too"
    );
    scenario.holds(
        1,
        json!({"metadata": {"annotations": {"quartet-operator.example.com/paused": "true"}}}),
    );
    scenario.reconciler.pacer.ended(&rolling);
    assert_eq!(
        scenario.queue.get().await,
        Some(ObjectKey::new("ns", "cache"))
    );
    scenario.reconcile().await.expect("it is paused");
    assert_eq!(scenario.queue.get().await, Some(later.clone()));
    assert!(scenario.reconciler.pacer.may_begin(&later));
}

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
    for watched in [BTreeSet::new(), BTreeSet::from(["ns".to_owned()])] {
        let mut scenario = of_another_default().await;
        scenario.reconciler.pacer.namespaces = watched;
        scenario.holds(1, json!({"metadata": {"name": "rolling", "uid": "o"}}));
        let rolling = rolling_in("ns");
        scenario.children.put_written(DEPLOYMENT, &rolling);
        let another = ObjectKey::new("ns", "another");
        assert!(!scenario.reconciler.pacer.may_begin(&another));
    }
}

#[tokio::test(start_paused = true)]
async fn a_rollout_of_a_resource_that_is_not_reconciled_here_takes_no_place() {
    for (what, namespace, known) in [
        ("deleted, or of another shard", "ns", None),
        ("replaced by another of that name", "ns", Some("later")),
        ("of a namespace that is not watched", "other", Some("o")),
    ] {
        let mut scenario = of_another_default().await;
        scenario.reconciler.pacer.namespaces = BTreeSet::from(["ns".to_owned()]);
        if let Some(uid) = known {
            let metadata = json!({"name": "rolling", "namespace": namespace, "uid": uid});
            scenario.holds(1, json!({"metadata": metadata}));
        }
        let rolling = rolling_in(namespace);
        scenario.children.put_written(DEPLOYMENT, &rolling);
        let another = ObjectKey::new("ns", "another");
        assert!(scenario.reconciler.pacer.may_begin(&another), "{what}");
    }
}
