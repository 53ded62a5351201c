//! What is stored of all types, and what else is at work in a cluster: the Deployment controller and
//! the kubelets, by a script. Speaks no HTTP.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::objects::{
    Manager, Phase, Rollout, deployment_status, note_manager, pod, pod_name, pod_status, replicas,
};
use super::table::{Table, Type};
use crate::fleet::KINDS;

pub(super) const DEPLOYMENTS: &str = "deployments";
const PODS: &str = "pods";

/// From one step of a rollout to the next.
const STEP: Duration = Duration::from_millis(10);

const fn built_in(group: &'static str, kind: &'static str, plural: &'static str) -> Type {
    Type {
        group,
        version: "v1",
        kind,
        plural,
        is_custom: false,
        has_generation: false,
    }
}

/// All that is stored.
#[derive(Debug, Clone)]
pub(super) struct Cluster {
    tables: Arc<[Table]>,
}

impl Cluster {
    pub(super) fn new() -> Self {
        let revision = Arc::new(AtomicU64::new(1));
        let deployments = Type {
            has_generation: true,
            ..built_in("apps", "Deployment", DEPLOYMENTS)
        };
        let known = [
            deployments,
            built_in("", "Service", "services"),
            built_in("", "Pod", PODS),
        ];
        let custom = KINDS.iter().map(|kind| Type {
            group: kind.group,
            version: kind.version,
            kind: kind.kind,
            plural: kind.plural,
            is_custom: true,
            has_generation: true,
        });
        let types = known.into_iter().chain(custom);
        let tables: Vec<_> = types.map(|of| Table::new(of, &revision)).collect();
        Self {
            tables: tables.into(),
        }
    }

    pub(super) fn table(&self, plural: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.of.plural == plural)
    }

    /// The table of a path's group and version, if that version is served.
    pub(super) fn served(&self, path: &str, plural: &str) -> Option<&Table> {
        let table = self.table(plural)?;
        let Type { group, version, .. } = table.of;
        let root = match group {
            "" => format!("/api/{version}/"),
            group => format!("/apis/{group}/{version}/"),
        };
        path.starts_with(&root).then_some(table)
    }

    /// As a user: makes the custom resource `key` with this spec, or gives it this spec.
    pub(super) fn ask_for(&self, plural: &str, key: &str, spec: &Value) {
        let Some(table) = self.table(plural) else {
            return;
        };
        let api_version = table.of.api_version();
        let by = Manager {
            name: "kubectl-create",
            subresource: "",
        };
        let Ok(_) = table.write(key, |live| {
            let mut object = live.unwrap_or_else(|| json!({"metadata": {}}));
            object["spec"] = spec.clone();
            note_manager(&mut object, &api_version, &by, &json!({"spec": spec}));
            Ok::<_, Infallible>(object)
        });
    }

    /// Has a Deployment rolled out: three writes of its status, and four of each pod, as on a real
    /// cluster. Ends early when it is another meanwhile.
    pub(super) async fn roll_out(self, key: String, generation: i64) {
        let Some(deployment) = self.deployment(&key) else {
            return;
        };
        // A generation has one spec.
        let wanted = replicas(&deployment);
        let before = deployment["status"]["replicas"].as_i64().unwrap_or(0);
        let kept = before.min(wanted);
        let pods = |phase| {
            for number in kept..wanted {
                self.pod(&deployment, &key, number, phase);
            }
        };
        let status = |rollout, ready| self.write_status(&key, generation, rollout, ready);
        sleep(STEP).await;
        if !status(Rollout::Begun, kept) {
            return;
        }
        for number in wanted..before {
            self.remove_pod(&deployment, &key, number);
        }
        pods(Phase::Created);
        if kept == wanted {
            status(Rollout::Done, wanted);
            return;
        }
        sleep(STEP).await;
        if !status(Rollout::Waiting, kept) {
            return;
        }
        for phase in [Phase::Scheduled, Phase::Creating, Phase::Running] {
            pods(phase);
            sleep(STEP).await;
        }
        status(Rollout::Done, wanted);
    }

    fn deployment(&self, key: &str) -> Option<Value> {
        let body = self.table(DEPLOYMENTS)?.get(key)?;
        serde_json::from_slice(&body).ok()
    }

    /// False if the Deployment is another meanwhile.
    fn write_status(&self, key: &str, generation: i64, rollout: Rollout, ready: i64) -> bool {
        let Some(table) = self.table(DEPLOYMENTS) else {
            return false;
        };
        let written = table.write(key, |live| {
            let mut live = live.ok_or(())?;
            if live["metadata"]["generation"].as_i64() != Some(generation) {
                return Err(());
            }
            deployment_status(&mut live, rollout, ready);
            Ok(live)
        });
        written.is_ok()
    }

    /// Takes a pod to this phase.
    fn pod(&self, deployment: &Value, key: &str, number: i64, phase: Phase) {
        let Some(pods) = self.table(PODS) else {
            return;
        };
        let Ok(_) = pods.write(&pod_key(deployment, key, number), |live| {
            let mut live = live.unwrap_or_else(|| pod(deployment));
            if phase != Phase::Created {
                pod_status(&mut live, phase);
            }
            Ok::<_, Infallible>(live)
        });
    }

    fn remove_pod(&self, deployment: &Value, key: &str, number: i64) {
        if let Some(pods) = self.table(PODS) {
            pods.remove(&pod_key(deployment, key, number));
        }
    }

    /// Discovery of a group and version, e.g. `/apis/apps/v1`.
    pub(super) fn discovery(&self, path: &str) -> Option<Bytes> {
        let group_version = path
            .trim_start_matches("/apis/")
            .trim_start_matches("/api/");
        let served = self.tables.iter().map(|table| table.of);
        let resources: Vec<_> = served
            .filter(|of| of.api_version() == group_version)
            .map(|of| {
                json!({
                    "name": of.plural, "singularName": "", "namespaced": true, "kind": of.kind,
                    "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"],
                })
            })
            .collect();
        let list = json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version,
            "resources": resources,
        });
        (!resources.is_empty()).then(|| list.to_string().into())
    }
}

/// The key of the pod `number` of the Deployment `key`.
fn pod_key(deployment: &Value, key: &str, number: i64) -> String {
    let (namespace, _) = key.split_once('/').unwrap_or_default();
    format!("{namespace}/{}", pod_name(deployment, number))
}

#[cfg(test)]
mod tests;
