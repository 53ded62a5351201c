//! The requests of the writer for recorded events. The API server is scripted; time is paused.

use std::collections::VecDeque;
use std::sync::Mutex;

use http::{Request, Response};
use kube::client::Body;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::*;
use crate::controller::event::{Notice, Recorder, Severity};
use crate::controller::leadership::Leadership;
use crate::operators::{OPERATORS, Resource};

/// A running writer, and its requests.
struct Scene {
    recorder: Recorder,
    writer: JoinHandle<()>,
    sent: Arc<Mutex<Vec<(String, Value)>>>,
    registry: Registry,
}

impl Scene {
    /// The answers have these codes, and then 201.
    fn new(codes: &[u16]) -> Self {
        let sent = Arc::<Mutex<Vec<_>>>::default();
        let codes = Arc::new(Mutex::new(codes.iter().copied().collect::<VecDeque<_>>()));
        let log = Arc::clone(&sent);
        let service = tower::service_fn(move |request: Request<Body>| {
            let (log, codes) = (Arc::clone(&log), Arc::clone(&codes));
            async move {
                let method = request.method().to_string();
                let bytes = request.into_body().collect_bytes().await.unwrap();
                let body = serde_json::from_slice(&bytes).unwrap();
                log.lock().unwrap().push((method, body));
                let code = codes.lock().unwrap().pop_front().unwrap_or(201);
                let body = json!({"status": "Failure", "code": code, "message": "scripted"});
                let mut response = Response::builder().status(code);
                if code == 429 {
                    response = response.header("Retry-After", 4);
                }
                Ok::<_, std::io::Error>(
                    response
                        .body(Body::from(body.to_string().into_bytes()))
                        .unwrap(),
                )
            }
        });
        let mut registry = Registry::default();
        let metrics = Arc::new(Metrics::register(&mut registry));
        let caller = Caller::new(kube::Client::new(service, "default"), Leadership::sole());
        let (recorder, recorded) = Recorder::new(Arc::clone(&metrics));
        Scene {
            recorder,
            writer: tokio::spawn(Writer::new(caller, metrics).run(recorded)),
            sent,
            registry,
        }
    }

    fn record(&self, reason: &str) {
        let kind = OPERATORS[0].kind();
        let resource = Resource {
            namespace: "ns".to_owned(),
            name: "cache".to_owned(),
            uid: "u".to_owned(),
            generation: 1,
            api_version: "cache.example.com/v1".to_owned(),
            spec: Value::Null,
            status: Default::default(),
            paused: None,
        };
        let notice = Notice {
            severity: Severity::Warning,
            reason: reason.to_owned(),
            note: "why".to_owned(),
        };
        self.recorder.record(kind, &resource, notice);
    }

    /// All requests, once the writer waits for more events.
    async fn sent(&self) -> Vec<(String, Value)> {
        sleep(Duration::from_secs(25)).await;
        self.sent.lock().unwrap().clone()
    }

    fn count(&self, result: &str) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).unwrap();
        let name = format!("quartet_operator_events_total{{result=\"{result}\"}} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&name));
        line.unwrap_or("none").to_owned()
    }
}

fn methods(sent: &[(String, Value)]) -> Vec<&str> {
    sent.iter().map(|(method, _)| method.as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn an_event_is_an_object_about_the_resource_and_its_repeat_a_count() {
    let scene = Scene::new(&[]);
    scene.record("NameConflict");
    let sent = scene.sent().await;
    assert_eq!(methods(&sent), ["POST"]);
    let event = &sent[0].1;
    assert_eq!(event["reportingController"], "quartet-operator");
    assert_eq!(event["regarding"]["uid"], "u");
    assert_eq!(
        (&event["type"], &event["reason"], &event["note"]),
        (&json!("Warning"), &json!("NameConflict"), &json!("why"))
    );

    scene.record("NameConflict");
    let sent = scene.sent().await;
    assert_eq!(methods(&sent), ["POST", "PATCH"]);
    assert_eq!(sent[1].1["series"]["count"], 2);
    for _ in 0..8 {
        scene.record("NameConflict");
    }
    let sent = scene.sent().await;
    assert_eq!(sent.len(), 2, "a count is written at most once a minute");
    let sent = scene.sent().await;
    assert_eq!(methods(&sent), ["POST", "PATCH", "PATCH"]);
    assert_eq!(sent[2].1["series"]["count"], 10);
    assert_eq!(scene.count("created"), "1");
}

#[tokio::test(start_paused = true)]
async fn counts_that_wait_are_written_at_the_end() {
    let scene = Scene::new(&[]);
    for _ in 0..5 {
        scene.record("NameConflict");
    }
    assert_eq!(methods(&scene.sent().await), ["POST", "PATCH"]);
    drop(scene.recorder);
    scene.writer.await.unwrap();
    let sent = scene.sent.lock().unwrap();
    assert_eq!(methods(&sent), ["POST", "PATCH", "PATCH"]);
    assert_eq!(sent[2].1["series"]["count"], 5);
}

#[tokio::test(start_paused = true)]
async fn a_passing_failure_is_tried_twice_more_and_a_lasting_one_not_at_all() {
    let scene = Scene::new(&[500, 429, 201]);
    scene.record("NameConflict");
    assert_eq!(scene.sent().await.len(), 3);
    assert_eq!(
        (scene.count("created"), scene.count("failed")),
        ("1".into(), "0".into())
    );

    let scene = Scene::new(&[500, 500, 500]);
    scene.record("NameConflict");
    assert_eq!(scene.sent().await.len(), 3, "and no more");
    assert_eq!(scene.count("failed"), "1");

    let scene = Scene::new(&[403]);
    scene.record("NameConflict");
    assert_eq!(scene.sent().await.len(), 1);
    assert_eq!(scene.count("failed"), "1");
}

#[tokio::test(start_paused = true)]
async fn an_event_is_not_tried_again_before_the_time_that_the_api_server_asks_for() {
    let scene = Scene::new(&[429, 201]);
    scene.record("NameConflict");
    sleep(Duration::from_millis(3990)).await;
    assert_eq!(scene.sent.lock().unwrap().len(), 1);
    sleep(Duration::from_millis(20)).await;
    assert_eq!(scene.sent.lock().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_count_of_an_object_that_is_gone_makes_way_for_a_new_object() {
    let scene = Scene::new(&[201, 404]);
    scene.record("NameConflict");
    scene.record("NameConflict");
    assert_eq!(methods(&scene.sent().await), ["POST", "PATCH"]);
    scene.record("NameConflict");
    assert_eq!(methods(&scene.sent().await), ["POST", "PATCH", "POST"]);
}

#[tokio::test(start_paused = true)]
async fn recording_never_waits_and_what_does_not_fit_is_lost_and_counted() {
    let scene = Scene::new(&[]);
    // The writer does not run before this task waits.
    for _ in 0..300 {
        scene.record("NameConflict");
    }
    assert_eq!(scene.count("dropped"), "44");
    scene.sent().await;
    for number in 0..20 {
        scene.record(&format!("Reason{number}"));
    }
    scene.sent().await;
    assert_eq!(
        scene.count("suppressed"),
        "11",
        "one resource has ten at a time"
    );
}
