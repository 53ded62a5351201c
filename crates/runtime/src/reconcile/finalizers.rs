//! The finalizers that an older operator has put on a resource. Its next reconcile removes them.

use std::time::Duration;

use serde::de::IgnoredAny;
use tracing::warn;

use super::Reconciler;
use super::read::Seen;
use crate::cache::cached::{CachedResource, Meta};
use crate::repairs::Decision;
use crate::state::Repaired;
use quartet_http::{Part, RequestError, found};
use quartet_workload::Finalized;

impl Reconciler {
    /// The finalizer of an older operator and its index, if the resource has it.
    pub(super) fn legacy_finalizer(
        &self,
        cached: &CachedResource,
    ) -> Option<(&'static str, usize)> {
        let legacy = (self.context.legacy.finalizer)(self.kind)?;
        let index = cached.finalizers.iter().position(|it| **it == *legacy)?;
        Some((legacy, index))
    }

    /// Removes the finalizers of an older operator; no other controller does. Returns when to try again, if
    /// that operator keeps setting them.
    pub(super) async fn strip_legacy_finalizers(
        &self,
        seen: &Seen,
    ) -> Result<Option<Duration>, RequestError> {
        let (cached, version) = (&*seen.cached, seen.version);
        let Meta { uid, deleting, .. } = &cached.meta;
        let removal = self.legacy_finalizer(cached).and_then(|(name, index)| {
            let finalized = Finalized {
                index,
                version,
                uid,
                spec: &cached.spec,
                is_deleting: *deleting,
            };
            (self.context.legacy.removal)(name, finalized)
        });
        let Some(operations) = removal else {
            return Ok(None);
        };
        let key = &cached.meta.key;
        let next = self
            .states
            .of(key, uid)
            .next_repair(Repaired::Finalizers, 0);
        if let Decision::Wait(_, left) = next
            && !deleting
        {
            warn!("another operator keeps setting its finalizer on this resource; stop it");
            return Ok(Some(left));
        }
        let manager = self.kind.field_manager;
        let at = self.location(&seen.resource);
        let caller = &self.context.caller;
        let patched = caller.json_patch(at, Part::Object, manager, &operations);
        let patched: Option<IgnoredAny> = found(patched.await)?;
        if patched.is_some() {
            self.states.of(key, uid).repaired(Repaired::Finalizers, 0);
        }
        Ok(None)
    }
}
