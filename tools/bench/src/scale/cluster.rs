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
        let before = self.pods_of(&key);
        let steps = [
            (Rollout::Begun, Phase::Created),
            (Rollout::Waiting, Phase::Scheduled),
            (Rollout::Waiting, Phase::Creating),
            (Rollout::Done, Phase::Running),
        ];
        for (rollout, phase) in steps {
            sleep(STEP).await;
            let Some(wanted) = self.wanted(&key, generation) else {
                return;
            };
            if phase == Phase::Created {
                // Scaling down takes one step.
                for number in wanted..before {
                    self.pod(&key, number, None);
                }
            }
            for number in before.min(wanted)..wanted {
                self.pod(&key, number, Some(phase));
            }
            let ready = match rollout {
                Rollout::Done => wanted,
                Rollout::Begun | Rollout::Waiting => before.min(wanted),
            };
            if phase == Phase::Creating {
                continue;
            }
            self.write_status(&key, generation, rollout, ready);
            if before >= wanted && rollout == Rollout::Begun {
                self.write_status(&key, generation, Rollout::Done, ready);
                return;
            }
        }
    }

    fn deployment(&self, key: &str) -> Option<Value> {
        let body = self.table(DEPLOYMENTS)?.get(key)?;
        serde_json::from_slice(&body).ok()
    }

    /// The pods that are there.
    fn pods_of(&self, key: &str) -> i64 {
        let ready = self
            .deployment(key)
            .map(|it| it["status"]["replicas"].as_i64());
        ready.flatten().unwrap_or(0)
    }

    /// The pods that there should be, if the Deployment still has that generation.
    fn wanted(&self, key: &str, generation: i64) -> Option<i64> {
        let deployment = self.deployment(key)?;
        let is_it = deployment["metadata"]["generation"].as_i64() == Some(generation);
        is_it.then(|| replicas(&deployment))
    }

    fn write_status(&self, key: &str, generation: i64, rollout: Rollout, ready: i64) {
        let Some(table) = self.table(DEPLOYMENTS) else {
            return;
        };
        // An error writes nothing.
        let _ = table.write(key, |live| {
            let mut live = live.ok_or(())?;
            if live["metadata"]["generation"].as_i64() != Some(generation) {
                return Err(());
            }
            deployment_status(&mut live, rollout, ready);
            Ok(live)
        });
    }

    /// Takes a pod to this phase, or removes it.
    fn pod(&self, key: &str, number: i64, phase: Option<Phase>) {
        let (Some(deployment), Some(pods)) = (self.deployment(key), self.table(PODS)) else {
            return;
        };
        let (namespace, _) = key.split_once('/').unwrap_or_default();
        let key = format!("{namespace}/{}", pod_name(&deployment, number));
        let Some(phase) = phase else {
            return pods.remove(&key);
        };
        let Ok(_) = pods.write(&key, |live| {
            let mut live = live.unwrap_or_else(|| pod(&deployment));
            if phase != Phase::Created {
                pod_status(&mut live, phase);
            }
            Ok::<_, Infallible>(live)
        });
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

#[cfg(test)]
mod tests;
