//! The condition `Ready` names pods that do not start, with the container and the reason.
//! `Degraded` becomes true when a pod has been in that state for 60 s. The simulated nodes keep the
//! pod statuses that the test writes.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::changes;
use testkit::{
    DEADLINE, Limit, MEMCACHED, POD, TestEnv, condition, is_degraded, is_ready, message,
};

const SOON: Duration = Duration::from_secs(20);

/// Returns the name of the only pod of a Memcached, once it exists.
async fn pod_of(env: &TestEnv, name: &str) -> String {
    let mut limit = Limit::new(DEADLINE);
    loop {
        let pods = env.list(POD).await;
        let mut names = pods
            .iter()
            .filter_map(|pod| pod["metadata"]["name"].as_str());
        if let Some(pod) = names.find(|pod| pod.starts_with(&format!("{name}-"))) {
            return pod.to_owned();
        }
        limit.pause(|| format!("{name} has no pod")).await;
    }
}

/// Returns a time some seconds ago, in the format of a condition.
fn seconds_ago(seconds: i64) -> String {
    let time = Timestamp::now() - SignedDuration::from_secs(seconds);
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Writes the state of the only container, as a kubelet does.
async fn set_state(env: &TestEnv, pod: &str, ready: bool, state: &Value) {
    let image = "docker.io/library/memcached:1.6.39-alpine";
    let status = if ready { "True" } else { "False" };
    let since = seconds_ago(if ready { 0 } else { 10 });
    let condition =
        |type_: &str| json!({"type": type_, "status": status, "lastTransitionTime": since});
    let patch = json!({"status": {
        "phase": "Running",
        "conditions": [condition("Ready"), condition("ContainersReady")],
        "containerStatuses": [{
            "name": "memcached", "image": image, "imageID": "", "ready": ready, "started": ready,
            "restartCount": 3, "state": state, "lastState": {},
        }],
    }});
    env.patch_status(POD, pod, patch).await;
}

/// Waits until the resource is not Ready for this reason, and Degraded once the pod has been in
/// that state for 60 s.
async fn assert_reported(env: &TestEnv, name: &str, pod: &str, reason: &str, tells: &[&str]) {
    let resource = (MEMCACHED, name);
    let (object, _) = env.until_not_ready_for(resource, reason, SOON).await;
    // The state is younger than 60 s.
    let status = &object["status"];
    assert!(!is_degraded(&object), "too early: {status:#}");
    let text = message(&object, "Ready");
    for part in [&[pod][..], tells].concat() {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
    let limit = Duration::from_secs(65);
    let (object, took) = env
        .until_within(resource, "Degraded", limit, is_degraded)
        .await;
    assert!(took > Duration::from_secs(3), "Degraded after {took:?}");
    let degraded = condition(&object, "Degraded").expect("there");
    assert_eq!(degraded["reason"], reason, "{degraded}");
    // While the pod waits for its next restart, the reason stays the same.
    assert!(!is_ready(&object));
}

/// A container whose image cannot be pulled, as a kubelet writes it.
async fn container(env: &TestEnv) {
    let pod = pod_of(env, "pull").await;
    let (reason, told) = ("ImagePullBackOff", "Back-off pulling image \"nowhere:1\"");
    let state = json!({"waiting": {"reason": reason, "message": told}});
    set_state(env, &pod, false, &state).await;
    let tells = ["Back-off pulling image", "memcached"];
    assert_reported(env, "pull", &pod, reason, &tells).await;
    let running = json!({"running": {"startedAt": seconds_ago(0)}});
    set_state(env, &pod, true, &running).await;
    let ready = |object: &Value| is_ready(object) && !is_degraded(object);
    env.until_within((MEMCACHED, "pull"), "well again", SOON, ready)
        .await;
}

/// Here the real scheduler writes the condition.
async fn unschedulable(env: &TestEnv) {
    let object = |selector: Value| {
        let mut object = MEMCACHED.object("nowhere", json!({"size": 1}));
        let data = json!({"v1": {"scheduling": {"nodeSelector": selector}}}).to_string();
        object["metadata"]["annotations"] =
            json!({"quartet-operator.example.com/conversion-data": data});
        object
    };
    env.apply(&object(json!({"no": "such-node"})))
        .await
        .expect("applied");
    let pod = pod_of(env, "nowhere").await;
    env.until(POD, &pod, "unschedulable", |pod| {
        condition(pod, "PodScheduled").is_some_and(|it| it["reason"] == "Unschedulable")
    })
    .await;
    let long = json!({"type": "PodScheduled", "lastTransitionTime": seconds_ago(10)});
    env.patch_status(POD, &pod, json!({"status": {"conditions": [long]}}))
        .await;
    assert_reported(env, "nowhere", &pod, "Unschedulable", &["available"]).await;
    env.apply(&object(json!({"kubernetes.io/os": "linux"})))
        .await
        .expect("applied");
    let ready = |object: &Value| is_ready(object) && !is_degraded(object);
    let resource = (MEMCACHED, "nowhere");
    env.until_within(resource, "well again", 3 * SOON, ready)
        .await;
}

/// Both cases run concurrently: each waits for 60 s. Other reasons have unit tests.
#[tokio::test]
async fn pods_that_do_not_start_are_reported_and_after_60_s_degraded() {
    let env = TestEnv::start("pod-failures").await;
    changes::apply_ready(&env, MEMCACHED, "pull", json!({"size": 1})).await;
    tokio::join!(container(&env), unschedulable(&env));
}
