//! Children: owner, fingerprint and state.

use std::sync::Arc;

use super::meta::{Meta, of_meta};
use super::owner::Owner;
use crate::controller::cache::decode::Decode;
use crate::controller::cache::store::Store;
use crate::controller::drift::fingerprint::{self, Fingerprint};
use crate::controller::drift::managed_fields;
use crate::controller::drift::stamp::Stamp;
use crate::controller::object::{Object, ObjectKey};
use crate::json::Json;
use crate::operators::{ChildKind, ChildState, DEPLOYMENT, ObservedWorkload, kept};

/// Longest selector of an older operator that is kept, as JSON. Those that exist have three labels. The API
/// server rejects the applies of a Deployment with a longer one, since a selector is immutable.
const MOST_SELECTOR_BYTES: usize = 4096;

/// A child with the operator's label.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CachedChild {
    pub(crate) meta: Meta,
    pub(crate) owner: Option<Owner>,
    /// Hash of the metadata, see [`managed_fields::digest`].
    pub(super) digest: u64,
    /// Fingerprint of the fields that the owner's field manager applied; `None` if it never did.
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

    /// Decodes an object of the type `kind`, as the API server sends it.
    ///
    /// # Errors
    /// The reason, for the log.
    pub(crate) fn decode(kind: ChildKind, object: &Json<'_>) -> Result<Self, String> {
        Self::decode_after(kind, object, |_| None)
    }

    /// As [`CachedChild::decode`]. The applied fields of the `earlier` state of the object are reused if they
    /// cannot have changed: reading them is most of the work, and nearly all events are of the status.
    fn decode_after(
        kind: ChildKind,
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
                child.fingerprint = fingerprint::of_observed(object, &manager);
                if kind == DEPLOYMENT {
                    let controller = owner.controller_name();
                    preserved_selector = kept::selector_of(object, &controller, &owner.name)
                        .filter(|selector| selector.to_string().len() <= MOST_SELECTOR_BYTES);
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
        let Watched { kind, store } = watched;
        CachedChild::decode_after(kind, object, |key| store.get(key))
    }
}

impl Object for CachedChild {
    of_meta!();
    fn index(&self) -> Option<&str> {
        self.owner.as_ref().map(|owner| &*owner.uid)
    }
}
