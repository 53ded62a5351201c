//! The objects of a namespace, from watches, so that waiting for many resources needs no requests.
//! It also writes Deployment statuses, because there is no Deployment controller.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, DynamicObject, Patch, PatchParams, WatchEvent, WatchParams};
use kube::core::ApiResource;
use quartet_operator::packaging::kinds;
use serde_json::{Value, json};
use testkit::load_factor;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use crate::environment::DEADLINE;

/// Number of concurrent status writes.
const AT_ONCE: usize = 32;

/// The resources of every kind, in their last observed versions.
pub(super) struct ClusterView {
    seen: Arc<Seen>,
    /// Tasks that end with it.
    _tasks: JoinSet<()>,
}

#[derive(Default)]
struct Seen {
    objects: Mutex<HashMap<String, Value>>,
    changed: Notify,
}

impl ClusterView {
    pub(super) fn new(client: &kube::Client, namespace: &str) -> Self {
        let (seen, mut tasks) = (Arc::new(Seen::default()), JoinSet::new());
        for kind in kinds() {
            let resource = ApiResource {
                group: kind.group.to_owned(),
                version: kind.hub.name.to_owned(),
                api_version: kind.api_version(&kind.hub),
                kind: kind.kind.to_owned(),
                plural: kind.plural.to_owned(),
            };
            let api = Api::namespaced_with(client.clone(), namespace, &resource);
            let (to, events) = unbounded_channel();
            tasks.spawn(watch(api, to));
            tasks.spawn(record(events, Arc::clone(&seen)));
        }
        let deployments = ApiResource::erase::<Deployment>(&());
        let api = Api::namespaced_with(client.clone(), namespace, &deployments);
        let (to, events) = unbounded_channel();
        tasks.spawn(watch(api.clone(), to));
        tasks.spawn(observe_deployments(events, api));
        Self {
            seen,
            _tasks: tasks,
        }
    }

    /// Waits until the resource of this name was observed to satisfy the condition.
    pub(super) async fn until(
        &self,
        name: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Result<Value, String> {
        let wait = async {
            loop {
                let changed = self.seen.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if let Some(seen) = self.get(name, &holds) {
                    return seen;
                }
                changed.await;
            }
        };
        let limit = DEADLINE.mul_f64(load_factor());
        let waited = tokio::time::timeout(limit, wait).await;
        waited.map_err(|_| format!("not so within {limit:?}: {:#?}", self.get(name, |_| true)))
    }

    fn get(&self, name: &str, holds: impl Fn(&Value) -> bool) -> Option<Value> {
        let objects = self.seen.objects.lock().expect("no panic");
        objects.get(name).filter(|seen| holds(seen)).cloned()
    }
}

/// Sends every object when it is created or changed.
async fn watch(api: Api<DynamicObject>, to: UnboundedSender<DynamicObject>) {
    loop {
        let stream = api.watch(&WatchParams::default(), "0").await;
        let mut events = Box::pin(stream.expect("a watch"));
        while let Some(Ok(event)) = events.next().await {
            if let WatchEvent::Added(object) | WatchEvent::Modified(object) = event {
                // The receiver is gone when the test is over.
                let _ = to.send(object);
            }
        }
    }
}

async fn record(mut events: UnboundedReceiver<DynamicObject>, seen: Arc<Seen>) {
    while let Some(object) = events.recv().await {
        let name = object.metadata.name.clone().expect("a name");
        let object = serde_json::to_value(object).expect("JSON");
        seen.objects.lock().expect("no panic").insert(name, object);
        seen.changed.notify_waiters();
    }
}

/// Writes `observedGeneration` of each Deployment: the manager waits for that.
async fn observe_deployments(
    mut events: UnboundedReceiver<DynamicObject>,
    api: Api<DynamicObject>,
) {
    let events = futures::stream::poll_fn(move |context| events.poll_recv(context));
    let api = &api;
    let observe = |object: DynamicObject| async move {
        let generation = object.metadata.generation;
        if object.data["status"]["observedGeneration"] == json!(generation) {
            return;
        }
        let status = json!({"status": {"observedGeneration": generation}});
        let name = object.metadata.name.expect("a name");
        // It may have been deleted meanwhile.
        let _ = api
            .patch_status(&name, &PatchParams::default(), &Patch::Merge(&status))
            .await;
    };
    events.for_each_concurrent(AT_ONCE, observe).await;
}
