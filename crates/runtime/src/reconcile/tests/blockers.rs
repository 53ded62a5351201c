//! Another object has the name of a child: a stranger's is left alone, and our own is taken back.

use std::time::Duration;

use serde_json::{Value, json};

use super::{APPLY, FORCE, GET, STATUS, Scenario, applied, refusal, willing};
use crate::reconcile::apply::wanted::Wanted;
use crate::reconcile::{Action, Blocker};
use crate::state::{ReconcileStates, key_of};
use quartet_workload::api::Status;
use quartet_workload::{CONFIG_MAP, Child, DEPLOYMENT, Reason, Resource};

/// A server where a stranger has the name of each child.
fn with_a_stranger() -> Scenario {
    Scenario::new(|line, body| match line {
        line if line.contains("force=") => {
            refusal(409, "conflict", "FieldManagerConflict", ".spec.selector")
        }
        line if line.starts_with("GET") => Some((200, json!({"metadata": {"uid": "stranger"}}))),
        line => willing(line, body),
    })
}

#[tokio::test(start_paused = true)]
async fn fault_42_a_strangers_object_is_looked_at_once_and_never_forced() {
    let scenario = with_a_stranger();
    scenario.holds(1, json!({}));
    let next = scenario.reconcile().await.expect("reconciled");
    let Action::RequeueAfter(retry) = next else {
        panic!("a blocker is looked at again")
    };
    let seconds = retry.as_secs_f64();
    assert!((12.0..=18.0).contains(&seconds), "15 s ± 20 %: {retry:?}");
    assert_eq!(scenario.sent(), [APPLY, GET, STATUS]);
    assert_eq!(scenario.told(), ["NameConflict"]);
}

/// Requests for children since the last call.
fn of_children(scenario: &Scenario) -> Vec<String> {
    let mut sent = scenario.sent();
    sent.retain(|line| line.contains("/deployments/"));
    sent
}

#[tokio::test(start_paused = true)]
async fn a_blocker_is_left_alone_for_15_s_whatever_wakes_the_resource() {
    let scenario = with_a_stranger();
    scenario.holds(1, json!({}));
    let Ok(Action::RequeueAfter(wait)) = scenario.reconcile().await else {
        panic!("a blocker is looked at again")
    };
    assert_eq!(of_children(&scenario), [APPLY, GET]);
    tokio::time::advance(Duration::from_secs(10)).await;
    let left = wait - Duration::from_secs(10);
    assert_eq!(scenario.reconcile().await, Ok(Action::RequeueAfter(left)));
    assert_eq!(scenario.sent(), Vec::<String>::new());
    scenario.reconcile_after(left).await.expect("reconciled");
    assert_eq!(of_children(&scenario), [APPLY, GET], "its time has come");

    // A changed spec is applied at once, even with the same child.
    let changed = json!({"metadata": {"generation": 2}});
    scenario.reconciles(1, changed).await;
    assert_eq!(of_children(&scenario), [APPLY, GET]);
    // So is a name whose cached object has changed.
    let stranger = json!({"metadata": {
        "name": "cache", "namespace": "ns", "uid": "another", "resourceVersion": "7",
    }});
    let ours = scenario.children.put_written(DEPLOYMENT, &stranger, 0);
    assert!(ours.is_none());
    scenario.reconcile().await.expect("reconciled");
    assert_eq!(of_children(&scenario), [GET]);
    scenario.reconcile().await.expect("reconciled");
    assert_eq!(of_children(&scenario), Vec::<String>::new());
}

/// The name is not in the fingerprint.
#[tokio::test(start_paused = true)]
async fn a_blocked_child_does_not_block_another_of_its_type_with_the_same_body() {
    let resource = Resource {
        namespace: "ns".to_owned(),
        name: "cache".to_owned(),
        uid: "owner".to_owned(),
        generation: 1,
        api_version: "cache.example.com/v1".to_owned(),
        spec: Value::Null,
        status: Status::default(),
        paused: None,
    };
    let attempt = |name: &str| {
        let child = Child {
            kind: CONFIG_MAP,
            name: name.to_owned(),
            body: json!({"metadata": {"name": name}}),
        };
        let wanted = Wanted::new(&resource, &child, "");
        (wanted.desired, wanted.attempt(None))
    };
    let ((desired, one), (as_desired, another)) = (attempt("one"), attempt("another"));
    assert_eq!(desired, as_desired);
    let states = ReconcileStates::default();
    let mut state = states.of(&key_of(&resource), "owner");
    let wait = Duration::from_secs(15);
    let blocker = Blocker::expected(Reason::RollingOut, "", wait);
    state.block(one, &blocker);
    let blocked = state.blocker(one);
    assert_eq!(blocked.map(|it| it.retry), Some(wait));
    assert!(state.blocker(another).is_none());
}

#[tokio::test(start_paused = true)]
async fn an_object_without_an_owner_is_taken_back_only_if_it_was_applied() {
    // As `kubectl expose` makes a Service: with our labels.
    let made = json!({"metadata": {
        "name": "cache", "namespace": "ns", "uid": "child", "resourceVersion": "2",
        "managedFields": [{"manager": "kubectl-expose", "operation": "Update", "fieldsV1": {}}],
    }});
    let named = json!({"metadata": {"name": "cache", "namespace": "ns"}});
    let ours = applied(&named, 2);
    for (object, requests) in [(made, &[GET, STATUS][..]), (ours, &[GET, APPLY])] {
        let read = object.clone();
        let scenario = Scenario::new(move |line, body| match line {
            GET => Some((200, read.clone())),
            line => willing(line, body),
        });
        scenario.children.put_written(DEPLOYMENT, &object, 0);
        scenario.reconciles(1, json!({})).await;
        assert_eq!(scenario.sent(), requests);
    }
}

#[tokio::test(start_paused = true)]
async fn a_child_that_lost_its_label_is_taken_back_by_force() {
    let owner = json!({
        "apiVersion": "cache.example.com/v1", "kind": "Memcached", "name": "cache", "uid": "owner",
        "controller": true,
    });
    let metadata = json!({"name": "cache", "namespace": "ns", "ownerReferences": [owner]});
    let child = applied(&json!({"metadata": metadata, "spec": {}}), 2);
    let scenario = Scenario::new(move |line, body| match line {
        line if line.contains("force=false") => {
            refusal(409, "conflict", "FieldManagerConflict", ".spec.replicas")
        }
        line if line.starts_with("GET") => Some((200, child.clone())),
        line => willing(line, body),
    });
    scenario.reconciles(1, json!({})).await;
    assert_eq!(scenario.sent(), [APPLY, GET, FORCE]);
}
