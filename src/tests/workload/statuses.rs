//! The status for given observations.

use super::*;
use quartet_workload::status::is_at_rest;
use quartet_workload::{Problem, Reason};

fn memcached(replicas: i64) -> Resource {
    resource(&Memcached, json!({ "replicas": replicas }))
}

/// The status of a settled Memcached with 3 pods, after `change`.
fn of_three(change: impl FnOnce(&mut Observed)) -> Status {
    let mut observed = at_rest(3);
    change(&mut observed);
    status(&Memcached, &memcached(3), &observed)
}

fn of_deployment(change: impl FnOnce(&mut ObservedWorkload)) -> Status {
    of_three(|observed| change(observed.workload.as_mut().expect("there is one")))
}

fn all(status: &Status) -> [(&str, &str); 4] {
    ["Ready", "Available", "Progressing", "Degraded"].map(|type_| told(status, type_))
}

const READY: [(&str, &str); 4] = [
    ("True", "RolloutComplete"),
    ("True", "MinimumReplicasAvailable"),
    ("False", "RolloutComplete"),
    ("False", "AsExpected"),
];

#[test]
fn a_resource_at_rest_is_ready() {
    let status = of_three(|_| {});
    assert_eq!(all(&status), READY);
    assert_eq!((status.replicas, status.ready_replicas), (Some(3), Some(3)));
    assert_eq!(status.observed_generation, Some(1));
    assert_eq!(status.nodes, ["pod-0000", "pod-0001", "pod-0002"]);
    let selector = "app.kubernetes.io/instance=memcached-sample,app.kubernetes.io/name=memcached,\
                    quartet-operator.example.com/kind=memcached";
    assert_eq!(status.selector.as_deref(), Some(selector));
    assert_eq!(status.real_qps, None);
}

#[test]
fn a_rollout_is_not_ready_until_the_last_old_pod_is_gone() {
    for change in [
        (|deployment| deployment.observed_generation = 0) as fn(&mut ObservedWorkload),
        |deployment| deployment.updated = 2,
        |deployment| deployment.replicas = 4,
    ] {
        let status = of_deployment(change);
        assert_eq!(told(&status, "Ready"), ("False", "RollingOut"));
        assert_eq!(told(&status, "Progressing"), ("True", "RollingOut"));
        assert_eq!(told(&status, "Available").0, "True");
    }
}

#[test]
fn pods_that_are_up_to_date_and_not_available_are_waited_for() {
    let status = of_deployment(|deployment| {
        deployment.available = 2;
        deployment.is_available = Some(false);
    });
    let expected = [
        ("False", "MinimumReplicasUnavailable"),
        ("False", "MinimumReplicasUnavailable"),
        ("True", "RollingOut"),
        ("False", "AsExpected"),
    ];
    assert_eq!(all(&status), expected);
}

#[test]
fn a_deployment_of_another_size_than_the_spec_asks_for_is_not_ready() {
    let status = status(&Memcached, &memcached(5), &at_rest(3));
    assert_eq!(told(&status, "Ready"), ("False", "RollingOut"));
    assert_eq!(told(&status, "Progressing"), ("True", "RollingOut"));
}

#[test]
fn a_rollout_past_its_deadline_is_degraded_until_a_newer_spec_is_tried() {
    let stalled = |deployment: &mut ObservedWorkload| {
        deployment.updated = 1;
        deployment.stalled = Some("timed out".into());
    };
    let told_of = of_deployment(stalled);
    for (type_, expected) in [
        ("Ready", "False"),
        ("Progressing", "False"),
        ("Degraded", "True"),
    ] {
        let wanted = (expected, "ProgressDeadlineExceeded");
        assert_eq!(told(&told_of, type_), wanted);
        assert_eq!(condition(&told_of, type_).message, "timed out");
    }
    let newer = of_deployment(|deployment| {
        stalled(deployment);
        deployment.generation = 2;
    });
    assert_eq!(told(&newer, "Progressing"), ("True", "RollingOut"));
    assert_eq!(told(&newer, "Degraded"), ("False", "AsExpected"));
}

#[test]
fn a_quota_on_pods_is_told_without_the_name_of_the_pod_that_met_it() {
    let status = of_deployment(|deployment| {
        deployment.replicas = 2;
        let message = "pods \"a-5d4f-x2k9d\" is forbidden: exceeded quota: q, requested: pods=1";
        deployment.replica_failure = Some(message.into());
    });
    assert_eq!(told(&status, "Degraded"), ("True", "QuotaExceeded"));
    assert_eq!(told(&status, "Ready"), ("False", "QuotaExceeded"));
    let found = &condition(&status, "Degraded").message;
    assert_eq!(found, "exceeded quota: q, requested: pods=1");
}

#[test]
fn pods_that_cannot_be_made_for_another_reason_are_a_replica_failure() {
    let status = of_deployment(|deployment| {
        deployment.replica_failure = Some("serviceaccount \"x\" not found".into());
    });
    assert_eq!(told(&status, "Degraded"), ("True", "ReplicaFailure"));
}

#[test]
fn fault_13_a_taken_node_port_is_told_and_leaves_the_pods_available() {
    let resource = resource(&ElasticWeb, elastic_web(json!(3), 1));
    let observed = Observed {
        others: Vec::new(),
        problem: Some(Problem::new(Reason::NodePortUnavailable, "30003 is taken")),
        ..at_rest(3)
    };
    let status = status(&ElasticWeb, &resource, &observed);
    let expected = [
        ("False", "NodePortUnavailable"),
        ("True", "MinimumReplicasAvailable"),
        ("False", "NodePortUnavailable"),
        ("True", "NodePortUnavailable"),
    ];
    assert_eq!(all(&status), expected);
    assert_eq!(condition(&status, "Ready").message, "30003 is taken");
}

#[test]
fn a_refused_spec_is_degraded_and_what_serves_goes_on_serving() {
    let status = status(&Memcached, &memcached(-1), &at_rest(3));
    let expected = [
        ("False", "InvalidSpec"),
        ("True", "MinimumReplicasAvailable"),
        ("False", "InvalidSpec"),
        ("True", "InvalidSpec"),
    ];
    assert_eq!(all(&status), expected);
    let expected = "spec.replicas: Invalid value: -1: must be greater than or equal to 0";
    assert_eq!(condition(&status, "Degraded").message, expected);
}

#[test]
fn a_paused_resource_is_neither_ready_nor_not() {
    let mut paused = memcached(5);
    paused.paused = Some("true".to_owned());
    let expected = [
        ("Unknown", "Paused"),
        ("True", "MinimumReplicasAvailable"),
        ("False", "Paused"),
        ("False", "AsExpected"),
    ];
    assert_eq!(all(&status(&Memcached, &paused, &at_rest(3))), expected);
    let unobserved = status(&Memcached, &paused, &Observed::default());
    assert_eq!(told(&unobserved, "Available"), ("False", "Paused"));
}

#[test]
fn a_pause_with_an_unclear_value_says_how_to_resume() {
    let message = |value: &str| {
        let mut paused = memcached(5);
        paused.paused = Some(value.to_owned());
        let status = status(&Memcached, &paused, &at_rest(3));
        condition(&status, "Ready").message.clone()
    };
    for value in ["1", "t", "T", "true", "True", "TRUE", " true "] {
        assert_eq!(message(value), "paused by annotation: nothing is applied");
    }
    for value in ["", "yes", "on", "tRUE"] {
        let expected = format!(
            "paused by annotation: nothing is applied; its value {value:?} is neither true nor false and counts as true: remove the annotation quartet-operator.example.com/paused to resume"
        );
        assert_eq!(message(value), expected);
    }
}

#[test]
fn the_time_of_a_condition_changes_with_its_status_and_with_nothing_else() {
    let mut resource = memcached(3);
    let mut observed = at_rest(3);
    resource.status = status(&Memcached, &resource, &observed);

    // Another generation, reason and message; the same status.
    (resource.generation, observed.now) = (2, LATER.to_owned());
    observed.problem = Some(Problem::new(Reason::ApplyRefused, "m"));
    let later = status(&Memcached, &resource, &observed);
    assert_eq!(condition(&later, "Available").observed_generation, Some(2));
    assert_eq!(condition(&later, "Progressing").reason, "ApplyRefused");
    let time = |type_| &condition(&later, type_).last_transition_time;
    assert_eq!(["Available", "Progressing"].map(time), [NOON, NOON]);
    assert_eq!(["Ready", "Degraded"].map(time), [LATER, LATER]);
}

#[test]
fn a_message_is_cut_to_one_kibibyte_between_characters() {
    let long = Problem::new(Reason::ApplyRefused, "ä".repeat(2000));
    let status = of_three(|observed| observed.problem = Some(long));
    let message = &condition(&status, "Degraded").message;
    let length = message.len();
    assert!(length <= 1024 && message.ends_with("ä…"), "{length} bytes");
}

#[test]
fn children_are_at_rest_once_all_counts_agree_with_the_pods_that_are_known() {
    let is_at_rest = |observed| is_at_rest(&Ok(Vec::new()), &observed);
    assert!(is_at_rest(at_rest(3)));
    assert!(is_at_rest(at_rest(0)));
    assert!(!is_at_rest(Observed::default()));
    for (count, ready) in [(2, 2), (3, 2)] {
        let mut observed = at_rest(3);
        observed.pods = pods(count, ready);
        assert!(!is_at_rest(observed), "{ready} of {count}");
    }
    for change in [
        |workload: &mut ObservedWorkload| (workload.ready, workload.available) = (2, 2),
        |workload: &mut ObservedWorkload| workload.generation = 2,
    ] {
        let mut observed = at_rest(3);
        change(observed.workload.as_mut().expect("there is one"));
        assert!(!is_at_rest(observed));
    }
}

#[test]
fn where_nothing_is_made_there_is_nothing_to_wait_for() {
    let observed = Observed {
        problem: Some(Problem::new(Reason::NameConflict, "")),
        ..Observed::default()
    };
    assert!(is_at_rest(&Ok(Vec::new()), &observed));
}
