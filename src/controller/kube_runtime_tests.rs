//! Tests that show why `kube::runtime::Controller` and `kube::runtime::events::Recorder` are not used:
//! the faults of kube-runtime 5.0 in the decisions 0001 and 0025. If a test fails after an update of
//! kube, a fault is fixed, and the decision should be reviewed.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{FutureExt, StreamExt, TryStreamExt};
use http::{Request, Response};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::client::Body;
use kube::runtime::WatchStreamExt;
use kube::runtime::controller::{Action, Config, applier};
use kube::runtime::events::{self, EventType, Recorder};
use kube::runtime::reflector::{self, ObjectRef, reflector};
use kube::runtime::watcher::{self, Event};
use serde_json::Value;
use tokio::sync::mpsc;

type Item = watcher::Result<Event<ConfigMap>>;

fn config_map(name: &str, version: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some("default".to_owned()),
            resource_version: Some(version.to_owned()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}

/// The core of `Controller`: a reflector whose applied objects are reconciled. Runs it in chunks; each
/// chunk arrives after all earlier ones are processed.
async fn reconcile(chunks: Vec<Vec<Event<ConfigMap>>>, mut reconciler: impl FnMut(&ConfigMap)) {
    let (feed, items) = mpsc::unbounded_channel::<Item>();
    let events = futures::stream::unfold(items, |mut items| async {
        items.recv().await.map(|item| (item, items))
    });
    let (reader, writer) = reflector::store();
    let queue = reflector(writer, events)
        .applied_objects()
        .map_ok(|object| ObjectRef::from_obj(&object));
    let results = applier(
        |object: Arc<ConfigMap>, _| {
            reconciler(&object);
            std::future::ready(Ok::<_, Infallible>(Action::await_change()))
        },
        |_, error: &Infallible, _| match *error {},
        Arc::new(()),
        reader,
        queue,
        Config::default(),
    );
    let mut results = std::pin::pin!(results);
    for chunk in chunks {
        for event in chunk {
            feed.send(Ok(event)).unwrap();
        }
        while tokio::time::timeout(Duration::from_secs(1), results.next())
            .await
            .is_ok()
        {}
    }
}

#[tokio::test(start_paused = true)]
async fn kube_runtime_loses_an_update_that_comes_in_the_first_chunk_of_a_relist() {
    let seen = Mutex::new(Vec::new());
    let see = |object: &ConfigMap| {
        seen.lock()
            .unwrap()
            .extend(object.metadata.resource_version.clone());
    };
    let first_list = vec![
        Event::Init,
        Event::InitApply(config_map("a", "1")),
        Event::InitDone,
    ];
    let first_page = vec![Event::Init, Event::InitApply(config_map("a", "2"))];
    let last_page = vec![Event::InitApply(config_map("b", "3")), Event::InitDone];
    reconcile(vec![first_list, first_page, last_page], see).await;
    let seen = seen.into_inner().unwrap();
    assert!(
        !seen.contains(&"2".to_owned()),
        "{seen:?}: cured, see decision 0001"
    );
    assert_eq!(seen, ["1", "1", "3"]);
}

#[tokio::test(start_paused = true)]
async fn kube_runtime_does_not_reconcile_when_a_resource_is_deleted() {
    let reconciles = Mutex::new(0);
    let first_list = vec![
        Event::Init,
        Event::InitApply(config_map("a", "1")),
        Event::InitDone,
    ];
    let deletion = vec![Event::Delete(config_map("a", "2"))];
    reconcile(vec![first_list, deletion], |_| {
        *reconciles.lock().unwrap() += 1
    })
    .await;
    assert_eq!(*reconciles.lock().unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_one_reconcile_goes_through_kube_runtime_and_ends_all_of_them() {
    let list = vec![
        Event::Init,
        Event::InitApply(config_map("a", "1")),
        Event::InitApply(config_map("b", "1")),
        Event::InitDone,
    ];
    let run = reconcile(vec![list], |_| {
        std::panic::resume_unwind(Box::new("a reconcile's panic"))
    });
    assert!(
        std::panic::AssertUnwindSafe(run)
            .catch_unwind()
            .await
            .is_err()
    );
}

#[test]
fn kube_runtime_does_not_know_an_owner_by_another_version_of_its_api() {
    let owner = |api_version: &str| OwnerReference {
        api_version: api_version.to_owned(),
        kind: "Deployment".to_owned(),
        name: "a".to_owned(),
        uid: "uid".to_owned(),
        ..OwnerReference::default()
    };
    let found = |api_version| {
        ObjectRef::<Deployment>::from_owner_ref(Some("default"), &owner(api_version), ()).is_some()
    };
    assert!(found("apps/v1"));
    assert!(!found("apps/v1beta2"));
}

/// The method and body of each request of a `Recorder` that publishes these notes about the resource
/// `name`. Creations succeed, and patches are answered with `code`.
async fn requests_of_recorder(name: &str, notes: &[&str], code: u16) -> Vec<(String, Value)> {
    let sent = Arc::<Mutex<Vec<_>>>::default();
    let log = Arc::clone(&sent);
    let service = tower::service_fn(move |request: Request<Body>| {
        let log = Arc::clone(&log);
        async move {
            let method = request.method().to_string();
            let bytes = request.into_body().collect_bytes().await.unwrap();
            let code = if method == "POST" { 201 } else { code };
            let body = serde_json::from_slice(&bytes).unwrap();
            log.lock().unwrap().push((method, body));
            let response = Response::builder().status(code);
            Ok::<_, std::io::Error>(response.body(Body::from(bytes)).unwrap())
        }
    });
    let client = kube::Client::new(service, "default");
    let recorder = Recorder::new(client, "quartet-operator".into());
    let regarding = ObjectReference {
        namespace: Some("ns".to_owned()),
        name: Some(name.to_owned()),
        ..ObjectReference::default()
    };
    for note in notes {
        let event = events::Event {
            type_: EventType::Warning,
            reason: "NameConflict".to_owned(),
            note: Some((*note).to_owned()),
            action: "Reconcile".to_owned(),
            secondary: None,
        };
        let _ = recorder.publish(&event, &regarding).await;
    }
    let sent = sent.lock().unwrap();
    sent.clone()
}

#[tokio::test]
async fn the_recorder_of_kube_runtime_sends_a_request_for_each_repetition() {
    let sent = requests_of_recorder("cache", &["why"; 60], 200).await;
    assert_eq!(sent.len(), 60, "the writer sends 2 in the first minute");
}

#[tokio::test]
async fn the_recorder_of_kube_runtime_loses_another_note_with_the_same_reason() {
    let sent = requests_of_recorder("cache", &["Deployment a", "Service b"], 200).await;
    let notes: Vec<_> = sent.iter().map(|(_, body)| &body["note"]).collect();
    assert_eq!(notes, ["Deployment a", "Deployment a"]);
}

#[tokio::test]
async fn the_recorder_of_kube_runtime_makes_a_name_that_is_too_long() {
    let sent = requests_of_recorder(&"a".repeat(240), &["why"], 200).await;
    let name = sent[0].1["metadata"]["name"].as_str().unwrap();
    assert!(name.len() > 253, "the limit of the API server");
}

#[tokio::test]
async fn the_recorder_of_kube_runtime_does_not_replace_an_event_that_is_gone() {
    let sent = requests_of_recorder("cache", &["why"; 3], 404).await;
    let methods: Vec<_> = sent.iter().map(|(method, _)| method.as_str()).collect();
    assert_eq!(methods, ["POST", "PATCH", "PATCH"]);
}
