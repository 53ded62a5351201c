//! What else is at work in a cluster: the Deployment controller with its pods, and the garbage
//! collector. Each acts some time after a change, in the order of the changes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::storage::{ApiServer, Change, ObjectId};

/// How fast the actors are.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// From a change of a Deployment to the status that has seen it.
    pub seen: Duration,
    /// From there to pods that are ready.
    pub ready: Duration,
    /// From the end of an owner to that of what it owned.
    pub collected: Duration,
    /// Whether there are pods, or only their number in the status.
    pub has_pods: bool,
}

impl Default for Pace {
    fn default() -> Self {
        Pace {
            seen: Duration::from_millis(10),
            ready: Duration::from_millis(30),
            collected: Duration::from_millis(20),
            has_pods: true,
        }
    }
}

const DEPLOYMENT_CONTROLLER: &str = "deployment-controller";
const GARBAGE_COLLECTOR: &str = "garbage-collector";

fn id_of(plural: &str, object: &Value) -> ObjectId {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    ObjectId::new(plural, text("namespace"), text("name"))
}

/// Rolls out Deployments, for ever.
pub async fn deployment_controller(server: ApiServer, pace: Pace) {
    let mut seen = 0;
    loop {
        let revision = server.revision();
        let new = server.log(seen);
        seen += new.len();
        let changes = new.iter().filter(|it| it.id.plural == "deployments");
        let mut changed = BTreeSet::new();
        for stored in changes {
            if stored.change == Change::Deleted {
                let uid = &stored.object["metadata"]["uid"];
                remove_pods(&server, &stored.id, uid, &[]);
            }
            changed.insert(stored.id.clone());
        }
        for id in changed {
            if let Some(deployment) = server.get(&id) {
                roll_out(&server, pace, &id, &deployment).await;
            }
        }
        server.written_after(revision).await;
    }
}

/// A name for a template: what pods of it are called by.
fn hash(template: &Value) -> String {
    // FNV-1a, which is the same in every process.
    let bytes = template.to_string().into_bytes();
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{:x}", hash & 0xffff_ffff)
}

async fn roll_out(server: &ApiServer, pace: Pace, id: &ObjectId, deployment: &Value) {
    let generation = deployment["metadata"]["generation"].as_i64().unwrap_or(0);
    let status = &deployment["status"];
    if status["observedGeneration"].as_i64() == Some(generation) {
        return;
    }
    let is_paused = deployment["spec"]["paused"] == true;
    let wanted = deployment["spec"]["replicas"].as_i64().unwrap_or(1);
    let had = status["readyReplicas"].as_i64().unwrap_or(0);
    sleep(pace.seen).await;
    let unavailable = json!({"observedGeneration": generation, "replicas": wanted,
        "updatedReplicas": wanted, "readyReplicas": had.min(wanted), "availableReplicas": had.min(wanted),
        "unavailableReplicas": wanted - had.min(wanted),
        "conditions": conditions(wanted <= had)});
    if !set_status(server, id, deployment, unavailable) || is_paused {
        return;
    }
    sleep(pace.ready).await;
    if pace.has_pods {
        make_pods(server, id, deployment, wanted);
    }
    let available = json!({"observedGeneration": generation, "replicas": wanted,
        "updatedReplicas": wanted, "readyReplicas": wanted, "availableReplicas": wanted,
        "conditions": conditions(true)});
    set_status(server, id, deployment, available);
}

fn conditions(is_available: bool) -> Value {
    let (status, reason) = if is_available {
        ("True", "MinimumReplicasAvailable")
    } else {
        ("False", "MinimumReplicasUnavailable")
    };
    json!([
        {"type": "Available", "status": status, "reason": reason, "message": "m"},
        {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable", "message": "m"},
    ])
}

/// False if the Deployment is another meanwhile.
fn set_status(server: &ApiServer, id: &ObjectId, seen: &Value, status: Value) -> bool {
    let Some(found) = server.get(id) else {
        return false;
    };
    let (found_is, seen_is) = (&found["metadata"], &seen["metadata"]);
    if found_is["uid"] != seen_is["uid"] || found_is["generation"] != seen_is["generation"] {
        return false;
    }
    let mut object = (*found).clone();
    object["status"] = status;
    server.put(id, object, DEPLOYMENT_CONTROLLER);
    true
}

/// Pods of the template as it is, as many as wanted, and no others.
fn make_pods(server: &ApiServer, id: &ObjectId, deployment: &Value, wanted: i64) {
    let (uid, template) = (
        &deployment["metadata"]["uid"],
        &deployment["spec"]["template"],
    );
    let hash = hash(&json!([uid, template]));
    let replica_set = format!("{}-{hash}", id.name);
    let names: Vec<_> = (0..wanted)
        .map(|it| format!("{replica_set}-{it}"))
        .collect();
    for name in &names {
        let mut labels = template["metadata"]["labels"].clone();
        labels["pod-template-hash"] = hash.clone().into();
        let pod = json!({
            "metadata": {"labels": labels, "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": replica_set,
                "uid": format!("of-{}", uid.as_str().unwrap_or_default()), "controller": true,
            }]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        });
        let pod_id = ObjectId::new("pods", &id.namespace, name);
        if server.get(&pod_id).is_none() {
            server.put(&pod_id, pod, DEPLOYMENT_CONTROLLER);
        }
    }
    remove_pods(server, id, uid, &names);
}

/// Pods of the Deployment `uid`, but those that are `kept`.
fn remove_pods(server: &ApiServer, id: &ObjectId, uid: &Value, kept: &[String]) {
    let owner = format!("of-{}", uid.as_str().unwrap_or_default());
    for pod in server.all("pods") {
        let pod_id = id_of("pods", &pod);
        let is_of = pod_id.namespace == id.namespace
            && pod["metadata"]["ownerReferences"][0]["uid"] == *owner;
        if is_of && !kept.contains(&pod_id.name) {
            server.remove(&pod_id, DEPLOYMENT_CONTROLLER);
        }
    }
}

/// Deletes what belonged to an owner that is gone, for ever.
pub async fn garbage_collector(server: ApiServer, pace: Pace) {
    loop {
        let revision = server.revision();
        let orphans = orphans(&server);
        if !orphans.is_empty() {
            sleep(pace.collected).await;
            for (id, uid) in orphans {
                let found = server.get(&id);
                if found.is_some_and(|found| found["metadata"]["uid"] == uid) {
                    server.remove(&id, GARBAGE_COLLECTOR);
                }
            }
            continue;
        }
        server.written_after(revision).await;
    }
}

/// Children whose owners are all gone.
fn orphans(server: &ApiServer) -> Vec<(ObjectId, Value)> {
    let custom = server.definitions.iter().filter(|it| it.is_custom);
    let owners: Vec<Arc<Value>> = custom.flat_map(|it| server.all(&it.plural)).collect();
    let living: BTreeSet<_> = owners
        .iter()
        .filter_map(|owner| owner["metadata"]["uid"].as_str())
        .collect();
    let mut orphans = Vec::new();
    for plural in ["deployments", "services"] {
        for child in server.all(plural) {
            let references = child["metadata"]["ownerReferences"].as_array();
            let Some(references) = references.filter(|it| !it.is_empty()) else {
                continue;
            };
            let lives = |reference: &Value| {
                let uid = reference["uid"].as_str();
                uid.is_some_and(|uid| living.contains(uid))
            };
            if !references.iter().any(lives) {
                orphans.push((id_of(plural, &child), child["metadata"]["uid"].clone()));
            }
        }
    }
    orphans
}
