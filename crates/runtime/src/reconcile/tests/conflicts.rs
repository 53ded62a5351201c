//! Another writer keeps changing a child: it is repaired a few times, and then less and less often.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use serde_json::json;

use super::{APPLY, FORCE, GET, Scenario, applied, refusal, rolled_out, willing};
use crate::object::ObjectKey;
use crate::reconcile::Action;
use quartet_applied::merge;
use quartet_workload::DEPLOYMENT;

/// A server with a Deployment that argocd has just scaled.
fn contested() -> Scenario {
    Scenario::new(|line, body| match line {
        line if line.starts_with("GET") => {
            let mut object = applied(&json!({"metadata": {}, "spec": {"replicas": 5}}), 9);
            object["metadata"]["managedFields"] = json!([
                {"manager": "argocd", "operation": "Apply", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
            ]);
            Some((200, object))
        }
        line => willing(line, body),
    })
}

#[tokio::test(start_paused = true)]
async fn a_child_that_somebody_keeps_changing_is_left_alone_and_told() {
    let scenario = contested();
    scenario.reconciles(1, json!({})).await;
    let mut forced = 0;
    let mut version = 10;
    let wait = loop {
        version += 10;
        let mut edited = rolled_out(1);
        edited["spec"]["replicas"] = json!(5);
        scenario.deployment_is(version, edited);
        let next = scenario.after_ms(100).await.expect("reconciled");
        let sent = scenario.sent();
        if sent.iter().any(|line| line.starts_with("GET")) {
            break next;
        }
        forced += sent.iter().filter(|line| *line == FORCE).count();
        assert!(forced < 20, "it is put back for ever");
    };
    assert_eq!(forced, 6);
    assert_eq!(wait, Action::RequeueAfter(Duration::from_secs(15)));
    let (status, reason, message) = scenario.condition("Ready");
    let found = (status.as_str(), reason.as_str());
    assert_eq!(found, ("False", "FieldConflict"));
    for part in ["\"argocd\" keeps changing", "spec.replicas"] {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(scenario.condition("Degraded").0, "True");
    assert_eq!(scenario.told(), ["FieldConflict"]);

    // Whatever enqueues it: no request before its time, then one.
    scenario.sent();
    scenario.reconcile().await.expect("reconciled");
    assert_eq!(scenario.sent(), Vec::<String>::new());
    scenario.after_ms(15_000).await.expect("reconciled");
    assert_eq!(scenario.sent().first().map(String::as_str), Some(FORCE));
    // The child stays as applied; the conflict is reported for another minute.
    let next = scenario.reconcile().await.expect("reconciled");
    assert!(matches!(next, Action::RequeueAfter(wait) if wait <= Duration::from_secs(60)));
    let expected = Vec::<String>::new();
    assert_eq!(scenario.told(), expected, "still the same conflict");
    // Another edit within that minute: the next wait is longer.
    scenario.deployment_is(version + 10, json!({"spec": {"replicas": 5}}));
    let next = scenario.reconcile().await.expect("reconciled");
    assert_eq!(next, Action::RequeueAfter(Duration::from_secs(30)));
    assert!(scenario.sent().contains(&GET.to_owned()));
}

/// Reconciles while another writer removes the label of the child after each apply, until the manager
/// reads the child.
async fn fight_about_the_label(scenario: &Scenario) {
    let store = scenario.children.store(DEPLOYMENT).expect("a store");
    let key = ObjectKey::new("ns", "cache");
    for _ in 0..40 {
        if let Some(child) = store.get(&key) {
            store.deleted(&key, child.meta.resource_version);
        }
        let next = scenario.after_ms(100).await.expect("reconciled");
        let sent = scenario.sent.lock().expect("not poisoned").clone();
        if sent.iter().any(|(line, _)| line == GET) {
            let limit = Duration::from_secs(18);
            let is_soon = matches!(next, Action::RequeueAfter(wait) if wait <= limit);
            assert!(is_soon, "{next:?}");
            return;
        }
    }
    panic!("it is put back for ever");
}

#[tokio::test(start_paused = true)]
async fn a_child_whose_label_somebody_keeps_removing_is_left_alone_too() {
    let scenario = Scenario::new(|line, body| match line {
        GET => {
            let metadata = json!({"labels": {"app.kubernetes.io/managed-by": "Helm"}});
            let mut object = applied(&json!({"metadata": metadata}), 9);
            object["metadata"]["managedFields"] = json!([
                {"manager": "helm", "operation": "Update", "fieldsV1": {"f:metadata": {"f:labels": {
                    "f:app.kubernetes.io/managed-by": {}}}}},
            ]);
            Some((200, object))
        }
        line => willing(line, body),
    });
    scenario.holds(1, json!({}));
    fight_about_the_label(&scenario).await;
    let applies = |scenario: &Scenario| {
        let sent = scenario.sent();
        sent.iter().filter(|line| *line == APPLY).count()
    };
    let found = applies(&scenario);
    assert_eq!(found, 7, "it was created, and put back six times");
    let (status, reason, message) = scenario.condition("Ready");
    assert_eq!((&*status, &*reason), ("False", "FieldConflict"));
    for part in ["\"helm\" keeps changing", "app.kubernetes.io/managed-by"] {
        assert!(message.contains(part), "{message}");
    }
    tokio::time::advance(Duration::from_secs(14)).await;
    fight_about_the_label(&scenario).await;
    assert_eq!(applies(&scenario), 0);
    tokio::time::advance(Duration::from_secs(1)).await;
    fight_about_the_label(&scenario).await;
    assert_eq!(applies(&scenario), 1);
    // It looks for the child more often than it applies it.
    tokio::time::advance(Duration::from_secs(20)).await;
    fight_about_the_label(&scenario).await;
    assert_eq!(applies(&scenario), 0);
}

#[tokio::test(start_paused = true)]
async fn a_child_that_is_deleted_during_a_wait_is_created_within_18_s() {
    let is_deleted = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&is_deleted);
    let scenario = Scenario::new(move |line, body| match line {
        GET if seen.load(Ordering::Relaxed) => refusal(404, "not found", "", ""),
        GET => Some((200, applied(&json!({"metadata": {}}), 9))),
        line => willing(line, body),
    });
    scenario.holds(1, json!({}));
    for _ in 0..4 {
        fight_about_the_label(&scenario).await;
        scenario.sent();
        tokio::time::advance(Duration::from_secs(120)).await;
    }
    fight_about_the_label(&scenario).await;
    scenario.sent();
    is_deleted.store(true, Ordering::Relaxed);
    scenario.reconcile().await.expect("reconciled");
    assert!(scenario.sent().contains(&APPLY.to_owned()));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_during_a_conflict_does_not_make_the_resource_ready() {
    let version = AtomicU32::new(2);
    let scenario = Scenario::new(move |line, body| {
        if !line.contains("/deployments/") {
            return willing(line, body);
        }
        let mut answer = applied(body, version.fetch_add(1, Ordering::Relaxed));
        merge(&mut answer, rolled_out(0));
        Some((200, answer))
    });
    // Without pods, since a status that counts pods waits for them.
    scenario.holds(0, json!({}));
    fight_about_the_label(&scenario).await;
    assert_eq!(scenario.condition("Ready").1, "FieldConflict");
    let found = scenario.told();
    assert_eq!(found.last().map(String::as_str), Some("FieldConflict"));
    scenario.sent();
    scenario.after_ms(15_000).await.expect("reconciled");
    assert_eq!(scenario.sent().first().map(String::as_str), Some(APPLY));
    assert_eq!(scenario.told(), Vec::<String>::new());
    assert_eq!(scenario.condition("Ready").1, "FieldConflict");
    // It stays as applied.
    scenario.after_ms(60_000).await.expect("reconciled");
    assert_eq!(scenario.condition("Ready").0, "True");
}
