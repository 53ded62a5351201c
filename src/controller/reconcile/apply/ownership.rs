//! Resolves the ownership of a child with one GET, if neither the cache nor the API server's error
//! shows it. Then adopts the child of an older operator, or leaves it unchanged.

use serde_json::Value;
use tracing::{debug, info};

use super::error::{ApplyError, pending_deletion, pending_rollout};
use super::wanted::{Ensured, Existing, Expected, Wanted};
use crate::api_server::{Location, RequestError, found};
use crate::controller::cache::cached::Owner;
use crate::controller::call::Part;
use crate::controller::children::{name_conflict, terminating};
use crate::controller::drift::absorb::absorb_list;
use crate::controller::drift::stamp::Stamp;
use crate::controller::drift::{fingerprint, managed_fields};
use crate::controller::event::{Notice, Severity};
use crate::controller::legacy::adoption;
use crate::controller::reconcile::reconciler::Reconciler;
use crate::controller::state::{jittered_retry, key_of};
#[cfg(test)]
use crate::explorer::twins::{self, Twin};
use crate::json::Json;
use crate::operators::{Child, DEPLOYMENT, Resource, SERVICE, kept};
use crate::shard::Shard;

impl Reconciler {
    /// Determines with one GET whether the object belongs to this resource (its label was removed, or
    /// an older operator created it) or to another owner. Returns what was applied.
    pub(super) async fn resolve_ownership(
        &self,
        wanted: Wanted<'_>,
    ) -> Result<Expected, ApplyError> {
        let at = wanted.location();
        let object = self.caller.get(at).await?;
        let owner = Owner::of(&Json::from(&object));
        let ours = self.owner(wanted.resource);
        let is_ours = owner.as_ref().is_some_and(|owner| owner.passes_to(&ours));
        let uid = object.pointer("/metadata/uid").and_then(Value::as_str);
        let Some(uid) = uid.filter(|_| is_ours) else {
            let problem = name_conflict(wanted.child.kind, &wanted.key(), owner.as_ref());
            return Err(ApplyError::Blocked(problem, jittered_retry()));
        };
        if object.pointer("/metadata/deletionTimestamp").is_some() {
            return Err(pending_deletion(terminating(
                wanted.child.kind,
                &wanted.key(),
            )));
        }
        if let Some(stamp) = Stamp::of(&Json::from(&object)) {
            self.check_generation(wanted.resource, stamp).await?;
        }
        let manager = &*self.field_manager;
        let mut resource_version = version_of(&object).unwrap_or(0);
        if let Some(adopted) = self.adopt_from_shard(wanted, Some(&object)).await? {
            resource_version = version_of(&adopted).unwrap_or(0);
        } else if fingerprint::of_observed(&Json::from(&object), manager).is_none() {
            // The old selector and ports match the existing pods; the new ones only those of the
            // rollout.
            let is_service = wanted.child.kind == SERVICE;
            if is_service && !self.is_rolled_out(wanted.resource) {
                return Err(pending_rollout(wanted, jittered_retry()));
            }
            if let Some(patch) = adoption::patch(&object, manager, &wanted.resource.uid) {
                let patched = self.patch_child(at, &patch).await?;
                resource_version = version_of(&patched).unwrap_or(0);
                self.record_adoption(wanted);
            }
        }
        let preserved = self.with_preserved_selector(wanted, &object);
        let preserved = preserved.as_ref().map(|child| wanted.keeping(child));
        let existing = Existing {
            uid,
            resource_version,
            // Not read in an update that is not paced.
            generation: 0,
        };
        self.update(preserved.unwrap_or(wanted), existing, false)
            .await
    }

    /// Sends a JSON patch of the child `at`.
    pub(super) async fn patch_child(
        &self,
        at: Location<'_>,
        patch: &Value,
    ) -> Result<Value, RequestError> {
        let (manager, patch) = (&*self.field_manager, patch.to_string());
        self.caller
            .json_patch(at, Part::Object, manager, &patch)
            .await
    }

    /// The desired Deployment, with the selector of the existing one.
    fn with_preserved_selector(&self, wanted: Wanted<'_>, found: &Value) -> Option<Child> {
        if wanted.child.kind != DEPLOYMENT {
            return None;
        }
        let name = &wanted.resource.name;
        let selector = kept::selector_of(&Json::from(found), &self.controller, name)?;
        Some(kept::keeping(wanted.child, &selector))
    }

    /// Rejects an object with the operator's label and without an owner, unless this operator has applied it: an
    /// apply without force would adopt an object that a user made, if no value differs.
    ///
    /// # Errors
    /// [`ApplyError::Blocked`].
    pub(super) async fn check_maker(&self, wanted: Wanted<'_>) -> Result<(), ApplyError> {
        let (kind, key) = (wanted.child.kind, wanted.key());
        if self.children.found(kind, &key).is_none() {
            return Ok(());
        }
        let live = found(self.caller.get(wanted.location()).await)?;
        let base = self.kind.field_manager;
        if live.is_none_or(|live| managed_fields::was_applied(&Json::from(&live), base)) {
            return Ok(());
        }
        let problem = name_conflict(kind, &key, None);
        Err(ApplyError::Blocked(problem, jittered_retry()))
    }

    /// A child is missing. If it may have existed before, checks that the resource still exists in the
    /// generation that was read, before the child is created again.
    pub(super) async fn check_owner(&self, resource: &Resource) -> Result<(), ApplyError> {
        #[cfg(test)]
        if twins::is(Twin::ChildOfDeadOwner) {
            return Ok(());
        }
        // In this order: the loss is removed after the resource has left the cache, which may happen
        // concurrently.
        let key = key_of(resource);
        let lost_a_child = self.states.has_lost_child(&key, &resource.uid);
        let known = self.resources.get(&key);
        let known = known
            .filter(|known| *known.meta.uid == *resource.uid)
            .ok_or(ApplyError::ResourceGone)?;
        // An earlier leader may have created the child for a later generation than the cached one. A
        // resource that was read since this process leads has no later generation.
        if !lost_a_child
            && known.meta.resource_version > self.first_revision(&resource.namespace).await?
        {
            return Ok(());
        }
        if self.live_generation(resource).await? > resource.generation {
            return Err(ApplyError::Stale);
        }
        self.states.owner_confirmed(resource);
        Ok(())
    }

    /// Reads the revision of etcd since which no other manager writes, once, with a list in this
    /// namespace.
    pub(crate) async fn first_revision(&self, namespace: &str) -> Result<u64, RequestError> {
        let revision = self.first_revision.get_or_try_init(|| async {
            // Lists a type without conversion: a list of resources fails while the conversion webhook
            // is unavailable, even if it is empty. No object has this name.
            let at = Location::of_child(DEPLOYMENT, namespace, "-");
            let list = self.caller.list_one(at, None).await?;
            Ok(revision_of(&list))
        });
        revision.await.copied()
    }

    /// Whether the API server has the children as cached. Reads only those that have not changed since
    /// this process leads: the first lists may have come from an outdated API server.
    pub(crate) async fn is_current(
        &self,
        resource: &Resource,
        ensured: &Ensured,
    ) -> Result<bool, RequestError> {
        for Expected { kind, key, .. } in &ensured.expected {
            let Some(cached) = self.children.cached(kind, key) else {
                return Ok(false);
            };
            let cached = cached.meta.resource_version;
            if cached > self.first_revision(&resource.namespace).await? {
                continue;
            }
            let at = Location::of_child(kind, key.namespace(), key.name());
            let found = self.caller.list_one(at, None).await?;
            let now = found.pointer("/items/0").and_then(version_of);
            if now != Some(cached) {
                let (kind, name) = (kind.kind, key.name());
                debug!(child = kind, child_name = name, "the cache is outdated");
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The current generation of the resource in the API server.
    ///
    /// # Errors
    /// [`ApplyError::ResourceGone`] if it is deleted, being deleted, in another shard, or replaced by
    /// another of that name.
    pub(super) async fn live_generation(&self, resource: &Resource) -> Result<i64, ApplyError> {
        let at = Location {
            api_version: &resource.api_version,
            plural: self.kind.plural,
            namespace: &resource.namespace,
            name: &resource.name,
        };
        let labels = self.shard.as_ref().map(Shard::selector);
        let found = self.caller.list_one(at, labels).await?;
        let of = |field: &str| found.pointer(&format!("/items/0/metadata/{field}"));
        let is_it = of("uid").and_then(Value::as_str) == Some(&resource.uid);
        if !is_it || of("deletionTimestamp").is_some() {
            debug!("the resource is deleted or in another shard");
            return Err(ApplyError::ResourceGone);
        }
        Ok(of("generation").and_then(Value::as_i64).unwrap_or_default())
    }

    fn record_adoption(&self, wanted: Wanted<'_>) {
        let (kind, name) = (wanted.child.kind.kind, &wanted.child.name);
        let notice = Notice {
            severity: Severity::Normal,
            reason: "Adopted".to_owned(),
            note: format!("{kind} {name}, which an older operator made, is kept from now on"),
        };
        info!(
            child = kind,
            child_name = name,
            "adopted from an older operator"
        );
        self.recorder.record(self.kind, wanted.resource, notice);
    }

    /// Makes the operator the only owner of a list of an owned child in which items of other managers
    /// conflict. Returns the new version of the child; `None` if there is nothing to adopt.
    pub(super) async fn absorb_list(
        &self,
        wanted: Wanted<'_>,
        field: &str,
    ) -> Result<Option<u64>, RequestError> {
        let (at, manager) = (wanted.location(), &*self.field_manager);
        let object = self.caller.get(at).await?;
        let Some(patch) = absorb_list(&object, manager, field) else {
            return Ok(None);
        };
        let patched = self.patch_child(at, &patch).await?;
        // No object has the version 0: the following write is rejected.
        Ok(Some(version_of(&patched).unwrap_or(0)))
    }
}

/// The revision of a list. If it has none, no object counts as newer.
fn revision_of(list: &Value) -> u64 {
    version_of(list).unwrap_or(u64::MAX)
}

/// The resourceVersion of an object or list.
pub(super) fn version_of(object: &Value) -> Option<u64> {
    let version = object.pointer("/metadata/resourceVersion")?;
    version.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::revision_of;

    #[test]
    fn every_resource_is_asked_for_if_the_api_server_names_no_revision() {
        for list in [json!({}), json!({"metadata": {"resourceVersion": ""}})] {
            assert_eq!(revision_of(&list), u64::MAX);
        }
        let list = json!({"metadata": {"resourceVersion": "7"}});
        assert_eq!(revision_of(&list), 7);
    }
}
