//! Adopts the children of a resource that moved here from another shard, with one read and one write
//! for each: the entry of the other shard's field manager in `managedFields` becomes that of this one.
//! Nothing else of a child changes, so no pod restarts.

use serde_json::Value;
use tracing::{info, warn};

use super::error::ApplyError;
use super::wanted::Wanted;
use crate::controller::cache::cached::Owner;
use crate::controller::drift::managed_fields;
use crate::controller::drift::repairs::Decision;
use crate::controller::object::version_of;
use crate::controller::reconcile::reconciler::Reconciler;
use crate::json::Json;

/// The desired state in the log of adoptions: what is applied does not matter.
const ANY: u64 = 0;

impl Reconciler {
    /// Makes the entry of another shard's field manager in a child that of this one. Returns the API
    /// server's answer, which the cache has then; `None` if there is no such entry. `found` is the child,
    /// which is read if it is `None`.
    ///
    /// # Errors
    /// [`ApplyError::ResourceGone`] if the resource has left this shard since it was read.
    /// [`ApplyError::OtherShard`] if the other shard has taken the child back before: one manager waits,
    /// ever longer, and the other has the child.
    pub(super) async fn adopt_from_shard(
        &self,
        wanted: Wanted<'_>,
        found: Option<&Value>,
    ) -> Result<Option<Value>, ApplyError> {
        let (child, at) = ((wanted.child.kind, wanted.key()), wanted.location());
        let read = match (found, self.shard_adoptions.waits(&child)) {
            (Some(_), _) => Value::Null,
            (None, Some(left)) => return Err(ApplyError::OtherShard(left)),
            (None, None) => self.caller.get(at).await?,
        };
        let object = found.unwrap_or(&read);
        let owner = Owner::of(&Json::from(object));
        if !owner.is_some_and(|owner| owner.passes_to(&self.owner(wanted.resource))) {
            return Ok(None);
        }
        let (base, manager) = (self.kind.field_manager, &self.field_manager);
        let Some((patch, from)) = managed_fields::adopt_entries(object, base, manager) else {
            return Ok(None);
        };
        let (kind, name) = (child.0.kind, child.1.name());
        // The child was written after the resource was read: the resource may be in another shard now.
        let cached = self.resources.get(&wanted.resource_key());
        let known = cached.map(|resource| resource.meta.resource_version);
        if version_of(object) > known {
            self.live(wanted.resource).await?;
        }
        match self.shard_adoptions.decide(&child, ANY) {
            Decision::Apply => {}
            Decision::Wait(_, left) => return Err(ApplyError::OtherShard(left)),
            Decision::Investigate(left) => {
                self.metrics.field_conflict(&self.controller, kind);
                warn!(
                    child = kind,
                    child_name = name,
                    manager = from,
                    seconds = left.as_secs(),
                    "another manager reconciles this resource too: their label selectors overlap; this \
                     one leaves it alone for a while"
                );
                return Err(ApplyError::OtherShard(left));
            }
        }
        let answer = self.patch_child(at, &patch).await?;
        self.shard_adoptions.applied(&child, ANY);
        self.children.put_written(child.0, &answer);
        info!(
            child = kind,
            child_name = name,
            manager = from,
            "adopted from another shard"
        );
        Ok(Some(answer))
    }
}
