//! Children that a manager of another shard applied.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use super::{APPLY, FORCE, GET, Scenario, applied, refusal, willing};
use crate::controller::drift::fingerprint::APPLIED;
use crate::controller::object::ObjectKey;
use crate::controller::reconcile::Action;
use crate::operators::DEPLOYMENT;
use crate::operators::memcached::Memcached;
use crate::shard::Shard;

const OURS: &str = "quartet-operator-memcached";
const THEIRS: &str = "quartet-operator-memcached-00000001";
const TAKE_OVER: &str = "PATCH /apis/apps/v1/namespaces/ns/deployments/cache?…";

/// A server with one Deployment, which all shards share.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Value>>);

impl Shared {
    fn scenario(&self) -> Scenario {
        let shared = self.clone();
        Scenario::new(move |line, body| {
            let mut stored = shared.0.lock().expect("not poisoned");
            let version = |stored: &Value| -> u32 {
                let text = stored["metadata"]["resourceVersion"].as_str();
                text.and_then(|text| text.parse().ok()).unwrap_or(1)
            };
            match line {
                line if line.contains("fieldSelector") => {
                    let items = match line.contains("memcacheds") && version(&stored) < 99 {
                        true => json!([{"metadata": {"uid": "owner", "generation": 1}}]),
                        false => json!([]),
                    };
                    return Some((200, json!({"items": items})));
                }
                line if !line.contains("/deployments/") => return willing(line, body),
                line if line.starts_with("GET") => {}
                line if line.contains("&force=") => *stored = applied(body, version(&stored) + 1),
                _ => {
                    let expected = &stored["metadata"]["resourceVersion"];
                    assert_eq!(&body[1]["value"], expected, "a precondition");
                    stored["metadata"]["managedFields"] = body[2]["value"].clone();
                    let next = (version(&stored) + 1).to_string();
                    stored["metadata"]["resourceVersion"] = json!(next);
                }
            }
            Some((200, stored.clone()))
        })
    }

    fn manager(&self) -> Value {
        let stored = self.0.lock().expect("not poisoned");
        stored["metadata"]["managedFields"][0]["manager"].clone()
    }

    /// The other shard takes the Deployment, and changes it.
    fn taken_by_others(&self, scenario: &Scenario, change: impl FnOnce(&mut Value)) {
        let mut stored = self.0.lock().expect("not poisoned");
        let version = stored["metadata"]["resourceVersion"].as_str();
        let version: u32 = version.expect("a text").parse().expect("a number");
        stored["metadata"]["managedFields"][0]["manager"] = json!(THEIRS);
        stored["metadata"]["resourceVersion"] = json!((version + 1).to_string());
        change(&mut stored);
        assert_eq!(scenario.children.put_written(DEPLOYMENT, &stored), None);
    }
}

/// A resource whose Deployment the other shard has.
async fn moved_here(shared: &Shared, change: impl FnOnce(&mut Value)) -> Scenario {
    let scenario = shared.scenario();
    scenario.holds(1, json!({}));
    scenario.reconcile().await.expect("reconciled");
    assert_eq!(scenario.sent(), [APPLY]);
    shared.taken_by_others(&scenario, change);
    // The label that moves it here is the last change.
    scenario.version.store(50, Ordering::Relaxed);
    scenario.holds(1, json!({}));
    scenario
}

#[tokio::test(start_paused = true)]
async fn a_child_is_taken_over_with_one_read_and_one_write_and_not_applied() {
    let shared = Shared::default();
    let scenario = moved_here(&shared, |_| {}).await;
    let before = shared.0.lock().expect("not poisoned").clone();
    scenario.reconcile().await.expect("reconciled");
    let patch = scenario.sent.lock().expect("not poisoned")[1].1.clone();
    assert_eq!(scenario.sent(), [GET, TAKE_OVER]);
    assert_eq!(
        patch.as_array().map(Vec::len),
        Some(3),
        "nothing else: {patch}"
    );
    assert_eq!(shared.manager(), OURS);
    let after = shared.0.lock().expect("not poisoned").clone();
    assert_eq!(after["spec"], before["spec"]);
    let fields = "/metadata/managedFields/0/fieldsV1";
    assert_eq!(after.pointer(fields), before.pointer(fields));
    scenario.reconcile().await.expect("reconciled");
    assert_eq!(scenario.sent(), Vec::<String>::new());
    assert_eq!(scenario.told(), Vec::<String>::new(), "no Event");
}

#[tokio::test(start_paused = true)]
async fn a_child_that_differs_is_applied_after_it_was_taken_over() {
    let shared = Shared::default();
    let scenario = moved_here(&shared, |stored| stored["spec"]["replicas"] = json!(7)).await;
    scenario.reconcile().await.expect("reconciled");
    assert_eq!(scenario.sent(), [GET, TAKE_OVER, FORCE]);
    let stored = shared.0.lock().expect("not poisoned").clone();
    assert_eq!(stored["spec"]["replicas"], 1);
}

/// The resource has moved away with a change of its spec, and the watch has not told yet.
#[tokio::test(start_paused = true)]
async fn a_reconcile_that_is_under_way_when_the_resource_moves_away_changes_nothing() {
    let shard = Shard::of("shard in (a,b)").expect("valid");
    let scenario = Scenario::in_shard(shard, &Memcached, |line, _| match line {
        line if line.contains("force=false") => {
            refusal(409, "conflict", "FieldManagerConflict", ".spec.replicas")
        }
        // What the other shard applied.
        line if line.contains("/deployments/") => Some((
            200,
            json!({"metadata": {
                "uid": "child", "resourceVersion": "9",
                "ownerReferences": [{
                    "apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached", "name": "cache",
                    "uid": "owner", "controller": true,
                }],
                "annotations": {APPLIED: json!({
                    "generation": 2, "spec": "0000000000000000", "desired": "0000000000000000",
                }).to_string()},
                "managedFields": [{"manager": THEIRS, "operation": "Apply", "fieldsV1": {}}],
            }}),
        )),
        line if line.contains("labelSelector=") => Some((200, json!({"items": []}))),
        line => panic!("{line}"),
    });
    scenario.holds(1, json!({}));
    let next = scenario.reconcile().await.expect("no error");
    assert!(matches!(next, Action::RequeueAfter(_)), "{next:?}");
    let sent = scenario.sent();
    let [apply, read, look] = sent.as_slice() else {
        panic!("{sent:?}");
    };
    assert!(apply.ends_with("&force=false"), "{apply}");
    assert_eq!(read, GET);
    let selector = "%73%68%61%72%64%20%69%6E%20%28%61%2C%62%29";
    assert!(
        look.ends_with(&format!("&labelSelector={selector}")),
        "{look}"
    );
}

/// The watch of the children is ahead of that of the resource.
#[tokio::test(start_paused = true)]
async fn a_child_that_the_next_shard_has_taken_is_not_taken_back() {
    let shared = Shared::default();
    let scenario = moved_here(&shared, |stored| {
        stored["metadata"]["resourceVersion"] = json!("99");
    })
    .await;
    let next = scenario.reconcile().await.expect("no error");
    assert!(matches!(next, Action::RequeueAfter(_)), "{next:?}");
    let sent = scenario.sent();
    assert_eq!(sent[0], GET);
    assert!(sent[1].contains("memcacheds?fieldSelector"), "{sent:?}");
    assert_eq!(sent.len(), 2, "no write: {sent:?}");
    assert_eq!(shared.manager(), THEIRS);
}

#[tokio::test(start_paused = true)]
async fn of_two_shards_that_overlap_one_leaves_the_resource_alone_ever_longer() {
    let shared = Shared::default();
    let scenario = moved_here(&shared, |_| {}).await;
    scenario.reconcile().await.expect("reconciled");
    assert_eq!(scenario.sent(), [GET, TAKE_OVER]);
    for (round, wait) in [15, 30, 60, 120, 240, 300, 300].into_iter().enumerate() {
        let wait = Duration::from_secs(wait);
        shared.taken_by_others(&scenario, |_| {});
        let next = scenario.reconcile().await.expect("no error");
        assert_eq!(next, Action::RequeueAfter(wait), "round {round}");
        assert_eq!(scenario.sent(), [GET], "to name the other in the log");
        // Whatever event enqueues it: neither the child nor the status is written.
        tokio::time::advance(wait / 2).await;
        let next = scenario.reconcile().await.expect("no error");
        assert_eq!(next, Action::RequeueAfter(wait / 2), "round {round}");
        assert_eq!(scenario.sent(), Vec::<String>::new());
        assert_eq!(shared.manager(), THEIRS);
        // Once more, in case that the other is gone.
        tokio::time::advance(wait / 2).await;
        scenario.reconcile().await.expect("reconciled");
        let mut sent = scenario.sent();
        sent.retain(|line| line != super::STATUS);
        assert_eq!(sent, [GET, TAKE_OVER]);
    }
}

/// As after a `kubectl replace` of the child, soon after the resource moved here.
#[tokio::test(start_paused = true)]
async fn a_child_that_no_shard_has_is_applied_without_a_wait() {
    let shared = Shared::default();
    let scenario = moved_here(&shared, |_| {}).await;
    scenario.reconcile().await.expect("reconciled");
    assert_eq!(scenario.sent(), [GET, TAKE_OVER]);
    for round in 0..3 {
        shared.taken_by_others(&scenario, |stored| {
            stored["metadata"]["managedFields"] = json!([]);
        });
        scenario.reconcile().await.expect("reconciled");
        let mut sent = scenario.sent();
        sent.retain(|line| line != super::STATUS);
        assert_eq!(
            sent.last().map(String::as_str),
            Some(FORCE),
            "round {round}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_moves_away_and_back_does_not_wait() {
    let shared = Shared::default();
    let scenario = moved_here(&shared, |_| {}).await;
    for _ in 0..3 {
        scenario.reconcile().await.expect("reconciled");
        let mut sent = scenario.sent();
        sent.retain(|line| line != super::STATUS);
        assert_eq!(sent, [GET, TAKE_OVER]);
        // The watch reports the changed label as a deletion.
        let key = ObjectKey::new("ns", "cache");
        let resource = scenario.resources.get(&key).expect("it is held");
        scenario
            .resources
            .deleted(&key, &resource.meta.uid, u64::from(u32::MAX));
        scenario.reconciler.forget(&resource);
        scenario.reconcile().await.expect("nothing to do");
        assert_eq!(scenario.sent(), Vec::<String>::new(), "nothing is deleted");
        shared.taken_by_others(&scenario, |_| {});
        tokio::time::advance(Duration::from_secs(1)).await;
        let mut back = (*resource).clone();
        back.meta.resource_version += u64::from(u32::MAX);
        scenario.resources.applied(Arc::new(back));
    }
}
