//! O7: a status is of the generation that is there, `Available` is what the Deployment says,
//! and a condition's time moves when the condition does.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt as _;
use kube::api::DynamicObject;
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use serde_json::Value;
use tokio::task::JoinSet;

use super::{Violation, violation};
use crate::rig::Rig;
use crate::workload::{self, Children, State, find};
use testkit::{Kind, condition};

/// Everything that the resources' statuses ever were, looked at as it comes. Ends when dropped.
pub(crate) struct Statuses {
    wrong: Arc<Mutex<Vec<String>>>,
    _watching: JoinSet<()>,
}

impl Statuses {
    pub(crate) fn watch(client: &Client, namespace: &str) -> Self {
        let wrong = Arc::<Mutex<Vec<String>>>::default();
        let mut watching = JoinSet::new();
        for wanted in workload::wanted(State::First, 0) {
            let api = Api::namespaced_with(client.clone(), namespace, &resource(wanted.kind));
            watching.spawn(follow(api, Arc::clone(&wrong)));
        }
        Statuses {
            wrong,
            _watching: watching,
        }
    }
}

fn resource(kind: Kind) -> ApiResource {
    let (group, version) = kind
        .api_version
        .split_once('/')
        .unwrap_or(("", kind.api_version));
    let kind_of = GroupVersionKind::gvk(group, version, kind.kind);
    ApiResource::from_gvk_with_plural(&kind_of, kind.plural)
}

async fn follow(api: Api<DynamicObject>, wrong: Arc<Mutex<Vec<String>>>) {
    let mut last: HashMap<(String, String), Value> = HashMap::new();
    let mut events = pin!(watcher(api, watcher::Config::default()).default_backoff());
    while let Some(event) = events.next().await {
        let object = match event {
            Ok(Event::Apply(object) | Event::InitApply(object)) => object,
            Ok(Event::Init) => {
                // A list, after an outage: what was before it and what it holds may have had
                // transitions between them that nobody told.
                last.clear();
                continue;
            }
            Ok(Event::InitDone | Event::Delete(_)) | Err(_) => continue,
        };
        let uid = object.metadata.uid.clone().unwrap_or_default();
        let conditions = object.data["status"]["conditions"].as_array().cloned();
        for condition in conditions.unwrap_or_default() {
            let kind = condition["type"].as_str().unwrap_or_default().to_owned();
            let before = last.insert((uid.clone(), kind), condition.clone());
            let Some(before) = before else { continue };
            if let Some(what) = moved(&before, &condition) {
                let mut wrong = wrong.lock().unwrap_or_else(PoisonError::into_inner);
                wrong.push(what);
            }
        }
    }
}

/// A condition whose time is another and whose status is not, or the reverse.
pub(crate) fn moved(before: &Value, after: &Value) -> Option<String> {
    let is_same = before["status"] == after["status"];
    let has_same_time = before["lastTransitionTime"] == after["lastTransitionTime"];
    // A transition within the second of the one before has the same time.
    let is_wrong = is_same && !has_same_time;
    is_wrong.then(|| format!("its time moved without a transition: {before}, then {after}"))
}

impl Statuses {
    /// What was wrong so far.
    pub(crate) fn wrong(&self) -> Vec<Violation> {
        let wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        let wrong = wrong.iter();
        wrong.map(|what| violation("O7", what.clone())).collect()
    }
}

pub(crate) async fn untrue(rig: &Rig, children: &Children) -> Vec<Violation> {
    let mut violations = rig.statuses.wrong();
    for wanted in workload::wanted(rig.workload.end(), rig.node_port) {
        let Some(resource) = rig.stage.get(wanted.kind, wanted.name).await else {
            continue; // O1 tells.
        };
        let deployment = find(&children.deployments, wanted.name);
        violations.extend(of_resource(&resource, deployment));
    }
    violations
}

/// A status of another generation, or that says other than the Deployment does.
pub(crate) fn of_resource(resource: &Value, deployment: Option<&Value>) -> Vec<Violation> {
    let mut violations = Vec::new();
    let name = &resource["metadata"]["name"];
    if resource["status"]["observedGeneration"] != resource["metadata"]["generation"] {
        let what = format!("{name}: the status is of another generation");
        violations.push(violation("O7", what));
    }
    let says = |object: &Value| condition(object, "Available").map(|it| it["status"] == "True");
    if says(resource) != deployment.and_then(says) {
        let what = format!("{name}: Available is not what its Deployment says");
        violations.push(violation("O7", what));
    }
    violations
}
