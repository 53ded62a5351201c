//! The resources that a change enqueues, and the start and stop of all controllers. The API server is
//! scripted; time is paused.

use std::future::{pending, ready};
use std::sync::Mutex;
use std::time::Duration;

use futures::FutureExt;
use http::{Method, Request, Response};
use kube::client::Body;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::api::Status;
use crate::controller::cache::cached::CachedPod;
use crate::controller::event_handlers::{COALESCE, STEP_WHILE_WAITING};
use crate::controller::leadership::MayWrite;
use crate::controller::object::ObjectKey;
use crate::controller::state::debounce::Difference;
use crate::json::Json;
use crate::operators::{DEPLOYMENT, OPERATORS, Observed, Resource, SERVICE};

/// Longer than any start or stop without a fault.
const LONG: Duration = Duration::from_secs(3600);

/// The handlers of all four kinds, with caches filled and queues read by the test.
struct Scene {
    handlers: EventHandlers,
}

impl Scene {
    fn new(namespaces: &[&str]) -> Self {
        let metrics = Metrics::register(&mut Registry::default());
        let kinds = OPERATORS.iter().map(|operator| operator.kind());
        Scene {
            handlers: EventHandlers {
                controllers: kinds.map(|kind| QueueHandle::new(kind, &metrics)).collect(),
                children: Arc::default(),
                namespaces: namespaces.iter().map(ToString::to_string).collect(),
            },
        }
    }

    fn controller(&self, kind: &str) -> &QueueHandle {
        let mut controllers = self.handlers.controllers.iter();
        controllers
            .find(|controller| controller.kind.kind == kind)
            .unwrap()
    }

    /// A cached resource; its UID is its kind and name.
    fn holds(&self, kind: &str, namespace: &str, name: &str) {
        let resource = resource(namespace, name, &format!("{kind}-{name}"), 1);
        assert!(self.controller(kind).resources.put_written(resource));
    }

    /// A change of a resource.
    fn resource_changed(&self, kind: &str, change: &Change<CachedResource>, is_first_list: bool) {
        self.handlers
            .resource_changed(self.controller(kind).kind, change, is_first_list);
    }

    fn deployment_changed(&self, change: Change<CachedChild>) {
        self.handlers.child_changed(&change);
    }

    /// The enqueued resources since the last call, e.g. `Nginx ns/web`, in the order of the kinds.
    fn enqueued(&self) -> Vec<String> {
        let mut enqueued = Vec::new();
        for controller in &self.handlers.controllers {
            while let Some(key) = controller.queue.get().now_or_never().flatten() {
                controller.queue.done(&key);
                enqueued.push(format!("{} {key}", controller.kind.kind));
            }
        }
        enqueued
    }

    /// The resources that are enqueued after the delay of a rollout's step, and none before.
    async fn enqueued_later(&self) -> Vec<String> {
        assert_eq!(self.enqueued(), NOBODY, "at once");
        tokio::time::advance(COALESCE).await;
        self.enqueued()
    }
}

const NOBODY: [&str; 0] = [];

fn resource(namespace: &str, name: &str, uid: &str, version: u64) -> CachedResource {
    let object = json!({"metadata": {
        "namespace": namespace, "name": name, "uid": uid, "resourceVersion": version.to_string(),
    }});
    CachedResource::from_json(&Json::from(&object)).unwrap()
}

/// `<kind> <name>` as a controller reference; the UID is as in [`Scene::holds`].
fn reference(api_version: &str, owner: &str) -> Value {
    let (kind, name) = owner.split_once(' ').unwrap();
    json!({
        "apiVersion": api_version, "kind": kind, "name": name,
        "uid": format!("{kind}-{name}"), "controller": true,
    })
}

const NGINX: &str = "proxy.example.com/v1alpha1";
const HELLO_WORLD: &str = "test.jiaozi.com/v1alpha1";

fn child(name: &str, owners: &[Value]) -> Value {
    json!({"metadata": {
        "namespace": "ns", "name": name, "uid": "child", "resourceVersion": "7", "ownerReferences": owners,
    }})
}

fn deployment(object: &Value) -> Arc<CachedChild> {
    Arc::new(CachedChild::decode(DEPLOYMENT, None, &Json::from(object)).unwrap())
}

#[test]
fn a_child_wakes_its_owner_by_group_kind_and_name_whatever_version_it_names() {
    let scene = Scene::new(&[]);
    scene.holds("Nginx", "ns", "web");
    for version in ["v1alpha1", "v1", "v7"] {
        let owner = reference(&format!("proxy.example.com/{version}"), "Nginx web");
        scene.deployment_changed(Change::Added(deployment(&child("web", &[owner]))));
        assert_eq!(scene.enqueued(), ["Nginx ns/web"], "{version}");
    }
    for (what, api_version, member, value) in [
        ("another group", "other.example.com/v1", "kind", "Nginx"),
        ("no group", "v1", "kind", "Nginx"),
        ("another kind", NGINX, "kind", "Memcached"),
        ("nobody there", NGINX, "name", "gone"),
    ] {
        let mut owner = reference(api_version, "Nginx web");
        owner[member] = value.into();
        scene.deployment_changed(Change::Added(deployment(&child("web", &[owner]))));
        assert_eq!(scene.enqueued(), NOBODY, "{what}");
    }
}

#[test]
fn the_child_of_an_earlier_life_wakes_the_resource_that_waits_for_it_to_go() {
    let scene = Scene::new(&[]);
    scene.holds("Nginx", "ns", "web");
    let mut owner = reference(NGINX, "Nginx web");
    owner["uid"] = "earlier".into();
    scene.deployment_changed(Change::Deleted(deployment(&child("web", &[owner]))));
    assert_eq!(scene.enqueued(), ["Nginx ns/web"]);
}

#[test]
fn a_resource_that_lost_a_child_is_noted_and_no_other_life_of_it() {
    let scene = Scene::new(&[]);
    scene.holds("Nginx", "ns", "web");
    let owner = reference(NGINX, "Nginx web");
    let mut earlier = owner.clone();
    earlier["uid"] = "earlier".into();
    let lost =
        |owner: &Value| Change::Deleted(deployment(&child("web", std::slice::from_ref(owner))));
    scene.deployment_changed(lost(&earlier));
    scene.deployment_changed(Change::Added(deployment(&child(
        "web",
        std::slice::from_ref(&owner),
    ))));
    let lost_children = &scene.handlers.children.lost_children;
    assert!(!lost_children.contains("earlier") && !lost_children.contains("Nginx-web"));
    scene.deployment_changed(lost(&owner));
    assert!(lost_children.contains("Nginx-web"));
}

#[test]
fn an_owner_that_is_not_the_controller_is_not_woken() {
    let scene = Scene::new(&[]);
    scene.holds("Nginx", "ns", "web");
    let mut owner = reference(NGINX, "Nginx web");
    owner["controller"] = false.into();
    scene.deployment_changed(Change::Added(deployment(&child("web", &[owner]))));
    assert_eq!(scene.enqueued(), NOBODY);
}

#[test]
fn a_service_wakes_its_owner_like_a_deployment() {
    let scene = Scene::new(&[]);
    scene.holds("ElasticWeb", "ns", "web");
    let owner = reference("elasticweb.example.com/v1", "ElasticWeb web");
    let service = CachedChild::decode(SERVICE, None, &Json::from(&child("web", &[owner]))).unwrap();
    scene
        .handlers
        .child_changed(&Change::Deleted(Arc::new(service)));
    assert_eq!(scene.enqueued(), ["ElasticWeb ns/web"]);
}

#[tokio::test(start_paused = true)]
async fn a_child_that_differs_by_nothing_but_its_resource_version_wakes_nobody() {
    let scene = Scene::new(&[]);
    scene.holds("Nginx", "ns", "web");
    let object = child("web", &[reference(NGINX, "Nginx web")]);
    let mut later = object.clone();
    later["metadata"]["resourceVersion"] = "8".into();
    later["metadata"]["annotations"] = json!({"team": "blue"});
    let (old, new) = (deployment(&object), deployment(&later));
    scene.deployment_changed(Change::Updated {
        old: Arc::clone(&old),
        new,
    });
    assert_eq!(scene.enqueued(), NOBODY);
    later["status"] = json!({"readyReplicas": 1});
    for _ in 0..2 {
        scene.deployment_changed(Change::Updated {
            old: Arc::clone(&old),
            new: deployment(&later),
        });
    }
    assert_eq!(scene.enqueued_later().await, ["Nginx ns/web"], "once");
    later["status"] = rolled_out();
    scene.deployment_changed(Change::Updated {
        old,
        new: deployment(&later),
    });
    assert_eq!(scene.enqueued(), ["Nginx ns/web"], "at its end");
}

/// A step of a rollout of a Deployment of `web` that its controller has observed.
fn step(ready: i64) -> Change<CachedChild> {
    let object = |ready: i64| {
        let mut object = child("web", &[reference(NGINX, "Nginx web")]);
        object["spec"] = json!({"replicas": 9});
        object["status"] = json!({"observedGeneration": 0, "replicas": 9, "readyReplicas": ready});
        deployment(&object)
    };
    Change::Updated {
        old: object(ready - 1),
        new: object(ready),
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_of_a_rollout_leaves_the_timer_of_a_resource_that_waits_but_for_four_seconds_at_most()
 {
    let scene = Scene::new(&[]);
    scene.holds("Nginx", "ns", "web");
    let queue = Arc::clone(&scene.controller("Nginx").queue);
    let key = ObjectKey::new("ns", "web");
    for (timer, wakes_after) in [(3, 3), (10, 4)] {
        queue.add_after(key.clone(), Duration::from_secs(timer));
        scene.deployment_changed(step(1));
        scene.deployment_changed(step(2));
        tokio::time::advance(Duration::from_secs(wakes_after) - Duration::from_millis(1)).await;
        assert_eq!(scene.enqueued(), NOBODY, "timer of {timer} s");
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(scene.enqueued(), ["Nginx ns/web"], "timer of {timer} s");
    }
    scene.deployment_changed(step(1));
    assert_eq!(scene.enqueued_later().await, ["Nginx ns/web"], "no timer");
}

#[tokio::test(start_paused = true)]
async fn the_first_report_of_a_deployment_is_looked_at_soon_while_few_others_wait() {
    for (others, is_soon) in [(0, true), (24, true), (25, false)] {
        let scene = Scene::new(&[]);
        scene.holds("Nginx", "ns", "web");
        let states = Arc::clone(&scene.controller("Nginx").states);
        for number in 0..=others {
            states.status_differs(
                &waiting(number),
                Observed::default(),
                false,
                Difference::Conditions,
            );
        }
        let queue = &scene.controller("Nginx").queue;
        queue.add_after(ObjectKey::new("ns", "web"), Duration::from_secs(60));
        let mut object = child("web", &[reference(NGINX, "Nginx web")]);
        object["metadata"]["generation"] = 1.into();
        let before = deployment(&object);
        object["status"] = json!({"observedGeneration": 1, "replicas": 1});
        scene.deployment_changed(Change::Updated {
            old: before,
            new: deployment(&object),
        });
        tokio::time::advance(COALESCE).await;
        assert_eq!(!scene.enqueued().is_empty(), is_soon, "{others} others");
        tokio::time::advance(STEP_WHILE_WAITING).await;
        assert_eq!(scene.enqueued().is_empty(), is_soon, "{others} others");
    }
}

fn waiting(number: u32) -> Resource {
    Resource {
        namespace: "ns".to_owned(),
        name: format!("other-{number}"),
        uid: number.to_string(),
        generation: 1,
        api_version: NGINX.to_owned(),
        spec: Value::Null,
        status: Status::default(),
        paused: false,
    }
}

#[test]
fn the_event_of_a_status_that_is_being_written_wakes_nobody_and_any_other_does() {
    let scene = Scene::new(&[]);
    let mut web = waiting(0);
    web.name = "web".to_owned();
    let with = |status: &str, spec: &str, version| {
        let mut resource = resource("ns", "web", "0", version);
        resource.status = status.into();
        resource.spec = spec.into();
        Arc::new(resource)
    };
    let states = &scene.controller("Nginx").states;
    let wakes = |new: Arc<CachedResource>| {
        let old = with("old", "spec", 1);
        scene.resource_changed("Nginx", &Change::Updated { old, new }, false);
        !scene.enqueued().is_empty()
    };
    assert!(wakes(with("written", "spec", 2)), "not sent");
    states.status_is_sent(&web, "written");
    assert!(!wakes(with("written", "spec", 2)), "sent");
    assert!(wakes(with("of another", "spec", 2)), "of another writer");
    assert!(wakes(with("written", "changed", 2)), "with another spec");
    states.status_has_failed(&web);
    assert!(wakes(with("written", "spec", 2)), "failed");
    states.status_is_sent(&web, "written");
    states.status_is_written(&web);
    assert!(wakes(with("written", "spec", 2)), "in the cache before");
}

/// The status of a Deployment of one pod whose rollout is complete.
fn rolled_out() -> Value {
    json!({"observedGeneration": 0, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1})
}

#[test]
fn a_child_that_lost_its_owner_reference_wakes_the_owner_that_it_had() {
    let scene = Scene::new(&[]);
    scene.holds("Nginx", "ns", "web");
    let owned = deployment(&child("web", &[reference(NGINX, "Nginx web")]));
    let orphan = deployment(&child("web", &[]));
    scene.deployment_changed(Change::Updated {
        old: owned,
        new: orphan,
    });
    assert_eq!(scene.enqueued(), ["Nginx ns/web"]);
}

#[test]
fn a_child_that_changed_hands_wakes_both_owners() {
    let scene = Scene::new(&[]);
    scene.holds("Nginx", "ns", "web");
    scene.holds("HelloWorld", "ns", "hello");
    let (old, new) = (
        reference(NGINX, "Nginx web"),
        reference(HELLO_WORLD, "HelloWorld hello"),
    );
    let (old, new) = (
        deployment(&child("web", &[old])),
        deployment(&child("web", &[new])),
    );
    scene.deployment_changed(Change::Updated { old, new });
    assert_eq!(scene.enqueued(), ["Nginx ns/web", "HelloWorld ns/hello"]);
}

#[test]
fn a_name_that_became_free_wakes_every_resource_that_may_want_it() {
    let scene = Scene::new(&[]);
    scene.holds("Nginx", "ns", "same");
    scene.holds("HelloWorld", "ns", "same");
    scene.holds("HelloWorld", "ns", "other");
    scene.holds("HelloWorld", "elsewhere", "same");
    let both = ["Nginx ns/same", "HelloWorld ns/same"];
    for (what, owners) in [
        ("of one of them", vec![reference(NGINX, "Nginx same")]),
        (
            "of a stranger",
            vec![reference("apps.example.com/v1", "Shop same")],
        ),
        ("of nobody", vec![]),
    ] {
        scene.deployment_changed(Change::Deleted(deployment(&child("same", &owners))));
        assert_eq!(scene.enqueued(), both, "a Deployment {what}");
    }
}

#[test]
fn a_resource_wakes_when_it_differs_and_is_dropped_from_the_queue_when_it_is_gone() {
    let scene = Scene::new(&[]);
    let old = Arc::new(resource("ns", "web", "uid", 1));
    scene.resource_changed("Nginx", &Change::Added(Arc::clone(&old)), false);
    assert_eq!(scene.enqueued(), ["Nginx ns/web"]);
    let bumped = Arc::new(resource("ns", "web", "uid", 2));
    scene.resource_changed(
        "Nginx",
        &Change::Updated {
            old: Arc::clone(&old),
            new: bumped,
        },
        false,
    );
    assert_eq!(scene.enqueued(), NOBODY, "nothing of it differs");
    let mut paused = resource("ns", "web", "uid", 3);
    paused.paused = true;
    let change = Change::Updated {
        old: Arc::clone(&old),
        new: Arc::new(paused),
    };
    scene.resource_changed("Nginx", &change, false);
    scene.resource_changed("Nginx", &Change::Deleted(old), false);
    assert_eq!(scene.enqueued(), NOBODY, "gone before its turn");
}

#[test]
fn what_was_there_at_the_start_does_not_delay_what_changes_now() {
    let scene = Scene::new(&[]);
    for number in 0..3 {
        let name = format!("old-{number}");
        let change = Change::Added(Arc::new(resource("ns", &name, &name, 1)));
        scene.resource_changed("Nginx", &change, true);
    }
    scene.resource_changed(
        "Nginx",
        &Change::Added(Arc::new(resource("ns", "new", "new", 2))),
        false,
    );
    assert_eq!(
        scene.enqueued(),
        [
            "Nginx ns/new",
            "Nginx ns/old-0",
            "Nginx ns/old-1",
            "Nginx ns/old-2"
        ]
    );
}

#[test]
fn with_several_watched_namespaces_resources_outside_are_left_alone() {
    let scene = Scene::new(&["ns", "team"]);
    for namespace in ["ns", "team", "outside"] {
        let object = resource(namespace, "web", "Nginx-web", 1);
        scene.resource_changed("Nginx", &Change::Added(Arc::new(object)), false);
        scene.holds("Nginx", namespace, "web");
    }
    assert_eq!(scene.enqueued(), ["Nginx ns/web", "Nginx team/web"]);
    for namespace in ["team", "outside"] {
        let mut object = child("web", &[reference(NGINX, "Nginx web")]);
        object["metadata"]["namespace"] = namespace.into();
        scene.deployment_changed(Change::Deleted(deployment(&object)));
    }
    assert_eq!(scene.enqueued(), ["Nginx team/web"]);
}

fn pod(deployment: &str, is_ready: bool) -> CachedPod {
    let status = if is_ready { "True" } else { "False" };
    let object = json!({
        "metadata": {
            "namespace": "ns", "name": format!("{deployment}-5f7c-abcde"), "uid": "pod", "resourceVersion": "9",
            "labels": {"pod-template-hash": "5f7c"},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{deployment}-5f7c"),
                "uid": "rs", "controller": true,
            }],
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": status}]},
    });
    CachedPod::from_json(&Json::from(&object)).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_pod_wakes_the_owner_of_the_deployment_that_it_is_of() {
    let scene = Scene::new(&[]);
    scene.holds("Nginx", "ns", "web");
    let added = |name| Change::Added(Arc::new(pod(name, true)));
    scene.handlers.pod_changed(&added("web"));
    assert_eq!(scene.enqueued(), NOBODY, "its Deployment is not known yet");
    let children = &scene.handlers.children;
    let mut owned = child("web", &[reference(NGINX, "Nginx web")]);
    children.put_written(DEPLOYMENT, &owned);
    children.put_written(DEPLOYMENT, &child("orphan", &[]));
    scene.handlers.pod_changed(&added("orphan"));
    assert_eq!(scene.enqueued(), NOBODY, "its Deployment is nobody's");
    scene.handlers.pod_changed(&added("web"));
    assert_eq!(scene.enqueued_later().await, ["Nginx ns/web"]);
    owned["metadata"]["resourceVersion"] = "9".into();
    owned["status"] = rolled_out();
    children.put_written(DEPLOYMENT, &owned);
    let (old, same) = (Arc::new(pod("web", true)), Arc::new(pod("web", true)));
    scene.handlers.pod_changed(&Change::Updated {
        old: Arc::clone(&old),
        new: same,
    });
    assert_eq!(scene.enqueued(), NOBODY, "as ready as it was");
    let new = Arc::new(pod("web", false));
    scene.handlers.pod_changed(&Change::Updated {
        old: Arc::clone(&old),
        new,
    });
    assert_eq!(scene.enqueued(), ["Nginx ns/web"]);
    scene.handlers.pod_changed(&Change::Deleted(old));
    assert_eq!(scene.enqueued(), ["Nginx ns/web"]);
}

type Informed = Result<Infallible, InformerError>;

/// One informer and one worker, each of which runs this future.
fn running(
    informer: impl Future<Output = Informed> + Send + 'static,
    worker: impl Future<Output = ()> + Send + 'static,
) -> Running {
    let mut running = Running {
        events: tokio::spawn(pending()),
        informers: JoinSet::new(),
        workers: JoinSet::new(),
        queues: Vec::new(),
        idle: watch::Sender::new(()),
    };
    running.informers.spawn(informer);
    running.workers.spawn(async move {
        worker.await;
        Ok(())
    });
    running
}

async fn message(running: Running) -> String {
    running.until(pending()).await.unwrap_err().to_string()
}

#[tokio::test(start_paused = true)]
async fn any_part_that_ends_by_itself_ends_the_whole_with_its_name() {
    let ended = async {
        Err(InformerError::StreamEnded {
            kind: "Pod".to_owned(),
        })
    };
    let error = message(running(ended, pending())).await;
    assert_eq!(error, "the watch of Pod ended although nobody stopped it");
    let error = message(running(pending(), ready(()))).await;
    assert_eq!(error, "a worker ended although nobody stopped it");
    fn panics<T>() -> T {
        std::panic::resume_unwind(Box::new("a bug"))
    }
    let error = message(running(async { panics() }, pending())).await;
    assert!(
        error.starts_with("a task of the controllers panicked"),
        "{error}"
    );
    let error = message(running(pending(), async { panics() })).await;
    assert!(
        error.starts_with("a task of the controllers panicked"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_the_workers_and_not_for_the_informers() {
    let began = Instant::now();
    let stopped = running(pending(), sleep(Duration::from_secs(3))).until(ready(()));
    stopped.await.unwrap();
    // The writer of Events, which never ends here, has its own timeout.
    assert_eq!(began.elapsed(), Duration::from_secs(3) + LAST_EVENTS);
    let panics = async {
        sleep(Duration::from_secs(1)).await;
        std::panic::resume_unwind(Box::new("a bug"))
    };
    assert!(running(pending(), panics).until(ready(())).await.is_err());
}

/// Whether a writing request was received.
fn was_written(asked: &Mutex<Vec<String>>) -> bool {
    let asked = asked.lock().unwrap();
    asked.iter().any(|line| line.starts_with("PATCH"))
}

/// An API server with one Memcached, which takes `patch_time` for a patch. Watches have no events;
/// `absent` is an unknown plural. Also returns the received requests.
fn api_server(
    patch_time: Duration,
    absent: &'static str,
) -> (kube::Client, Arc<Mutex<Vec<String>>>) {
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = Arc::clone(&asked);
    let service = tower::service_fn(move |request: Request<Body>| {
        let log = Arc::clone(&log);
        async move {
            let uri = request.uri().clone();
            log.lock()
                .unwrap()
                .push(format!("{} {uri}", request.method()));
            let query = uri.query().unwrap_or_default();
            let plural = uri.path().rsplit('/').next().unwrap_or_default();
            if query.contains("watch=true") {
                return pending().await;
            }
            let mut items = vec![];
            if plural == "memcacheds" {
                items.push(json!({
                    "metadata": {"namespace": "ns", "name": "cache", "uid": "u", "resourceVersion": "3"},
                    "spec": {"size": 1},
                }));
            }
            let (code, body) = if request.method() == Method::PATCH {
                sleep(patch_time).await;
                (
                    500,
                    json!({"kind": "Status", "status": "Failure", "code": 500, "message": "no"}),
                )
            } else if plural == absent {
                (
                    404,
                    json!({"kind": "Status", "status": "Failure", "code": 404, "message": "no"}),
                )
            } else {
                (
                    200,
                    json!({"kind": "List", "metadata": {"resourceVersion": "5"}, "items": items}),
                )
            };
            let body = Body::from(body.to_string().into_bytes());
            Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
        }
    });
    (kube::Client::new(service, "default"), asked)
}

fn options(client: kube::Client) -> Options {
    Options {
        watch_client: client.clone(),
        client,
        operators: OPERATORS.to_vec(),
        settings: Settings::default(),
        workers: 2,
        max_concurrent_rollouts: 10,
        namespaces: BTreeSet::new(),
        shard: None,
        metrics: Arc::new(Metrics::register(&mut Registry::default())),
        follow_stored_version: false,
        leadership: Leadership::sole(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_lets_a_running_reconcile_finish() {
    let (client, asked) = api_server(Duration::from_secs(3), "");
    let began = Instant::now();
    let stop = sleep(Duration::from_secs(1));
    timeout(LONG, run(options(client), stop))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        began.elapsed(),
        Duration::from_secs(3),
        "its apply was answered"
    );
    let asked = asked.lock().unwrap();
    let patches: Vec<_> = asked
        .iter()
        .filter(|line| line.starts_with("PATCH"))
        .collect();
    assert_eq!(patches.len(), 1, "and nothing was begun after: {patches:?}");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_reconciled_before_the_caches_of_children_are_full_and_a_stop_is_immediate() {
    for absent in ["deployments", "services", "pods"] {
        let (client, asked) = api_server(Duration::ZERO, absent);
        let stop = sleep(Duration::from_secs(60));
        let began = Instant::now();
        timeout(LONG, run(options(client), stop))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(began.elapsed(), Duration::from_secs(60));
        let asked = asked.lock().unwrap();
        assert!(
            !asked.iter().any(|line| line.starts_with("PATCH")),
            "{absent}: {asked:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_installed_is_asked_for_now_and_then_and_holds_up_no_other() {
    let (client, asked) = api_server(Duration::ZERO, "nginxes");
    timeout(LONG, run(options(client), sleep(Duration::from_secs(31))))
        .await
        .unwrap()
        .unwrap();
    let asked = asked.lock().unwrap();
    let count = |part: &str| asked.iter().filter(|line| line.contains(part)).count();
    assert!(
        count("PATCH /apis/apps/v1/namespaces/ns/deployments/cache") > 0,
        "{asked:?}"
    );
    assert_eq!(count("/nginxes?"), 11, "at once, then every three seconds");
}

#[tokio::test(start_paused = true)]
async fn one_namespace_is_watched_alone_and_of_several_everything() {
    for (namespaces, path) in [
        (vec!["ns"], "GET /apis/apps/v1/namespaces/ns/deployments?"),
        (vec!["ns", "team"], "GET /apis/apps/v1/deployments?"),
        (vec![], "GET /apis/apps/v1/deployments?"),
    ] {
        let (client, asked) = api_server(Duration::ZERO, "");
        let mut options = options(client);
        options.namespaces = namespaces.into_iter().map(str::to_owned).collect();
        timeout(LONG, run(options, sleep(Duration::from_secs(1))))
            .await
            .unwrap()
            .unwrap();
        let asked = asked.lock().unwrap();
        assert!(
            asked.iter().any(|line| line.starts_with(path)),
            "{path}: {asked:?}"
        );
    }
}

/// Leadership that the test controls.
struct Leave(Option<Duration>);

impl MayWrite for Leave {
    fn time_left(&self) -> Option<Duration> {
        self.0
    }
}

#[tokio::test(start_paused = true)]
async fn a_standby_fills_its_caches_writes_nothing_and_works_at_once_when_it_leads() {
    let (client, asked) = api_server(Duration::ZERO, "");
    let mut options = options(client);
    let (begun, leading) = watch::channel(false);
    options.leadership = Leadership::new(leading, Arc::new(Leave(Some(LONG))));
    let controllers = tokio::spawn(run(options, sleep(Duration::from_secs(61))));
    sleep(Duration::from_secs(60)).await;
    {
        let asked = asked.lock().unwrap();
        assert!(
            asked.iter().all(|line| line.starts_with("GET")),
            "{asked:?}"
        );
        assert!(asked.iter().any(|line| line.contains("/deployments?")));
    }
    begun.send_replace(true);
    sleep(Duration::from_millis(1)).await;
    let patches = |asked: &[String]| asked.iter().any(|line| line.starts_with("PATCH"));
    assert!(patches(&asked.lock().unwrap()));
    controllers.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_standby_stops_at_once_even_if_nobody_will_ever_let_it_lead() {
    for is_gone in [false, true] {
        let (client, asked) = api_server(Duration::ZERO, "");
        let mut options = options(client);
        let (begun, leading) = watch::channel(false);
        options.leadership = Leadership::new(leading, Arc::new(Leave(Some(LONG))));
        let begun = (!is_gone).then_some(begun);
        let began = Instant::now();
        let stop = sleep(Duration::from_secs(60));
        timeout(LONG, run(options, stop)).await.unwrap().unwrap();
        assert_eq!(began.elapsed(), Duration::from_secs(60));
        assert!(!was_written(&asked));
        drop(begun);
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_without_leave_ends_the_controllers_without_a_second_try() {
    let (client, asked) = api_server(Duration::ZERO, "");
    let mut options = options(client);
    options.leadership = Leadership::new(watch::channel(true).1, Arc::new(Leave(None)));
    let ended = timeout(LONG, run(options, pending())).await.unwrap();
    assert!(
        matches!(ended, Err(ControllersError::Fenced(_))),
        "{ended:?}"
    );
    assert!(!was_written(&asked));
}
