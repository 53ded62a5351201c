//! A Deployment with spread constraints that an earlier release applied: they select without the label of
//! the kind, and the new selector is in the pod template, so that it waits for the next rollout.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::{FORCE, Scenario, applied, merge, rolled_out, willing};
use quartet_workload::DEPLOYMENT;

const KIND_LABEL: &str = "quartet-operator.example.com/kind";
const LABELS: &str = "/spec/template/spec/topologySpreadConstraints/0/labelSelector/matchLabels";

/// The resource with this number of pods and this image, in its next generation.
fn hold(scenario: &Scenario, replicas: i64, image: &str) {
    let generation = scenario.version.load(Ordering::Relaxed);
    let constraint =
        json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"});
    let scheduling = json!({"topologySpreadConstraints": [constraint]});
    let spec = json!({"replicas": replicas, "image": image, "scheduling": scheduling});
    let metadata = json!({"generation": generation});
    let object = json!({"apiVersion": "cache.example.com/v1", "metadata": metadata, "spec": spec});
    scenario.holds(1, object);
}

/// The body of the last apply.
fn last_apply(scenario: &Scenario) -> Value {
    let sent = scenario.sent_ever.lock().expect("not poisoned");
    let mut applies = sent.iter().filter(|(line, _)| line.contains("force="));
    applies.next_back().expect("an apply").1.clone()
}

/// Reports whether the constraint of the last apply selects by the kind, too.
fn selects_by_kind(scenario: &Scenario) -> bool {
    let body = last_apply(scenario);
    body.pointer(LABELS)
        .expect("labels")
        .get(KIND_LABEL)
        .is_some()
}

/// The Deployment with this number of pods is rolled out, as an earlier release applied it.
async fn of_an_earlier_release(replicas: i64) -> Scenario {
    let scenario = Scenario::new(willing);
    hold(&scenario, replicas, "memcached:1");
    scenario.reconcile().await.expect("reconciled");
    assert!(selects_by_kind(&scenario), "a new Deployment");
    let mut body = last_apply(&scenario);
    let labels = body.pointer_mut(LABELS).and_then(Value::as_object_mut);
    labels.expect("labels").remove(KIND_LABEL);
    let mut object = applied(&body, 5);
    merge(&mut object, rolled_out(replicas));
    let written = scenario.children.put_written(DEPLOYMENT, &object, 0);
    written.expect("decodes, and is ours");
    scenario.sent();
    scenario
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_leaves_the_selector_of_a_spread_constraint_to_the_next_rollout() {
    let scenario = of_an_earlier_release(3).await;
    scenario.reconcile().await.expect("reconciled");
    assert!(!scenario.sent().contains(&FORCE.to_owned()));
    hold(&scenario, 5, "memcached:1");
    scenario.reconcile().await.expect("reconciled");
    assert!(scenario.sent().contains(&FORCE.to_owned()));
    assert!(!selects_by_kind(&scenario), "more pods are no rollout");
    assert_eq!(last_apply(&scenario)["spec"]["replicas"], 5);
    scenario.deployment_is(20, rolled_out(5));
    hold(&scenario, 5, "memcached:2");
    scenario.reconcile().await.expect("reconciled");
    assert!(scenario.sent().contains(&FORCE.to_owned()));
    assert!(selects_by_kind(&scenario), "every pod is replaced anyway");
}

#[tokio::test(start_paused = true)]
async fn a_scale_by_hand_is_repaired_without_a_rollout() {
    let scenario = of_an_earlier_release(3).await;
    let mut body = last_apply(&scenario);
    // As 0.1.0 left it.
    let container = &mut body["spec"]["template"]["spec"]["containers"][0];
    container
        .as_object_mut()
        .expect("fields")
        .remove("imagePullPolicy");
    let mut object = applied(&body, 6);
    let labels = object.pointer_mut(LABELS).and_then(Value::as_object_mut);
    labels.expect("labels").remove(KIND_LABEL);
    merge(&mut object, json!({"spec": {"replicas": 0}}));
    let written = scenario.children.put_written(DEPLOYMENT, &object, 0);
    written.expect("decodes, and is ours");
    scenario.reconcile().await.expect("reconciled");
    assert_eq!(last_apply(&scenario)["spec"]["replicas"], 3);
    assert!(!selects_by_kind(&scenario));
}
