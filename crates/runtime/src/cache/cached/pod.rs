//! Pods, indexed by the child that creates them, without a watch of ReplicaSets.

use serde_json::Value;

use super::meta::{Meta, of_meta, text};
use super::owner::Owner;
use crate::cache::pod_failure;
use crate::object::{Object, ObjectKey};
use quartet_versions::Brand;
use quartet_workload::{DEPLOYMENT, ObservedPod, PodFailure};

/// A Pod with the operator's label.
#[derive(Debug, Clone, PartialEq)]
pub struct CachedPod {
    pub(crate) meta: Meta,
    /// The [`pod_index`] of the object that created it: its ReplicaSet's Deployment, or its owner.
    pub(crate) workload: Option<Box<str>>,
    /// Neither terminating nor finished.
    pub(crate) live: bool,
    pub(crate) ready: bool,
    /// Why it does not start. Boxed, since nearly all pods start.
    pub(crate) failure: Option<Box<PodFailure>>,
}

impl CachedPod {
    /// The cached form of a Pod, as the API server sends it.
    ///
    /// # Errors
    /// The reason, for the log.
    pub fn decode(brand: &Brand, object: &Value) -> Result<Self, String> {
        let meta = Meta::of(object)?;
        let status = object.get("status").unwrap_or(&Value::Null);
        let ready = pod_failure::condition(status, "Ready");
        let ready = ready.is_some_and(|ready| text(ready, "status") == "True");
        Ok(CachedPod {
            workload: workload_of_pod(brand, object, meta.key.namespace()),
            live: !meta.deleting && !matches!(text(status, "phase"), "Succeeded" | "Failed"),
            ready,
            failure: (!ready).then(|| pod_failure::of(object)).flatten(),
            meta,
        })
    }

    /// Reports whether two versions are equal in all fields that a status depends on.
    pub(crate) fn is_semantically_equal(&self, other: &Self) -> bool {
        (self.live, self.ready, &self.workload) == (other.live, other.ready, &other.workload)
            && self.failure == other.failure
            && self.meta.uid == other.meta.uid
    }

    pub(crate) fn observed(&self) -> ObservedPod {
        ObservedPod {
            name: self.meta.key.name().to_owned(),
            ready: self.ready,
            failure: self.failure.clone(),
        }
    }
}

impl Object for CachedPod {
    of_meta!();
    fn index(&self) -> Option<&str> {
        self.workload.as_deref()
    }
}

/// A ReplicaSet of a Deployment is named `<deployment>-<pod-template-hash>` (kubernetes
/// `pkg/controller/deployment/sync.go`, `getNewReplicaSet`), and its pods have that hash as a label. So
/// the Deployment is known without a watch of ReplicaSets.
fn workload_of_pod(brand: &Brand, object: &Value, namespace: &str) -> Option<Box<str>> {
    let owner = Owner::of(brand, object)?;
    if &*owner.kind != "ReplicaSet" {
        return Some(pod_index(&owner.kind, namespace, &owner.name).into());
    }
    let labels = object.get("metadata")?.get("labels")?;
    let hash = labels.get("pod-template-hash")?.as_str()?;
    let deployment = owner.name.strip_suffix(hash)?.strip_suffix('-')?;
    Some(pod_index(DEPLOYMENT.kind, namespace, deployment).into())
}

/// The index value of the pods of a child.
pub(crate) fn pod_index(kind: &str, namespace: &str, name: &str) -> String {
    format!("{kind}/{namespace}/{name}")
}

/// Kind, namespace and name of the child in a [`pod_index`].
pub(crate) fn of_index(index: &str) -> Option<(&str, ObjectKey)> {
    let (kind, key) = index.split_once('/')?;
    let (namespace, name) = key.split_once('/')?;
    Some((kind, ObjectKey::new(namespace, name)))
}
