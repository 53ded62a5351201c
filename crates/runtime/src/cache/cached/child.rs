//! Children: owner, fingerprint and state.

use serde_json::Value;

use super::meta::{Meta, of_meta};
use super::owner::Owner;
use crate::object::Object;
use quartet_applied::fingerprint::{self, Fingerprint};
use quartet_applied::stamp::Stamp;
use quartet_versions::{Brand, Kind};
use quartet_workload::{ChildKind, ChildState, ObservedWorkload, kept};

/// Longest selector of an older operator that is kept, as JSON. Those that exist have three labels. The API
/// server rejects the applies of a workload with a longer one, since a selector is immutable.
const MOST_SELECTOR_BYTES: usize = 4096;

/// A child with the operator's label.
#[derive(Debug, Clone, PartialEq)]
pub struct CachedChild {
    pub(crate) meta: Meta,
    /// Its controller owner, if it may be one of ours.
    pub owner: Option<Owner>,
    /// Fingerprint of the fields that the owner's field manager applied; `None` if it never did.
    pub fingerprint: Option<Fingerprint>,
    /// The stamp of the operator's last write.
    pub(crate) stamp: Option<Stamp>,
    /// The input of the owner's status.
    pub(crate) state: ChildState,
    /// [`Received::hash_without_status`](crate::cache::decode::Received::hash_without_status) of a child with
    /// pods, if the watch reported it.
    pub(crate) hash_without_status: Option<u64>,
}

impl CachedChild {
    /// The cached form of an object of the type `kind`, as the API server sends it, of a resource of one of
    /// these `kinds`. Objects in a list do not contain their type.
    ///
    /// # Errors
    /// The reason, for the log.
    pub fn decode(
        brand: &Brand,
        kinds: &[&Kind],
        kind: ChildKind,
        object: &Value,
    ) -> Result<Self, String> {
        let owner = Owner::of(brand, object);
        let owning = owner.as_ref().and_then(|owner| owner.is_of(kinds));
        let fingerprint = owning.and_then(|owning| {
            fingerprint::of_observed(object, owning.field_manager, brand.applied)
        });
        let mut state = (kind.observe)(object);
        if let (ChildState::Workload(workload), Some(owner)) = (&mut state, &owner) {
            let selector = kept::selector_of(object, &owner.controller_name(), &owner.name);
            workload.preserved_selector =
                selector.filter(|it| it.to_string().len() <= MOST_SELECTOR_BYTES);
        }
        Ok(CachedChild {
            meta: Meta::of(object)?,
            owner,
            fingerprint,
            stamp: Stamp::of(object, brand.applied),
            state,
            hash_without_status: None,
        })
    }

    /// Whether its owner has this UID.
    pub(crate) fn is_owned_by(&self, uid: &str) -> bool {
        self.owner.as_ref().is_some_and(|owner| *owner.uid == *uid)
    }

    /// The rollout of its pods, if it has pods.
    pub fn workload(&self) -> Option<&ObservedWorkload> {
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

impl Object for CachedChild {
    of_meta!();
    fn index(&self) -> Option<&str> {
        self.owner.as_ref().map(|owner| &*owner.uid)
    }
}
