//! Children of other types than Deployment and Service.

use std::time::Duration;

use serde_json::{Value, json};

use super::keeper::{CLAIM, Keeper};
use super::{Scenario, applied, willing};
use crate::object::ObjectKey;
use quartet_workload::CONFIG_MAP;

const CORE: &str = "PATCH /api/v1/namespaces/ns";
const LIST: &str = "GET /apis/cache.example.com/v1alpha1/namespaces/ns/memcacheds?fieldSelector=metadata.name%3Dcache&limit=1";
const SET: &str = "PATCH /apis/apps/v1/namespaces/ns/statefulsets/cache?…&force";

fn claim(force: bool) -> String {
    format!("{CORE}/persistentvolumeclaims/kept?…&force={force}")
}

fn files(force: bool) -> String {
    format!("{CORE}/configmaps/cache-config?…&force={force}")
}

fn set(force: bool) -> String {
    format!("{SET}={force}")
}

/// The hub's `memory`, in the annotation of a spoke resource.
fn memory(memory: Value) -> Value {
    let data = json!({"v1": {"memory": memory}}).to_string();
    json!({"metadata": {"annotations": {"quartet-operator.example.com/conversion-data": data}}})
}

/// The API server has the resource in this generation.
fn server(generation: u32) -> Scenario {
    server_whose_deletions(generation, 200)
}

/// As [`server`], with this status code for each deletion.
fn server_whose_deletions(generation: u32, code: u16) -> Scenario {
    Scenario::of(&Keeper, move |line, body| {
        answer(generation, code, line, body)
    })
}

fn answer(generation: u32, code: u16, line: &str, body: &Value) -> Option<(u16, Value)> {
    match line {
        line if line.contains("fieldSelector") => Some((
            200,
            json!({"items": [{
                "metadata": {"uid": "owner", "generation": generation}, "spec": {"size": 1},
            }]}),
        )),
        line if line.starts_with("DELETE") => Some((code, json!({"kind": "Status", "code": code}))),
        _ => willing(line, body),
    }
}

#[tokio::test(start_paused = true)]
async fn each_child_is_applied_at_its_own_place_and_is_quiet_afterwards() {
    let scenario = server(1);
    scenario.reconciles(1, memory(json!(8))).await;
    assert_eq!(scenario.sent(), [claim(false), files(false), set(false)]);
    scenario.reconcile().await.expect("reconciled");
    assert_eq!(scenario.sent(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn what_is_no_longer_wanted_is_deleted_and_what_is_retained_is_not() {
    let scenario = server(2);
    scenario.reconciles(1, memory(json!(8))).await;
    scenario.sent();
    scenario
        .reconciles(1, json!({"metadata": {"generation": 2}}))
        .await;
    let sent = scenario.sent();
    let deleted = "DELETE /api/v1/namespaces/ns/configmaps/cache-config";
    assert_eq!(sent, [set(true), LIST.to_owned(), deleted.to_owned()]);
    // Of the optional types, the claim stays even if the spec does not want it.
    let kept = ObjectKey::new("ns", "kept");
    let store = scenario.children.store(CLAIM).expect("owned");
    assert!(!store.get(&kept).expect("there").meta.deleting);
}

#[tokio::test(start_paused = true)]
async fn a_conflict_about_a_child_hinders_neither_another_nor_a_deletion() {
    let scenario = server(2);
    scenario.reconciles(1, memory(json!(8))).await;
    let mut edited = scenario.sent_ever.lock().expect("not poisoned")[0]
        .1
        .clone();
    edited["metadata"]["labels"]["app.kubernetes.io/part-of"] = "another".into();
    for version in 10.. {
        let edited = applied(&edited, version);
        scenario.children.put_written(CLAIM, &edited, 0);
        scenario.after_ms(100).await.expect("reconciled");
        let sent = scenario.sent();
        if sent.iter().any(|line| line.starts_with("GET")) {
            break;
        }
        assert!(version < 30, "no conflict");
    }
    tokio::time::advance(Duration::from_secs(15)).await;
    scenario.sent();
    scenario
        .reconciles(1, json!({"metadata": {"generation": 2}}))
        .await;
    let sent = scenario.sent();
    let deleted = "DELETE /api/v1/namespaces/ns/configmaps/cache-config";
    assert!(sent.contains(&set(true)), "{sent:?}");
    assert!(sent.contains(&deleted.to_owned()), "{sent:?}");
    assert_eq!(scenario.condition("Ready").1, "FieldConflict");
}

#[tokio::test(start_paused = true)]
async fn an_object_of_another_namespace_that_names_the_resource_is_not_deleted() {
    let scenario = server(1);
    let reference = json!({
        "apiVersion": "cache.example.com/v1", "kind": "Memcached", "name": "cache", "uid": "owner",
        "controller": true,
    });
    let foreign = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "foreign", "namespace": "another", "ownerReferences": [reference]},
    });
    let foreign = applied(&foreign, 2);
    scenario.children.put_written(CONFIG_MAP, &foreign, 0);
    scenario.reconciles(1, memory(json!(8))).await;
    assert_eq!(scenario.sent(), [claim(false), files(false), set(false)]);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_fails_is_an_error_unless_the_child_is_gone() {
    for (code, is_error) in [(404, false), (500, true)] {
        let scenario = server_whose_deletions(2, code);
        scenario.reconciles(1, memory(json!(8))).await;
        scenario.holds(1, json!({"metadata": {"generation": 2}}));
        assert_eq!(scenario.reconcile().await.is_err(), is_error, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_retained_child_goes_to_the_next_resource_of_that_name_others_are_waited_for() {
    let scenario = server(1);
    let of_earlier_life = |kind: &'static str, name: &str, metadata: Value| {
        let mut object = json!({
            "apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "ns"},
        });
        super::merge(&mut object["metadata"], metadata);
        applied(&object, 2)
    };
    let annotation = "quartet-operator.example.com/retained-for";
    let retained = "cache.example.com/Memcached/cache/earlier";
    let retained = json!({"annotations": {annotation: retained}});
    let kept = of_earlier_life("PersistentVolumeClaim", "kept", retained);
    scenario.children.put_written(CLAIM, &kept, 0);
    let reference = json!({"ownerReferences": [{
        "apiVersion": "cache.example.com/v1", "kind": "Memcached", "name": "cache", "uid": "earlier",
        "controller": true,
    }]});
    let collected = of_earlier_life("ConfigMap", "cache-config", reference);
    scenario.children.put_written(CONFIG_MAP, &collected, 0);
    scenario.reconciles(1, memory(json!(8))).await;
    let found = scenario.sent();
    assert_eq!(found, [claim(true)], "the ConfigMap is about to be deleted");
    let sent = scenario.sent_ever.lock().expect("not poisoned");
    let metadata = &sent[0].1["metadata"];
    assert_eq!(metadata["uid"], "child", "only this very object");
    let owner = "cache.example.com/Memcached/cache/owner";
    assert_eq!(metadata["annotations"][annotation], owner);
}
