//! The cached form of children, Pods and custom resources: small structs with the fields that a
//! reconcile reads. Decoding does not fail on a field: a missing field, or one of another type, counts
//! as absent. One malformed object must not end a watch.

mod pod;
mod resource;

pub(crate) use self::pod::{CachedPod, of_index, pod_index};
pub(crate) use self::resource::CachedResource;

use std::sync::Arc;

use crate::controller::cache::decode::Decode;
use crate::controller::cache::store::Store;
use crate::controller::drift::fingerprint::Fingerprint;
use crate::controller::drift::managed_fields;
use crate::controller::drift::stamp::Stamp;
use crate::controller::object::{Object, ObjectKey};
#[cfg(test)]
use crate::explorer::twins::{self, Twin};
use crate::json::Json;
use crate::operators::names::RETAINED_FOR;
use crate::operators::{ChildKind, ChildState, DEPLOYMENT, ObservedWorkload, kept};
use crate::shard::ShardId;

/// Annotation that, when `"true"`, stops all applies for a resource.
pub(crate) const PAUSED: &str = "quartet-operator.example.com/paused";

/// Prefix of the field manager of each kind, followed by the kind in lower case.
pub(crate) const FIELD_MANAGER_PREFIX: &str = "quartet-operator-";

/// The common part of cached objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) key: ObjectKey,
    pub(crate) uid: Box<str>,
    pub(crate) resource_version: u64,
    pub(crate) generation: i64,
    /// `metadata.deletionTimestamp` is set.
    pub(crate) deleting: bool,
}

impl Meta {
    /// Reports whether two versions are equal apart from resourceVersion.
    fn is_semantically_equal(&self, other: &Self) -> bool {
        (self.generation, self.deleting) == (other.generation, other.deleting)
            && self.uid == other.uid
    }

    fn of(object: &Json<'_>) -> Result<Self, String> {
        let metadata = object.get("metadata").ok_or("no metadata")?;
        let resource_version = text(metadata, "resourceVersion");
        Ok(Meta {
            key: ObjectKey::new(text(metadata, "namespace"), text(metadata, "name")),
            uid: text(metadata, "uid").into(),
            resource_version: resource_version
                .parse()
                .map_err(|_| format!("resourceVersion {resource_version:?} is no number"))?,
            generation: integer(metadata, "generation"),
            deleting: metadata
                .get("deletionTimestamp")
                .is_some_and(|time| *time != Json::Null),
        })
    }
}

/// The controller owner reference of a child, or the annotation of a child that outlives its owner.
/// Without the API version, which changes with the storage version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) group: Box<str>,
    pub(crate) kind: Box<str>,
    pub(crate) name: Box<str>,
    pub(crate) uid: Box<str>,
    /// The child outlives its owner, and belongs to the successor with the same name.
    pub(crate) retained: bool,
}

impl Owner {
    /// The owner of an object.
    pub(crate) fn of(object: &Json<'_>) -> Option<Self> {
        Self::referenced(object).or_else(|| Self::annotated(object))
    }

    fn annotated(object: &Json<'_>) -> Option<Self> {
        let annotations = object.get("metadata")?.get("annotations")?;
        let mut parts = annotations.get(RETAINED_FOR)?.as_str()?.splitn(4, '/');
        let [group, kind, name, uid] = std::array::from_fn(|_| parts.next().map(Box::from));
        Some(Owner {
            group: group?,
            kind: kind?,
            name: name?,
            uid: uid?,
            retained: true,
        })
    }

    /// Whether `other` owns the children of this owner: it is the same, or its successor.
    pub(crate) fn passes_to(&self, other: &Owner) -> bool {
        self.uid == other.uid || self.retained && self.is_namesake(other)
    }

    /// Whether one may be a deleted owner with the name of the other.
    pub(crate) fn is_namesake(&self, other: &Owner) -> bool {
        (&self.name, &self.kind, &self.group) == (&other.name, &other.kind, &other.group)
    }

    /// The controller owner reference of an object.
    fn referenced(object: &Json<'_>) -> Option<Self> {
        let references = object.get("metadata")?.get("ownerReferences")?.as_array()?;
        let controller = references
            .iter()
            .find(|reference| reference.get("controller") == Some(&Json::Bool(true)))?;
        let api_version = text(controller, "apiVersion");
        Some(Owner {
            group: api_version
                .split_once('/')
                .map_or("", |(group, _version)| group)
                .into(),
            kind: text(controller, "kind").into(),
            name: text(controller, "name").into(),
            uid: text(controller, "uid").into(),
            retained: false,
        })
    }

    /// The name of its kind's controller.
    fn controller_name(&self) -> String {
        self.kind.to_ascii_lowercase()
    }

    /// The field manager of its kind in all shards, without the identity of one.
    fn field_manager(&self) -> String {
        format!("{FIELD_MANAGER_PREFIX}{}", self.controller_name())
    }
}

/// A child with the operator's label.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CachedChild {
    pub(crate) meta: Meta,
    pub(crate) owner: Option<Owner>,
    /// Hash of the metadata, see [`managed_fields::digest`].
    digest: u64,
    /// Fingerprint of the fields that the owner's field manager applied; `None` if it never did, or
    /// if that of another shard did too.
    pub(crate) fingerprint: Option<Fingerprint>,
    /// The stamp of the operator's last write.
    pub(crate) stamp: Option<Stamp>,
    /// The input of the owner's status.
    pub(crate) state: ChildState,
}

tokio::task_local! {
    /// How a watch decodes children.
    static WATCHED: Watched;
}

/// The type of the children in a watch: objects in a list of the API server do not contain their type.
#[derive(Clone)]
pub(crate) struct Watched {
    pub(crate) kind: ChildKind,
    /// The shard of this process.
    pub(crate) shard: Option<ShardId>,
    /// What is known of them.
    pub(crate) store: Arc<Store<CachedChild>>,
}

impl CachedChild {
    /// Polls `watch` so that objects are decoded as these children.
    pub(crate) fn watched_as<F: Future>(
        watched: Watched,
        watch: F,
    ) -> impl Future<Output = F::Output> {
        WATCHED.scope(watched, watch)
    }

    /// As [`CachedChild::watched_as`], for synchronous code.
    #[cfg(fuzzing)]
    pub(crate) fn watched_in<T>(watched: Watched, watch: impl FnOnce() -> T) -> T {
        WATCHED.sync_scope(watched, watch)
    }

    /// Decodes an object of the type `kind`, as the API server sends it to the manager of `shard`.
    ///
    /// # Errors
    /// The reason, for the log.
    pub(crate) fn decode(
        kind: ChildKind,
        shard: Option<ShardId>,
        object: &Json<'_>,
    ) -> Result<Self, String> {
        Self::decode_after(kind, shard, object, |_| None)
    }

    /// As [`CachedChild::decode`]. The applied fields of the `earlier` state of the object are reused if they
    /// cannot have changed: reading them is most of the work, and nearly all events are of the status.
    fn decode_after(
        kind: ChildKind,
        shard: Option<ShardId>,
        object: &Json<'_>,
        earlier: impl FnOnce(&ObjectKey) -> Option<Arc<CachedChild>>,
    ) -> Result<Self, String> {
        let mut child = CachedChild {
            meta: Meta::of(object)?,
            owner: Owner::of(object),
            digest: managed_fields::digest(object),
            fingerprint: None,
            stamp: None,
            state: (kind.observe)(object),
        };
        // Types without a generation, such as Service, may change without a change of the metadata.
        let is_unchanged = |earlier: &Arc<CachedChild>| {
            child.meta.generation > 0 && earlier.digest == child.digest
        };
        #[cfg(test)]
        let is_unchanged = |earlier: &_| is_unchanged(earlier) || twins::is(Twin::ReadOnce);
        let earlier = earlier(&child.meta.key).filter(is_unchanged);
        let mut preserved_selector = None;
        if let Some(earlier) = earlier {
            child.fingerprint = earlier.fingerprint;
            child.stamp = earlier.stamp;
            let workload = earlier.workload();
            preserved_selector = workload.and_then(|workload| workload.preserved_selector.clone());
        } else {
            child.stamp = Stamp::of(object);
            if let Some(owner) = &child.owner {
                let manager = owner.field_manager();
                child.fingerprint = managed_fields::of_observed(object, &manager, shard);
                if kind == DEPLOYMENT {
                    let controller = owner.controller_name();
                    preserved_selector = kept::selector_of(object, &controller, &owner.name);
                }
            }
        }
        if let ChildState::Workload(workload) = &mut child.state {
            workload.preserved_selector = preserved_selector;
        }
        Ok(child)
    }

    /// The rollout of its pods, if it has pods.
    pub(crate) fn workload(&self) -> Option<&ObservedWorkload> {
        match &self.state {
            ChildState::Workload(workload) => Some(workload),
            ChildState::Ready | ChildState::NotReady(_) => None,
        }
    }

    /// Whether a rollout is in progress, so that another change follows soon.
    pub(crate) fn is_rolling_out(&self) -> bool {
        self.workload()
            .is_some_and(|workload| !workload.is_complete())
    }

    /// Whether its controller has observed this generation (`status.observedGeneration`).
    pub(crate) fn is_current(&self) -> bool {
        self.workload().is_some_and(ObservedWorkload::is_current)
    }

    /// Reports whether two versions are equal apart from resourceVersion.
    pub(crate) fn is_semantically_equal(&self, other: &Self) -> bool {
        self.state == other.state && self.is_spec_equal(other)
    }

    /// Reports whether two versions are equal apart from the status reported by its own controller.
    pub(crate) fn is_spec_equal(&self, other: &Self) -> bool {
        self.owner == other.owner
            && self.fingerprint == other.fingerprint
            && self.meta.is_semantically_equal(&other.meta)
    }
}

impl Decode for CachedChild {
    /// The template of pods is most of a spec.
    const UNPARSED: &'static [&'static str] = &["spec.template"];

    const READS_MANAGED_FIELDS: bool = true;

    fn from_json(object: &Json<'_>) -> Result<Self, String> {
        let watched = WATCHED.try_with(Watched::clone);
        let watched = watched.map_err(|_| "a child outside of a watch of its type")?;
        let Watched { kind, shard, store } = watched;
        CachedChild::decode_after(kind, shard, object, |key| store.get(key))
    }
}

impl Object for CachedChild {
    fn key(&self) -> &ObjectKey {
        &self.meta.key
    }
    fn uid(&self) -> &str {
        &self.meta.uid
    }
    fn resource_version(&self) -> u64 {
        self.meta.resource_version
    }
    fn index(&self) -> Option<&str> {
        self.owner.as_ref().map(|owner| &*owner.uid)
    }
}

pub(crate) fn text<'a>(object: &'a Json<'_>, field: &str) -> &'a str {
    object.get(field).and_then(Json::as_str).unwrap_or_default()
}

fn integer(object: &Json<'_>, field: &str) -> i64 {
    object.get(field).and_then(Json::as_i64).unwrap_or_default()
}

#[cfg(test)]
mod tests;
