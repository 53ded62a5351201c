//! The resources that a change enqueues, and the start and stop of all controllers. The API server is
//! scripted; time is paused.

mod lifetime;
mod owners;
mod resources;
mod rollouts;

use futures::FutureExt;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use super::*;
use crate::cache::cached::CachedChild;
use crate::cache::decode::Received;
use crate::event_handlers::COALESCE;
use quartet_operator::kinds::{BRAND, OPERATORS, nginx};
use quartet_operator::packaging::kinds;
use quartet_workload::DEPLOYMENT;

/// The handlers of all four kinds, with caches filled and queues read by the test.
struct Scene {
    handlers: EventHandlers,
}

impl Scene {
    fn new() -> Self {
        let metrics = Metrics::register(&mut Registry::default(), "quartet_operator");
        let kinds = OPERATORS.iter().map(|operator| operator.kind());
        let handlers = EventHandlers {
            controllers: kinds.map(|kind| QueueHandle::new(kind, &metrics)).collect(),
            children: Arc::new(Children::new(&BRAND, OPERATORS)),
        };
        Scene { handlers }
    }

    /// With the Nginx `ns/web`.
    fn of_web() -> Self {
        let scene = Scene::new();
        scene.holds("Nginx", "ns", "web");
        scene
    }

    fn controller(&self, kind: &str) -> &QueueHandle {
        let mut controllers = self.handlers.controllers.iter();
        controllers.find(|it| it.kind.kind == kind).unwrap()
    }

    /// A cached resource; its UID is its kind and name.
    fn holds(&self, kind: &str, namespace: &str, name: &str) {
        let resource = resource(namespace, name, &format!("{kind}-{name}"), 1);
        assert!(self.controller(kind).resources.put_written(resource, 0));
    }

    /// A change of a resource.
    fn resource_changed(&self, kind: &str, change: &Change<CachedResource>, is_first_list: bool) {
        let controller = self.controller(kind);
        controller.resource_changed(change, is_first_list);
    }

    fn deployment_changed(&self, change: Change<CachedChild>) {
        self.handlers.child_changed(&change);
    }

    /// The enqueued resources since the last call, e.g. `Nginx ns/web`, in the order of the kinds.
    fn enqueued(&self) -> Vec<String> {
        let mut enqueued = Vec::new();
        for controller in &self.handlers.controllers {
            while let Some(key) = controller.queue.get().now_or_never() {
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

fn change<T>(before: Option<Arc<T>>, after: Option<Arc<T>>) -> Change<T> {
    Change { before, after }
}

fn added<T>(object: Arc<T>) -> Change<T> {
    change(None, Some(object))
}

fn updated<T>(old: Arc<T>, new: Arc<T>) -> Change<T> {
    change(Some(old), Some(new))
}

fn deleted<T>(object: Arc<T>) -> Change<T> {
    change(Some(object), None)
}

const NOBODY: [&str; 0] = [];

fn resource(namespace: &str, name: &str, uid: &str, version: u64) -> CachedResource {
    let object = json!({"metadata": {
        "namespace": namespace, "name": name, "uid": uid, "resourceVersion": version.to_string(),
    }});
    CachedResource::decode(&nginx::KIND, &serde_json::from_value(object).unwrap()).unwrap()
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
    Arc::new(CachedChild::decode(&BRAND, &kinds(), DEPLOYMENT, object).unwrap())
}
