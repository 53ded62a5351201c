//! The status of rollouts without progress: pods that do not start, a paused Deployment, children
//! that the API server has not confirmed.

use super::*;
use quartet_workload::{PodFailure, Problem, Reason, status};

/// The status of a Memcached with 3 pods after `change`.
fn of(mut observed: Observed, change: impl FnOnce(&mut Observed)) -> (Status, Observed) {
    change(&mut observed);
    let resource = resource(&Memcached, json!({ "replicas": 3 }));
    (super::status(&Memcached, &resource, &observed), observed)
}

/// The same, with one of the pods not available.
fn of_three(change: impl FnOnce(&mut Observed)) -> (Status, Observed) {
    let mut observed = at_rest(3);
    observed.workload.as_mut().expect("there").available = 2;
    of(observed, change)
}

fn fails(observed: &mut Observed, index: usize, reason: Reason, since: &str) {
    observed.pods[index].failure = Some(Box::new(PodFailure {
        reason,
        message: "container memcached exited with code 1 (Error)".into(),
        since: since.into(),
    }));
}

const A_MOMENT_AGO: &str = "2026-01-01T11:59:30Z";
const A_MINUTE_AGO: &str = "2026-01-01T11:59:00Z";

#[test]
fn a_pod_that_does_not_start_is_named_at_once_and_degrades_after_a_minute() {
    let (young, observed) =
        of_three(|observed| fails(observed, 1, Reason::CrashLoopBackOff, A_MOMENT_AGO));
    assert_eq!(told(&young, "Ready"), ("False", "CrashLoopBackOff"));
    let expected =
        "1 of 3 pods do not start: pod pod-0001: container memcached exited with code 1 (Error)";
    assert_eq!(condition(&young, "Ready").message, expected);
    assert_eq!(told(&young, "Progressing"), ("True", "RollingOut"));
    assert_eq!(told(&young, "Degraded"), ("False", "AsExpected"));
    let next = status::next_change(&observed).expect("it degrades by itself");
    assert_eq!(next.as_secs(), 30);

    let (old, observed) = of_three(|observed| fails(observed, 1, Reason::OOMKilled, A_MINUTE_AGO));
    assert_eq!(told(&old, "Degraded"), ("True", "OOMKilled"));
    assert_eq!(told(&old, "Progressing"), ("False", "OOMKilled"));
    assert_eq!(status::next_change(&observed), None);
}

#[test]
fn of_several_pods_the_one_that_has_failed_longest_is_named() {
    let (status, _) = of_three(|observed| {
        fails(observed, 0, Reason::Unschedulable, A_MOMENT_AGO);
        fails(observed, 2, Reason::ImagePullBackOff, A_MINUTE_AGO);
    });
    assert_eq!(told(&status, "Degraded"), ("True", "ImagePullBackOff"));
    let message = &condition(&status, "Degraded").message;
    let expected = "2 of 3 pods do not start: pod pod-0002: ";
    assert!(message.starts_with(expected), "{message}");
}

#[test]
fn a_stalled_rollout_names_the_pod_that_stalls_it() {
    let (status, _) = of_three(|observed| {
        fails(observed, 0, Reason::CrashLoopBackOff, A_MINUTE_AGO);
        let deployment = observed.workload.as_mut().expect("there");
        deployment.stalled = Some("ReplicaSet \"a\" has timed out progressing.".into());
    });
    let expected = ("True", "ProgressDeadlineExceeded");
    assert_eq!(told(&status, "Degraded"), expected);
    let message = &condition(&status, "Degraded").message;
    for part in ["timed out", "pod pod-0000"] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn a_node_whose_clock_is_ahead_or_unreadable_degrades_nothing() {
    for since in ["2026-01-01T13:00:00Z", "", "yesterday"] {
        let (status, _) = of_three(|observed| fails(observed, 0, Reason::CrashLoopBackOff, since));
        assert_eq!(told(&status, "Degraded").0, "False", "{since}");
        assert_eq!(told(&status, "Ready"), ("False", "CrashLoopBackOff"));
    }
}

#[test]
fn a_pod_beyond_a_complete_rollout_is_no_trouble() {
    let (status, _) = of(at_rest(3), |observed| {
        fails(observed, 0, Reason::CrashLoopBackOff, A_MINUTE_AGO);
    });
    assert_eq!(told(&status, "Ready").0, "True");
}

#[test]
fn a_paused_deployment_is_named_until_its_template_is_rolled_out() {
    let (paused, _) = of_three(|observed| {
        let deployment = observed.workload.as_mut().expect("there");
        (deployment.paused, deployment.updated) = (true, 0);
    });
    let found = ["Ready", "Progressing", "Degraded"].map(|type_| told(&paused, type_));
    let expected = ["False", "False", "True"].map(|is| (is, "DeploymentPaused"));
    assert_eq!(found, expected);
    let message = &condition(&paused, "Degraded").message;
    assert!(message.contains("kubectl rollout resume"), "{message}");
    let (status, _) = of(at_rest(3), |observed| {
        observed.workload.as_mut().expect("there").paused = true;
    });
    assert_eq!(told(&status, "Ready").0, "True");
}

#[test]
fn children_that_are_not_confirmed_are_not_ready_and_not_degraded() {
    let busy = Problem::new(Reason::ApplyFailed, "apply deployments n/a: busy");
    let (status, _) = of(at_rest(3), |observed| observed.unconfirmed = Some(busy));
    assert_eq!(told(&status, "Ready"), ("False", "ApplyFailed"));
    assert_eq!(told(&status, "Progressing"), ("True", "ApplyFailed"));
    assert_eq!(told(&status, "Degraded"), ("False", "AsExpected"));
    assert_eq!(told(&status, "Available").0, "True");
}
