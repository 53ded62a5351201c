//! The children of all resources: one cache each for Deployments, Services and Pods, shared by all
//! controllers, and the reserved names. Finds from the caches who owns a child. No I/O.

pub(in crate::controller) mod lost_children;
pub(in crate::controller) mod reservations;

use std::sync::Arc;

use serde_json::Value;

use crate::controller::cache::cached::{
    CachedChild, CachedDeployment, CachedPod, CachedService, Meta, Owner, pod_index,
};
use crate::controller::cache::decode::Decode;
use crate::controller::cache::store::Store;
use crate::controller::children::lost_children::LostChildren;
use crate::controller::children::reservations::NameReservations;
use crate::controller::drift::fingerprint::Fingerprint;
use crate::controller::drift::stamp::Stamp;
use crate::controller::object::{Object, ObjectKey};
use crate::operators::observed::{ObservedDeployment, ObservedPod, ObservedService};
use crate::operators::{ChildKind, Problem, Reason};

/// The caches of children.
#[derive(Default)]
pub(crate) struct Children {
    pub(crate) deployments: Arc<Store<CachedDeployment>>,
    pub(crate) services: Arc<Store<CachedService>>,
    pub(crate) pods: Arc<Store<CachedPod>>,
    pub(crate) reservations: NameReservations,
    pub(crate) lost_children: LostChildren,
}

/// What the cache says of a child that is wanted.
#[derive(Debug, PartialEq)]
pub(crate) enum Ownership {
    /// Not in the cache, or there without an owner. Applied without force, so that an object of
    /// another owner that the label-selected watch does not see is not adopted.
    Unknown,
    /// Ours; what we own of it has this fingerprint.
    Ours {
        /// UID of the child.
        uid: Box<str>,
        /// The version that the rest was read from.
        resource_version: u64,
        /// `None` when our field manager never applied it.
        fingerprint: Option<Fingerprint>,
        /// Which write of ours changed it last.
        stamp: Option<Stamp>,
    },
    /// Being deleted, or owned by a deleted resource of the same name. It is created again after
    /// its deletion.
    Ending(Problem),
    /// Another resource's.
    Foreign(Problem),
}

/// The fields of a cached child that decide its ownership.
struct Known {
    meta: Meta,
    owner: Option<Owner>,
    fingerprint: Option<Fingerprint>,
    stamp: Option<Stamp>,
}

impl<S> From<&CachedChild<S>> for Known {
    fn from(child: &CachedChild<S>) -> Self {
        Known {
            meta: child.meta.clone(),
            owner: child.owner.clone(),
            fingerprint: child.fingerprint,
            stamp: child.stamp,
        }
    }
}

impl Children {
    /// What is known of a child that the resource `wanted_by` wants.
    pub(crate) fn standing(
        &self,
        kind: ChildKind,
        key: &ObjectKey,
        wanted_by: &Owner,
    ) -> Ownership {
        let Some(cached) = self.cached(kind, key) else {
            return Ownership::Unknown;
        };
        let Some(owner) = cached.owner else {
            return Ownership::Unknown;
        };
        // The same name with another UID is a deleted resource, whose children the garbage
        // collector is about to delete.
        let earlier_life = owner.name == wanted_by.name
            && owner.kind == wanted_by.kind
            && owner.group == wanted_by.group;
        if owner.uid == wanted_by.uid && !cached.meta.deleting {
            Ownership::Ours {
                uid: cached.meta.uid,
                resource_version: cached.meta.resource_version,
                fingerprint: cached.fingerprint,
                stamp: cached.stamp,
            }
        } else if earlier_life {
            Ownership::Ending(terminating(kind, key))
        } else {
            Ownership::Foreign(taken(kind, key, Some(&owner)))
        }
    }

    /// UID and owner of what the cache holds under a child's name.
    pub(crate) fn found(
        &self,
        kind: ChildKind,
        key: &ObjectKey,
    ) -> Option<(Box<str>, Option<Owner>)> {
        let cached = self.cached(kind, key)?;
        Some((cached.meta.uid, cached.owner))
    }

    fn cached(&self, kind: ChildKind, key: &ObjectKey) -> Option<Known> {
        match kind {
            ChildKind::Deployment => self.deployments.get(key).map(|child| (&*child).into()),
            ChildKind::Service => self.services.get(key).map(|child| (&*child).into()),
        }
    }

    /// Puts the API server's answer to a write of ours into the cache, ahead of the watch.
    /// Returns what our fields look like there; `None` when the answer cannot be read.
    pub(crate) fn put_written(&self, kind: ChildKind, answer: &Value) -> Option<Fingerprint> {
        match kind {
            ChildKind::Deployment => {
                let child = CachedDeployment::from_json(answer).ok()?;
                let fingerprint = child.fingerprint;
                self.deployments.put_written(child);
                fingerprint
            }
            ChildKind::Service => {
                let child = CachedService::from_json(answer).ok()?;
                let fingerprint = child.fingerprint;
                self.services.put_written(child);
                fingerprint
            }
        }
    }

    /// The Deployment of the resource `uid`.
    pub(crate) fn deployment(&self, uid: &str) -> Option<(ObjectKey, ObservedDeployment)> {
        let child = self.deployments.indexed(uid).into_iter().next()?;
        Some((child.key().clone(), child.state.clone()))
    }

    /// The selector that an older operator gave the Deployment of the resource `uid`.
    pub(crate) fn preserved_selector(&self, uid: &str) -> Option<Box<Value>> {
        let deployments = self.deployments.indexed(uid);
        deployments.first()?.state.preserved_selector.clone()
    }

    /// Whether the Deployment of the resource `uid` is there and its latest spec rolled out,
    /// with every pod available.
    pub(crate) fn is_rolled_out(&self, uid: &str) -> bool {
        let deployments = self.deployments.indexed(uid);
        deployments
            .first()
            .is_some_and(|deployment| deployment.state.is_complete())
    }

    /// The Services of the resource `uid`.
    pub(crate) fn services(&self, uid: &str) -> Vec<Arc<CachedService>> {
        self.services.indexed(uid)
    }

    /// The child `kind` called `key`, if it belongs to the resource `uid`: what our fields look
    /// like, and which write of ours changed it last.
    pub(crate) fn of_owner(
        &self,
        kind: ChildKind,
        key: &ObjectKey,
        uid: &str,
    ) -> Option<(Option<Fingerprint>, Option<Stamp>)> {
        let cached = self.cached(kind, key)?;
        let is_theirs = cached.owner.is_some_and(|owner| *owner.uid == *uid);
        (is_theirs && !cached.meta.deleting).then_some((cached.fingerprint, cached.stamp))
    }

    /// The resource version of a child in the cache.
    pub(crate) fn resource_version(&self, kind: ChildKind, key: &ObjectKey) -> Option<u64> {
        match kind {
            ChildKind::Deployment => Some(self.deployments.get(key)?.meta.resource_version),
            ChildKind::Service => Some(self.services.get(key)?.meta.resource_version),
        }
    }

    /// The Service of the resource `uid` as far as its status depends on it.
    pub(crate) fn service(&self, uid: &str) -> Option<ObservedService> {
        Some(self.services(uid).first()?.state.clone())
    }

    /// The live pods of a Deployment, sorted by name.
    pub(crate) fn pods(&self, deployment: &ObjectKey) -> Vec<ObservedPod> {
        let index = pod_index(deployment.namespace(), deployment.name());
        let pods = self.pods.indexed(&index);
        let mut live: Vec<_> = pods
            .iter()
            .filter(|pod| pod.live)
            .map(|pod| pod.observed())
            .collect();
        live.sort_by(|one, other| one.name.cmp(&other.name));
        live
    }
}

/// The problem of a child that is being deleted.
pub(crate) fn terminating(kind: ChildKind, key: &ObjectKey) -> Problem {
    let kind = kind.name();
    Problem {
        reason: Reason::ChildTerminating,
        message: format!(
            "{kind} {} is being deleted; it is made anew when it is gone (see its metadata.finalizers if that takes long)",
            key.name()
        ),
    }
}

/// The problem of a child whose name is taken.
pub(crate) fn taken(kind: ChildKind, key: &ObjectKey, owner: Option<&Owner>) -> Problem {
    let whose = match owner {
        Some(owner) => format!("belongs to {} {}", owner.kind, owner.name),
        None => "does not belong to this resource".to_owned(),
    };
    let message = format!(
        "{kind:?} {} exists and {whose}; delete or rename it, or give this resource another name",
        key.name()
    );
    Problem {
        reason: Reason::NameConflict,
        message,
    }
}
