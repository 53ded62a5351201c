//! The requests for recorded Events. The API server is scripted; time is paused.

mod transitions;

use std::collections::VecDeque;
use std::future::ready;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use testkit::scripted;
use tokio::time::sleep;

use super::*;
use quartet_http::Leadership;
use quartet_operator::kinds::OPERATORS;

/// A running writer, and its requests.
struct Scene {
    recorder: Recorder,
    sent: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Scene {
    /// The responses have these codes, and then 201.
    fn new(codes: &[u16]) -> Self {
        let sent = Arc::<Mutex<Vec<_>>>::default();
        let codes = Arc::new(Mutex::new(codes.iter().copied().collect::<VecDeque<_>>()));
        let log = Arc::clone(&sent);
        let client = scripted(move |line, body| {
            log.lock().unwrap().push((line, body));
            let code = codes.lock().unwrap().pop_front().unwrap_or(201);
            let details = json!({"retryAfterSeconds": u16::from(code == 429) * 2});
            let answer = json!({"status": "Failure", "code": code, "message": "scripted", "details": details});
            ready((code, answer))
        });
        let caller = Caller::new(client, Leadership::sole());
        let (recorder, recorded) = Recorder::new(Arc::new(jiff::Timestamp::now));
        tokio::spawn(write(recorded, caller));
        Scene { recorder, sent }
    }

    fn record(&self, name: &str, note: &str) {
        let resource = Resource {
            namespace: "ns".to_owned(),
            name: name.to_owned(),
            uid: "u".to_owned(),
            generation: 1,
            api_version: "cache.example.com/v1".to_owned(),
            spec: Value::Null,
            status: Default::default(),
            paused: None,
        };
        let notice = Notice {
            severity: "Warning",
            reason: "NameConflict".to_owned(),
            note: note.to_owned(),
        };
        self.recorder.record(OPERATORS[0].kind(), &resource, notice);
    }

    /// All requests, once the writer waits for more Events.
    async fn sent(&self) -> Vec<(String, Value)> {
        sleep(Duration::from_secs(45)).await;
        self.sent.lock().unwrap().clone()
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_is_one_object_about_the_resource() {
    let scene = Scene::new(&[]);
    scene.record("cache", "why");
    scene.record("cache", "why");
    let sent = scene.sent().await;
    assert_eq!(sent.len(), 2, "{sent:#?}");
    let (line, event) = &sent[0];
    assert_eq!(line, "POST /apis/events.k8s.io/v1/namespaces/ns/events");
    let regarding = json!({
        "apiVersion": "cache.example.com/v1", "kind": OPERATORS[0].kind().kind,
        "namespace": "ns", "name": "cache", "uid": "u",
    });
    assert_eq!(event["regarding"], regarding);
    let texts = ["type", "reason", "note", "action", "reportingController"];
    let texts = texts.map(|field| event[field].as_str().unwrap()).join(" ");
    assert_eq!(texts, "Warning NameConflict why Reconcile quartet-operator");
    assert_ne!(event["reportingInstance"], "");
    let names = [0, 1].map(|index: usize| &sent[index].1["metadata"]["name"]);
    assert_ne!(names[0], names[1]);
}

#[tokio::test(start_paused = true)]
async fn names_and_notes_are_as_long_as_the_api_server_accepts() {
    let scene = Scene::new(&[]);
    let name = format!("{}.{}", "a".repeat(199), "b".repeat(53));
    scene.record(&name, &"é".repeat(600));
    let sent = scene.sent().await;
    let event = &sent[0].1;
    let own = event["metadata"]["name"].as_str().unwrap();
    assert!(own.len() <= 253 && own.starts_with(&format!("{}.1", "a".repeat(199))));
    assert_eq!(event["regarding"]["name"], name);
    assert_eq!(event["note"], "é".repeat(512));
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_not_written_is_not_sent_again() {
    for code in [403, 429, 500] {
        let scene = Scene::new(&[code]);
        scene.record("cache", "why");
        assert_eq!(scene.sent().await.len(), 1, "{code}");
        scene.record("cache", "why");
        assert_eq!(scene.sent().await.len(), 2, "{code}");
    }
}

/// Found by `make explore PLAN='Memcached/pause:4/--p/1/write:2:429'`.
#[tokio::test(start_paused = true)]
async fn no_event_is_sent_before_the_retry_after_of_another_ends() {
    let scene = Scene::new(&[429]);
    scene.record("cache", "one");
    scene.record("cache", "another");
    for (seconds, sent) in [(1, 1), (2, 2)] {
        sleep(Duration::from_secs(seconds)).await;
        assert_eq!(scene.sent.lock().unwrap().len(), sent);
    }
}

#[tokio::test(start_paused = true)]
async fn recording_never_waits_and_what_does_not_fit_is_lost() {
    let scene = Scene::new(&[]);
    // The writer does not run before this task waits.
    for _ in 0..300 {
        scene.record("cache", "why");
    }
    assert_eq!(scene.sent().await.len(), 256);
}
