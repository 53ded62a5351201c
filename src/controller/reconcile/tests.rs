//! The requests of a reconcile for scripted answers: the real client against a scripted server. Time is
//! paused.

mod adoption;
mod conflicts;
mod failing;
mod generations;
mod lost_children;
mod memo;
mod owned;
mod paced;
mod shards;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::controller::cache::cached::CachedResource;
use crate::controller::cache::decode::Decode;
use crate::controller::cache::store::Store;
use crate::controller::call::Caller;
use crate::controller::children::Children;
use crate::controller::event::{Event, Recorder};
use crate::controller::leadership::Leadership;
use crate::controller::metrics::Metrics;
use crate::controller::object::ObjectKey;
use crate::controller::queue::Queue;
use crate::controller::reconcile::pacing::Pacer;
use crate::controller::reconcile::{Action, Reconciler};
use crate::json::Json;
use crate::operators::memcached::Memcached;
use crate::operators::{DEPLOYMENT, Operator, Settings};
use crate::shard::Shard;

/// Answers one request, or never answers.
type Script = dyn Fn(&str, &Value) -> Option<(u16, Value)> + Send + Sync;

/// Requests, with their bodies.
type Log = Mutex<Vec<(String, Value)>>;

/// Reconciles one Memcached called `cache` against a scripted API server.
struct Scenario {
    reconciler: Reconciler,
    resources: Arc<Store<CachedResource>>,
    children: Arc<Children>,
    /// The next request is answered with the status 429 and this `Retry-After`.
    busy: Arc<Mutex<Option<Duration>>>,
    /// A pacer of one rollout at a time.
    pacer: Arc<Pacer>,
    queue: Arc<Queue<ObjectKey>>,
    /// `METHOD path?query body` of each request.
    sent: Arc<Log>,
    /// All requests since the start.
    sent_ever: Arc<Log>,
    /// The next resourceVersion of the resource.
    version: Arc<AtomicU32>,
    recorded: Mutex<mpsc::Receiver<Event>>,
}

impl Scenario {
    fn new(script: impl Fn(&str, &Value) -> Option<(u16, Value)> + Send + Sync + 'static) -> Self {
        Self::of(&Memcached, script)
    }

    /// The same scenario with another operator for the kind.
    fn of(
        operator: &'static dyn Operator,
        script: impl Fn(&str, &Value) -> Option<(u16, Value)> + Send + Sync + 'static,
    ) -> Self {
        Self::in_shard(None, operator, script)
    }

    /// The same scenario in a shard.
    fn in_shard(
        shard: Option<Shard>,
        operator: &'static dyn Operator,
        script: impl Fn(&str, &Value) -> Option<(u16, Value)> + Send + Sync + 'static,
    ) -> Self {
        let (sent, sent_ever) = (Arc::<Log>::default(), Arc::<Log>::default());
        let version = Arc::new(AtomicU32::new(1));
        let (log, script): (_, Arc<Script>) = (Arc::clone(&sent), Arc::new(script));
        let resources = Arc::<Store<_>>::default();
        let children = Arc::new(Children::new(
            operator.owns(),
            shard.as_ref().map(Shard::id),
        ));
        let (everything, versions) = (Arc::clone(&sent_ever), Arc::clone(&version));
        let cached = Arc::clone(&resources);
        let busy = Arc::<Mutex<Option<Duration>>>::default();
        let is_busy = Arc::clone(&busy);
        let service = tower::service_fn(move |request: Request<Body>| {
            let (log, script) = (Arc::clone(&log), Arc::clone(&script));
            let (all, cache, version) = (
                Arc::clone(&everything),
                Arc::clone(&cached),
                Arc::clone(&versions),
            );
            let asked = is_busy.lock().expect("not poisoned").take();
            async move {
                if let Some(asked) = asked {
                    return Ok(Response::builder()
                        .status(429)
                        .header("Retry-After", asked.as_secs())
                        .body(Body::from(b"too many requests".to_vec()))
                        .expect("a response"));
                }
                let line = format!("{} {}", request.method(), request.uri());
                let bytes = request.into_body().collect_bytes().await.expect("a body");
                let body = serde_json::from_slice(&bytes).unwrap_or_default();
                let mut answer = script(&line, &body);
                if let (true, Some((200, object))) = (line.contains("/status"), &mut answer) {
                    let mut stored = as_stored(&cache, version.fetch_add(1, Ordering::Relaxed));
                    merge(&mut stored, object.take());
                    *object = stored;
                }
                all.lock()
                    .expect("not poisoned")
                    .push((line.clone(), body.clone()));
                log.lock().expect("not poisoned").push((line, body));
                match answer {
                    Some((code, object)) => Ok::<_, std::convert::Infallible>(
                        Response::builder()
                            .status(code)
                            .body(Body::from(object.to_string().into_bytes()))
                            .expect("a response"),
                    ),
                    None => std::future::pending().await,
                }
            }
        });
        let mut registry = prometheus_client::registry::Registry::default();
        let metrics = Arc::new(Metrics::register(&mut registry));
        let (recorder, recorded) = Recorder::new(Arc::clone(&metrics));
        let queue = Arc::new(Queue::new("memcached", &metrics));
        let pacer = Arc::new(Pacer::new(
            "memcached".to_owned(),
            "Memcached",
            1,
            Arc::clone(&queue),
            Arc::clone(&children),
            Arc::clone(&metrics),
        ));
        let reconciler = Reconciler::new(
            operator,
            (Settings::default(), shard),
            (
                Caller::new(kube::Client::new(service, "default"), Leadership::sole()),
                recorder,
            ),
            (Arc::clone(&resources), Arc::default()),
            Arc::clone(&children),
            (Arc::clone(&pacer), metrics),
        );
        reconciler.begun_at(0);
        Scenario {
            reconciler,
            resources,
            children,
            busy,
            pacer,
            queue,
            sent,
            sent_ever,
            version,
            recorded: Mutex::new(recorded),
        }
    }

    /// The reasons of the Events since the last call.
    fn told(&self) -> Vec<String> {
        let mut recorded = self.recorded.lock().expect("not poisoned");
        let events = std::iter::from_fn(|| recorded.try_recv().ok());
        events.map(|event| event.notice.reason).collect()
    }

    /// The resource as in a watch event, with a later version than any before.
    fn holds(&self, size: i64, more: Value) {
        let mut object = json!({
            "apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached",
            "metadata": {"name": "cache", "namespace": "ns", "uid": "owner", "resourceVersion": "1", "generation": 1},
            "spec": {"size": size},
        });
        merge(&mut object, more);
        let version = self.version.fetch_add(1, Ordering::Relaxed);
        object["metadata"]["resourceVersion"] = version.to_string().into();
        self.resources
            .put_written(CachedResource::from_json(&Json::from(&object)).expect("decodes"));
    }

    /// The next request is rejected as by an overloaded API server.
    fn asks_to_stay_away(&self, time: Duration) {
        *self.busy.lock().expect("not poisoned") = Some(time);
    }

    /// Status, reason and message of a condition in the last written status.
    fn condition(&self, type_: &str) -> (String, String, String) {
        let sent = self.sent_ever.lock().expect("not poisoned");
        let body = sent
            .iter()
            .rev()
            .find(|(line, _)| line.contains("/status"))
            .map(|(_, body)| body[1]["value"]["conditions"].clone())
            .expect("a status was written");
        let conditions = body.as_array().expect("conditions");
        let found = conditions.iter().find(|it| it["type"] == type_);
        let text = |field: &str| {
            found.expect("there")[field]
                .as_str()
                .expect("a text")
                .to_owned()
        };
        (text("status"), text("reason"), text("message"))
    }

    /// The Deployment as in a watch event: as last applied, with `more`.
    fn deployment_is(&self, resource_version: u32, more: Value) {
        let sent = self.sent_ever.lock().expect("not poisoned").clone();
        let mut applies = sent
            .iter()
            .filter(|(line, _)| line.contains("deployments/cache?"));
        let body = applies.next_back().expect("it was applied").1.clone();
        let mut object = applied(&body, resource_version);
        merge(&mut object, more);
        let written = self.children.put_written(DEPLOYMENT, &object);
        assert!(written.is_some(), "decodes, and is ours");
    }

    async fn reconcile(&self) -> Result<Action, String> {
        let key = ObjectKey::new("ns", "cache");
        self.reconciler
            .reconcile(&key)
            .await
            .map_err(|error| error.to_string())
    }

    fn sent(&self) -> Vec<String> {
        let sent = std::mem::take(&mut *self.sent.lock().expect("not poisoned"));
        sent.into_iter()
            .map(|(line, _)| line.replace("fieldManager=quartet-operator-memcached", "…"))
            .collect()
    }
}

/// The cached resource at another version.
fn as_stored(cache: &Store<CachedResource>, version: u32) -> Value {
    let stored = cache
        .get(&ObjectKey::new("ns", "cache"))
        .expect("it is held");
    json!({
        "apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached",
        "metadata": {
            "name": "cache", "namespace": "ns", "uid": stored.meta.uid,
            "resourceVersion": version.to_string(), "generation": stored.meta.generation,
            "annotations": {"quartet-operator.example.com/conversion-data": stored.conversion_data},
        },
        "spec": serde_json::from_str::<Value>(&stored.spec).expect("JSON"),
    })
}

fn merge(object: &mut Value, more: Value) {
    match (object, more) {
        (Value::Object(object), Value::Object(more)) => {
            for (name, member) in more {
                merge(object.entry(name).or_insert(Value::Null), member);
            }
        }
        (object, more) => *object = more,
    }
}

/// The API server's answer to an apply: all fields of the body are owned.
fn applied(body: &Value, resource_version: u32) -> Value {
    fn fields(value: &Value) -> Value {
        match value {
            Value::Object(members) => members
                .iter()
                .filter(|(name, _)| {
                    !matches!(
                        name.as_str(),
                        "apiVersion" | "kind" | "name" | "namespace" | "resourceVersion"
                    )
                })
                .map(|(name, member)| (format!("f:{name}"), fields(member)))
                .collect(),
            _ => json!({}),
        }
    }
    let mut object = body.clone();
    let owned = json!({"f:metadata": fields(&body["metadata"]), "f:spec": fields(&body["spec"])});
    merge(
        &mut object,
        json!({"metadata": {
            "uid": "child", "resourceVersion": resource_version.to_string(), "generation": 1,
            "managedFields": [{"manager": "quartet-operator-memcached", "operation": "Apply", "fieldsV1": owned}],
        }}),
    );
    object
}

fn refusal(code: u16, message: &str, cause: &str, field: &str) -> Option<(u16, Value)> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": "R", "message": message,
        "details": {"causes": [{"reason": cause, "field": field}]},
    });
    Some((code, status))
}

/// The cached resource with its new status.
fn with_status(body: &Value) -> Value {
    json!({"status": body[1]["value"]})
}

const APPLY: &str = "PATCH /apis/apps/v1/namespaces/ns/deployments/cache?…&force=false";
const FORCE: &str = "PATCH /apis/apps/v1/namespaces/ns/deployments/cache?…&force=true";
const GET: &str = "GET /apis/apps/v1/namespaces/ns/deployments/cache";
const STATUS: &str =
    "PATCH /apis/cache.example.com/v1alpha1/namespaces/ns/memcacheds/cache/status?…";

/// The status of a Deployment whose rollout is complete.
fn rolled_out(replicas: i64) -> Value {
    json!({"status": {
        "observedGeneration": 1, "replicas": replicas, "updatedReplicas": replicas,
        "readyReplicas": replicas, "availableReplicas": replicas,
    }})
}

/// A server where every apply succeeds.
fn willing(line: &str, body: &Value) -> Option<(u16, Value)> {
    if line.contains("/status") {
        Some((200, with_status(body)))
    } else {
        Some((200, applied(body, 2)))
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_resource_costs_one_unforced_apply_and_one_status_later() {
    let scenario = Scenario::new(willing);
    scenario.holds(1, json!({}));
    for seconds in [1, 3] {
        let wait = Duration::from_secs(seconds);
        let next = scenario.reconcile().await;
        assert_eq!(next, Ok(Action::RequeueAfter(wait)), "the status waits");
        tokio::time::advance(wait).await;
    }
    assert_eq!(scenario.sent(), [APPLY]);
    assert_eq!(scenario.reconcile().await, Ok(Action::AwaitChange));
    assert_eq!(scenario.sent(), [STATUS]);
    assert_eq!(scenario.reconcile().await, Ok(Action::AwaitChange));
    assert_eq!(scenario.sent(), Vec::<String>::new(), "and nothing more");
}

#[tokio::test(start_paused = true)]
async fn a_changed_spec_is_applied_with_force_and_only_onto_the_child_that_is_known() {
    let scenario = Scenario::new(willing);
    scenario.holds(1, json!({}));
    scenario.reconcile().await.expect("reconciled");
    scenario.sent();
    scenario.holds(
        2,
        json!({"metadata": {"resourceVersion": "2", "generation": 2}}),
    );
    scenario.reconcile().await.expect("reconciled");
    let body = scenario.sent.lock().expect("not poisoned")[0].1.clone();
    assert_eq!(scenario.sent(), [FORCE]);
    assert_eq!(body["metadata"]["uid"], "child");
    assert_eq!(body["spec"]["replicas"], 2);
}

#[tokio::test(start_paused = true)]
async fn fault_42_a_strangers_object_is_looked_at_once_and_never_forced() {
    let scenario = Scenario::new(|line, body| match line {
        line if line.contains("force=") => {
            refusal(409, "conflict", "FieldManagerConflict", ".spec.selector")
        }
        line if line.starts_with("GET") => Some((200, json!({"metadata": {"uid": "stranger"}}))),
        line => willing(line, body),
    });
    scenario.holds(1, json!({}));
    let next = scenario.reconcile().await.expect("reconciled");
    let Action::RequeueAfter(retry) = next else {
        panic!("a blocker is looked at again")
    };
    assert!(
        (12.0..=18.0).contains(&retry.as_secs_f64()),
        "15 s ± 20 %: {retry:?}"
    );
    let sent = scenario.sent();
    assert_eq!(sent, [APPLY, GET, STATUS]);
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
    let scenario = Scenario::new(|line, body| match line {
        line if line.contains("force=") => {
            refusal(409, "conflict", "FieldManagerConflict", ".spec.selector")
        }
        line if line.starts_with("GET") => Some((200, json!({"metadata": {"uid": "stranger"}}))),
        line => willing(line, body),
    });
    scenario.holds(1, json!({}));
    let Ok(Action::RequeueAfter(wait)) = scenario.reconcile().await else {
        panic!("a blocker is looked at again")
    };
    assert_eq!(of_children(&scenario), [APPLY, GET]);
    tokio::time::advance(Duration::from_secs(10)).await;
    let left = wait - Duration::from_secs(10);
    assert_eq!(scenario.reconcile().await, Ok(Action::RequeueAfter(left)));
    assert_eq!(scenario.sent(), Vec::<String>::new());
    tokio::time::advance(left).await;
    scenario.reconcile().await.expect("reconciled");
    assert_eq!(of_children(&scenario), [APPLY, GET], "its time has come");

    // A changed spec is applied at once, even with the same child.
    scenario.holds(
        1,
        json!({"metadata": {"resourceVersion": "6", "generation": 2}}),
    );
    scenario.reconcile().await.expect("reconciled");
    assert_eq!(of_children(&scenario), [APPLY, GET]);
    // So is a name whose cached object has changed.
    let stranger = json!({"metadata": {
        "name": "cache", "namespace": "ns", "uid": "another", "resourceVersion": "7",
    }});
    assert!(
        scenario
            .children
            .put_written(DEPLOYMENT, &stranger)
            .is_none()
    );
    scenario.reconcile().await.expect("reconciled");
    assert_eq!(of_children(&scenario), [APPLY, GET]);
    scenario.reconcile().await.expect("reconciled");
    assert_eq!(of_children(&scenario), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_child_that_lost_its_label_is_taken_back_by_force() {
    let scenario = Scenario::new(|line, body| match line {
        line if line.contains("force=false") => {
            refusal(409, "conflict", "FieldManagerConflict", ".spec.replicas")
        }
        line if line.starts_with("GET") => Some((
            200,
            applied(
                &json!({"metadata": {
            "name": "cache", "namespace": "ns",
            "ownerReferences": [{"apiVersion": "cache.example.com/v1", "kind": "Memcached", "name": "cache", "uid": "owner", "controller": true}],
        }, "spec": {}}),
                2,
            ),
        )),
        line => willing(line, body),
    });
    scenario.holds(1, json!({}));
    scenario.reconcile().await.expect("reconciled");
    assert_eq!(scenario.sent(), [APPLY, GET, FORCE]);
}

#[tokio::test(start_paused = true)]
async fn a_child_of_an_older_operator_has_its_managed_fields_handed_over_first() {
    let scenario = Scenario::new(|line, body| match line {
        line if line.starts_with("GET") => Some((
            200,
            json!({"metadata": {
                "name": "cache", "namespace": "ns", "uid": "child", "resourceVersion": "3",
                "ownerReferences": [{"apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached", "name": "cache", "uid": "owner", "controller": true}],
                "managedFields": [{"manager": "manager", "operation": "Update", "fieldsV1": {
                    "f:metadata": {"f:ownerReferences": {"k:{\"uid\":\"owner\"}": {}}},
                }}],
            }}),
        )),
        line if line.contains("force=false") => {
            refusal(409, "conflict", "FieldManagerConflict", ".spec.replicas")
        }
        line => willing(line, body),
    });
    scenario.holds(1, json!({}));
    scenario.reconcile().await.expect("reconciled");
    let hand_over = "PATCH /apis/apps/v1/namespaces/ns/deployments/cache?…";
    assert_eq!(scenario.sent(), [APPLY, GET, hand_over, FORCE]);
}

#[tokio::test(start_paused = true)]
async fn what_the_api_server_makes_of_an_apply_is_not_fought() {
    let scenario = Scenario::new(|line, body| {
        let (code, mut object) = willing(line, body)?;
        if line.contains("force=") {
            object["spec"]["replicas"] = json!(7);
        }
        Some((code, object))
    });
    scenario.holds(1, json!({}));
    scenario.reconcile().await.expect("reconciled");
    assert_eq!(scenario.sent(), [APPLY]);
    tokio::time::advance(Duration::from_secs(20)).await;
    scenario.reconcile().await.expect("reconciled");
    scenario.reconcile().await.expect("reconciled");
    assert_eq!(scenario.sent(), [STATUS]);
    // A new desired state is sent, whatever the result of the last one.
    scenario.holds(
        2,
        json!({"metadata": {"resourceVersion": "6", "generation": 2}}),
    );
    scenario.reconcile().await.expect("reconciled");
    assert_eq!(scenario.sent(), [FORCE]);
}

#[tokio::test(start_paused = true)]
async fn fault_49_nothing_is_done_for_a_resource_that_is_being_deleted() {
    let scenario = Scenario::new(willing);
    scenario.holds(
        1,
        json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
    );
    assert_eq!(scenario.reconcile().await, Ok(Action::AwaitChange));
    assert_eq!(scenario.sent(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn fault_33_the_finalizer_of_an_older_operator_is_stripped_and_no_other() {
    let scenario = Scenario::new(willing);
    scenario.holds(
        1,
        json!({"metadata": {
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": ["theirs.example.com/one", "cache.example.com/finalizer"],
        }}),
    );
    assert_eq!(scenario.reconcile().await, Ok(Action::AwaitChange));
    let sent = scenario.sent.lock().expect("not poisoned").clone();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].1[2]["value"], json!(["theirs.example.com/one"]));
}

#[tokio::test(start_paused = true)]
async fn fault_50_a_namespace_that_is_going_away_gets_neither_child_nor_status() {
    let scenario = Scenario::new(|_, _| refusal(403, "forbidden", "NamespaceTerminating", ""));
    scenario.holds(1, json!({}));
    assert_eq!(scenario.reconcile().await, Ok(Action::AwaitChange));
    assert_eq!(scenario.sent(), [APPLY]);
}

#[tokio::test(start_paused = true)]
async fn a_call_without_an_answer_ends_at_its_deadline() {
    let scenario = Scenario::new(|_, _| None);
    scenario.holds(1, json!({}));
    let started = tokio::time::Instant::now();
    let error = scenario.reconcile().await.expect_err("no answer");
    assert_eq!(
        error,
        "cannot apply deployments ns/cache: no answer within 10 s"
    );
    assert!(
        started.elapsed() < Duration::from_secs(21),
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn fault_43_a_name_that_another_resource_claimed_is_not_applied() {
    let scenario = Scenario::new(willing);
    let name = ObjectKey::new("ns", "cache");
    assert!(
        scenario
            .children
            .reservations
            .reserve(DEPLOYMENT, &name, "another")
    );
    scenario.holds(1, json!({}));
    scenario.reconcile().await.expect("reconciled");
    assert!(!scenario.sent().contains(&APPLY.to_owned()));
    scenario
        .children
        .reservations
        .release(DEPLOYMENT, &name, "another");
    scenario.reconcile().await.expect("reconciled");
    assert_eq!(scenario.sent()[0], APPLY);
}

#[tokio::test(start_paused = true)]
async fn fault_48_an_invalid_spec_is_told_and_nothing_is_applied() {
    let scenario = Scenario::new(|line, body| {
        let (code, mut object) = willing(line, body)?;
        object["spec"]["size"] = json!(-1);
        Some((code, object))
    });
    scenario.holds(-1, json!({}));
    assert_eq!(scenario.reconcile().await, Ok(Action::AwaitChange));
    let sent = scenario.sent();
    assert_eq!(sent[0], STATUS, "{sent:?}");
    assert!(!sent.iter().any(|line| line.contains("deployments")));
}

#[tokio::test(start_paused = true)]
async fn a_spec_that_changes_while_the_status_is_written_is_not_lost() {
    let scenario = Scenario::new(|line, body| {
        let (code, mut object) = willing(line, body)?;
        if line.contains("/status") {
            // The answer contains a concurrent change of a user; the watch repeats neither.
            object["spec"]["size"] = json!(7);
            object["metadata"]["generation"] = json!(2);
        }
        Some((code, object))
    });
    scenario.holds(1, json!({}));
    scenario.reconcile().await.expect("reconciled");
    tokio::time::advance(Duration::from_secs(20)).await;
    assert_eq!(
        scenario.reconcile().await,
        Ok(Action::RequeueAfter(Duration::ZERO))
    );
    scenario.sent();
    scenario.reconcile().await.expect("reconciled");
    let body = scenario.sent.lock().expect("not poisoned")[0].1.clone();
    assert_eq!(body["spec"]["replicas"], 7);
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_goes_in_the_middle_of_its_reconcile_keeps_no_name() {
    let scenario = Arc::new(Scenario::new(|_, _| None));
    scenario.holds(1, json!({}));
    let running = tokio::spawn({
        let scenario = Arc::clone(&scenario);
        async move { scenario.reconcile().await }
    });
    tokio::task::yield_now().await;
    // A new resource of the same name replaces it, as in a watch event.
    scenario.holds(
        1,
        json!({"metadata": {"uid": "later", "resourceVersion": "9"}}),
    );
    running.await.expect("no panic").expect_err("no answer");
    let name = ObjectKey::new("ns", "cache");
    assert!(
        scenario
            .children
            .reservations
            .reserve(DEPLOYMENT, &name, "another")
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_is_told_in_the_words_of_the_version_that_was_read() {
    let scenario = Scenario::new(willing);
    scenario.holds(-1, json!({}));
    scenario.reconcile().await.expect("reconciled");
    let body = scenario.sent.lock().expect("not poisoned")[0].1.to_string();
    assert!(body.contains("spec.size: Invalid value: -1"), "{body}");
}
