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
use crate::harness::{Kind, condition};
use crate::rig::Rig;
use crate::workload::{self, Children, State, find};

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
            let is_same = before["status"] == condition["status"];
            let has_same_time = before["lastTransitionTime"] == condition["lastTransitionTime"];
            if is_same && !has_same_time {
                let mut wrong = wrong.lock().unwrap_or_else(PoisonError::into_inner);
                wrong.push(format!(
                    "its time moved without a transition: {before}, then {condition}"
                ));
            }
        }
    }
}

pub(crate) async fn untrue(rig: &Rig, children: &Children) -> Vec<Violation> {
    let moved = rig
        .statuses
        .wrong
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    let mut violations: Vec<_> = moved
        .into_iter()
        .map(|what| violation("O7", what))
        .collect();
    for wanted in workload::wanted(rig.workload.end(), rig.node_port) {
        let Some(resource) = rig.stage.get(wanted.kind, wanted.name).await else {
            continue; // O1 tells.
        };
        let (name, status) = (wanted.name, &resource["status"]);
        if status["observedGeneration"] != resource["metadata"]["generation"] {
            violations.push(violation(
                "O7",
                format!("{name}: the status is of another generation"),
            ));
        }
        let says = |object: &Value| condition(object, "Available").map(|it| it["status"] == "True");
        let deployment = find(&children.deployments, name);
        if says(&resource) != deployment.and_then(says) {
            violations.push(violation(
                "O7",
                format!("{name}: Available is not what its Deployment says"),
            ));
        }
    }
    violations
}
