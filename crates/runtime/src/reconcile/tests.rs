//! The requests of a reconcile for scripted answers: the real client against a scripted server. Time is
//! paused.

mod adoption;
mod blockers;
mod conflicts;
mod failing;
mod generations;
mod keeper;
mod lost_children;
mod new_leader;
mod owned;
mod paced;
mod refusals;
mod refused;
mod requests;
mod spread;
mod status_conflicts;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use kube::client::Body;
use serde_json::{Value, json};

use crate::cache::cached::CachedResource;
use crate::cache::store::Store;
use crate::children::Children;
use crate::clock::Clock;
use crate::event::{Recorded, Recorder};
use crate::event_handlers::QueueHandle;
use crate::metrics::Metrics;
use crate::object::ObjectKey;
use crate::reconcile::{Action, Context, FirstRevision, Reconciler};
use quartet_applied::merge;
use quartet_http::Caller;
use quartet_http::Leadership;
use quartet_operator::kinds::BRAND;
use quartet_operator::kinds::memcached::KIND;
use quartet_operator::kinds::memcached::Memcached;
use quartet_operator::legacy::LEGACY;
use quartet_workload::{DEPLOYMENT, Operator, Settings};

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
    /// `METHOD path?query body` of each request.
    sent: Arc<Log>,
    /// All requests since the start.
    sent_ever: Arc<Log>,
    /// The next resourceVersion of the resource.
    version: Arc<AtomicU32>,
    recorded: Mutex<Recorded>,
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
        let (sent, sent_ever) = (Arc::<Log>::default(), Arc::<Log>::default());
        let version = Arc::new(AtomicU32::new(1));
        let (log, script): (_, Arc<Script>) = (Arc::clone(&sent), Arc::new(script));
        let resources = Arc::<Store<_>>::default();
        let children = Arc::new(Children::new(&BRAND, &[operator]));
        let (everything, versions) = (Arc::clone(&sent_ever), Arc::clone(&version));
        let cached = Arc::clone(&resources);
        let busy = Arc::<Mutex<Option<Duration>>>::default();
        let is_busy = Arc::clone(&busy);
        let service = tower::service_fn(move |request: Request<Body>| {
            let (log, script) = (Arc::clone(&log), Arc::clone(&script));
            let (all, cache) = (Arc::clone(&everything), Arc::clone(&cached));
            let version = Arc::clone(&versions);
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
                let is_again = {
                    let mut all = all.lock().expect("not poisoned");
                    let is_again = all.iter().any(|(earlier, _)| *earlier == line);
                    all.push((line.clone(), body.clone()));
                    is_again
                };
                if let Some((code @ 200, _)) = &mut answer
                    && line.ends_with("force=false")
                    && !is_again
                {
                    *code = 201;
                }
                log.lock().expect("not poisoned").push((line, body));
                match answer {
                    Some((code, object)) => {
                        let mut response = Response::builder().status(code);
                        // As the API server does.
                        if let Some(seconds) = object["details"]["retryAfterSeconds"].as_u64() {
                            response = response.header("Retry-After", seconds);
                        }
                        let body = Body::from(object.to_string().into_bytes());
                        Ok::<_, std::convert::Infallible>(response.body(body).expect("a response"))
                    }
                    None => std::future::pending().await,
                }
            }
        });
        let mut registry = prometheus_client::registry::Registry::default();
        let metrics = Arc::new(Metrics::register(&mut registry, "quartet_operator"));
        let clock: Clock = Arc::new(jiff::Timestamp::now);
        let (recorder, recorded) = Recorder::new(Arc::clone(&clock));
        let caller = Caller::new(kube::Client::new(service, "default"), Leadership::sole());
        let context = Context {
            settings: Settings::default(),
            legacy: LEGACY,
            max_concurrent_rollouts: 1,
            first_revision: Arc::new(FirstRevision::known(caller.clone(), 0)),
            caller,
            recorder,
            clock,
            children: Arc::clone(&children),
            metrics: Arc::clone(&metrics),
        };
        let handle = QueueHandle {
            resources: Arc::clone(&resources),
            ..QueueHandle::new(operator.kind(), &metrics)
        };
        let reconciler = Reconciler::new(operator, context, &handle);
        Scenario {
            reconciler,
            resources,
            children,
            busy,
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
        let reasons = events.map(|(.., event)| event["reason"].as_str().unwrap().to_owned());
        reasons.collect()
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
        let received = serde_json::from_value(object).unwrap();
        let resource = CachedResource::decode(&KIND, &received).expect("decodes");
        self.resources.put_written(resource, 0);
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
        let written = self.children.put_written(DEPLOYMENT, &object, 0);
        assert!(written.is_some(), "decodes, and is ours");
    }

    async fn reconcile(&self) -> Result<Action, String> {
        let key = ObjectKey::new("ns", "cache");
        self.reconciler
            .reconcile(&key)
            .await
            .map_err(|error| error.to_string())
    }

    async fn after_ms(&self, milliseconds: u64) -> Result<Action, String> {
        self.reconcile_after(Duration::from_millis(milliseconds))
            .await
    }

    async fn reconcile_after(&self, time: Duration) -> Result<Action, String> {
        tokio::time::advance(time).await;
        self.reconcile().await
    }

    /// Receives the resource as by [`Scenario::holds`] and reconciles it.
    async fn reconciles(&self, size: i64, more: Value) {
        self.holds(size, more);
        self.reconcile().await.expect("reconciled");
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
    let deleted = stored.meta.deleting.then_some("2026-01-01T00:00:00Z");
    json!({
        "apiVersion": format!("cache.example.com/{}", stored.version), "kind": "Memcached",
        "metadata": {
            "name": "cache", "namespace": "ns", "uid": stored.meta.uid,
            "resourceVersion": version.to_string(), "generation": stored.meta.generation,
            "deletionTimestamp": deleted,
            "annotations": {
                "quartet-operator.example.com/conversion-data": stored.conversion_data,
                "quartet-operator.example.com/paused": stored.paused,
            },
        },
        "spec": serde_json::from_str::<Value>(&stored.spec).expect("JSON"),
    })
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
