//! Whether a child belongs to the resource, by the cache; or by one GET, if neither the cache nor the API
//! server's error shows it. Then adopts the child of an older operator, or leaves it unchanged.

use std::sync::Arc;

use serde_json::{Value, json};
use tracing::{debug, info};

use super::error::{ApplyError, Blocker};
use super::expected;
use super::wanted::{Ensured, Existing, Expected, Wanted};
use crate::cache::cached::{CachedChild, Owner};
use crate::children::{name_conflict, terminating};
use crate::event::Notice;
use crate::object::version_of;
use crate::reconcile::Reconciler;
use crate::state::{jittered_retry, key_of};
use quartet_applied::absorb;
use quartet_applied::stamp::Stamp;
use quartet_applied::{fingerprint, merge};
use quartet_http::{Location, Part, RequestError, generation_of};
use quartet_versions::conversion;
use quartet_workload::{Child, Reason, Resource, kept};

impl Reconciler {
    /// The cached child, if the resource owns it. `None` if there is none in the cache, or one without an owner:
    /// it is applied without force, so that an object of another owner that the cache does not show is not
    /// adopted.
    ///
    /// # Errors
    /// [`ApplyError::Blocked`] if another resource owns the child, or it is created again after its deletion.
    pub(super) fn claim(&self, wanted: Wanted<'_>) -> Result<Option<Arc<CachedChild>>, ApplyError> {
        let (kind, key, resource) = (wanted.child.kind, wanted.key(), wanted.resource);
        let wanted_by = self.owner(resource);
        let cached = self.context.children.cached(kind, &key);
        let ours = cached.filter(|child| child.owner.is_some());
        if let Some(child) = &ours
            && let Some(owner) = &child.owner
            && (child.meta.deleting || !owner.passes_to(&wanted_by))
        {
            // An owner of this name with another UID is deleted, and the garbage collector will delete
            // its children.
            let blocker = if owner.is_namesake(&wanted_by) {
                Blocker::deletion(terminating(kind, &key))
            } else {
                Blocker::external(name_conflict(kind, &key, Some(owner)))
            };
            return Err(blocker.into());
        }
        Ok(ours)
    }

    /// Determines with one GET whether the object belongs to this resource (its label was removed, or
    /// an older operator created it) or to another owner. Returns what was applied, in a `paced` rollout or not.
    pub(super) async fn resolve_ownership(
        &self,
        wanted: Wanted<'_>,
        paced: bool,
    ) -> Result<Expected, ApplyError> {
        let (at, manager) = (wanted.location(), self.kind.field_manager);
        let kind = wanted.child.kind;
        let mut object = self.context.caller.get(at).await?;
        let applied = fingerprint::of_observed(&object, manager, wanted.stamp);
        let owner = Owner::of(self.kind.brand, &object);
        let is_ours = match &owner {
            Some(owner) => owner.passes_to(&self.owner(wanted.resource)),
            None => applied.is_some() || is_orphan(wanted, &object),
        };
        let uid = object.pointer("/metadata/uid").and_then(Value::as_str);
        let Some(uid) = uid.filter(|_| is_ours).map(str::to_owned) else {
            let problem = name_conflict(kind, &wanted.key(), owner.as_ref());
            return Err(Blocker::external(problem).into());
        };
        if object.pointer("/metadata/deletionTimestamp").is_some() {
            return Err(Blocker::deletion(terminating(kind, &wanted.key())).into());
        }
        let stamp = Stamp::of(&object, wanted.stamp);
        if let Some(stamp) = stamp {
            self.check_generation(wanted.resource, stamp).await?;
        }
        if owner.is_none() && applied.is_some() && !is_orphan(wanted, &object) {
            // Somebody may have made it their own since: without force.
            return match self.apply(wanted, None).await {
                Ok(lost) => expected(wanted, lost),
                Err(error) if error.is_conflict() => {
                    Err(Blocker::external(name_conflict(kind, &wanted.key(), None)).into())
                }
                Err(error) => Err(error.into()),
            };
        }
        if object.pointer("/metadata/managedFields").is_none() {
            object = self.attribute_fields(wanted, &object).await?;
        }
        let mut resource_version = version_of(&object).unwrap_or(0);
        if applied.is_none() {
            // The old selector and ports match the existing pods; the new ones only those of the
            // rollout, which enqueues the resource.
            if selects_pods(wanted.child) && !self.is_rolled_out(wanted.resource) {
                let name = &wanted.child.name;
                let message =
                    format!("Service {name} is adopted when the Deployment is rolled out");
                return Err(
                    Blocker::expected(Reason::RollingOut, message, jittered_retry()).into(),
                );
            }
            if let Some(patch) =
                (self.context.legacy.adoption)(&object, manager, &wanted.resource.uid)
            {
                let patched = self.patch_child(at, &patch).await?;
                resource_version = version_of(&patched).unwrap_or(0);
                if stamp.is_none() {
                    self.record_adoption(wanted);
                }
            }
        }
        let name = &wanted.resource.name;
        let preserved = kept::selector_of(&object, &self.kind.controller_name(), name)
            .filter(|_| kind.has_pods)
            .map(|selector| kept::keeping(wanted.child, &selector));
        let preserved = preserved.as_ref().map(|child| wanted.keeping(child));
        let generation = generation_of(&object);
        let existing = Existing {
            uid: &uid,
            resource_version,
            rollout: paced.then_some(generation + 1),
        };
        self.update(preserved.unwrap_or(wanted), existing).await
    }

    /// Applies the metadata of a child whose managedFields were cleared. The API server then attributes all
    /// other fields to unknown managers. With its spec, it could be rejected: fields that the spec lost are
    /// still there.
    async fn attribute_fields(
        &self,
        wanted: Wanted<'_>,
        object: &Value,
    ) -> Result<Value, RequestError> {
        let (api_version, kind) = (wanted.child.kind.api_version, wanted.child.kind.kind);
        let metadata = wanted.child.body.get("metadata");
        let mut body = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
        let of = |field: &str| object.pointer(&format!("/metadata/{field}"));
        let (uid, version) = (of("uid"), of("resourceVersion"));
        let precondition = json!({"metadata": {"uid": uid, "resourceVersion": version}});
        merge(&mut body, precondition);
        let (at, manager, body) = (wanted.location(), self.kind.field_manager, body.to_string());
        let (answer, _) = self.context.caller.apply(at, manager, true, &body).await?;
        Ok(answer)
    }

    /// Sends a JSON patch of the child `at`.
    pub(super) async fn patch_child(
        &self,
        at: Location<'_>,
        patch: &Value,
    ) -> Result<Value, RequestError> {
        let (manager, patch) = (self.kind.field_manager, patch.to_string());
        let caller = &self.context.caller;
        caller.json_patch(at, Part::Object, manager, &patch).await
    }

    /// A child is missing. If it may have existed before, checks that the resource still exists in the
    /// generation that was read, before the child is created again.
    pub(super) async fn check_owner(&self, resource: &Resource) -> Result<(), ApplyError> {
        // In this order: the loss is removed after the resource has left the cache, which may happen
        // concurrently.
        let key = key_of(resource);
        let lost_a_child = self.state(resource).has_lost_child;
        let known = self.resources.get(&key);
        let known = known
            .filter(|known| *known.meta.uid == *resource.uid)
            .ok_or(ApplyError::ResourceGone)?;
        // An earlier leader may have created the child for a later generation than the cached one. A
        // resource that was read since this process leads has no later generation.
        if !lost_a_child && known.meta.resource_version > self.context.first_revision.get().await? {
            return Ok(());
        }
        self.check_current(resource).await?;
        self.state(resource).has_lost_child = false;
        Ok(())
    }

    /// Checks in the API server that the resource has no later generation than the one that was read, and
    /// the same spec. In the older version, a part of the spec is an annotation, and a change of it makes no
    /// generation.
    ///
    /// # Errors
    /// [`ApplyError::Stale`] if it has not, [`ApplyError::ResourceGone`].
    pub(super) async fn check_current(&self, resource: &Resource) -> Result<(), ApplyError> {
        let live = self.live(resource).await?;
        let (_, version) = resource.api_version.split_once('/').unwrap_or_default();
        let spec = self.kind.version(version).map(|version| {
            let spec = live.get("spec").unwrap_or(&Value::Null);
            let annotations = live.pointer("/metadata/annotations");
            conversion::hub_spec(self.kind, version, spec, annotations)
        });
        let is_same = spec.as_ref() == Some(&resource.spec);
        if is_same && generation_of(&live) <= resource.generation {
            return Ok(());
        }
        Err(ApplyError::Stale)
    }

    /// Whether the API server has the children as cached. Reads only those that have not changed since
    /// this process leads: the first lists may have come from an outdated API server.
    pub(crate) async fn is_current(&self, ensured: &Ensured) -> Result<bool, RequestError> {
        for Expected { kind, key, .. } in &ensured.expected {
            let Some(cached) = self.context.children.cached(kind, key) else {
                return Ok(false);
            };
            let cached = cached.meta.resource_version;
            if cached > self.context.first_revision.get().await? {
                continue;
            }
            let at = kind.location(key.namespace(), key.name());
            let found = self.context.caller.list_one(at).await?;
            let now = found.pointer("/items/0").and_then(version_of);
            if now != Some(cached) {
                let (kind, name) = (kind.kind, key.name());
                debug!(child = kind, child_name = name, "the cache is outdated");
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The resource as it is in the API server now.
    ///
    /// # Errors
    /// [`ApplyError::ResourceGone`] if it is deleted, being deleted, or replaced by another of that name.
    pub(super) async fn live(&self, resource: &Resource) -> Result<Value, ApplyError> {
        let at = self.location(resource);
        let mut found = self.context.caller.list_one(at).await?;
        let live = found.pointer_mut("/items/0").map(Value::take);
        let live = live.unwrap_or_default();
        let of = |field: &str| live.pointer(&format!("/metadata/{field}"));
        let is_it = of("uid").and_then(Value::as_str) == Some(&resource.uid);
        if !is_it || of("deletionTimestamp").is_some() {
            debug!("the resource is deleted");
            return Err(ApplyError::ResourceGone);
        }
        Ok(live)
    }

    fn record_adoption(&self, wanted: Wanted<'_>) {
        let (kind, name) = (wanted.child.kind.kind, &wanted.child.name);
        let note = format!("{kind} {name}, which an older operator made, is kept from now on");
        let notice = Notice::normal("Adopted", note);
        info!(
            child = kind,
            child_name = name,
            "adopted from an older operator"
        );
        let recorder = &self.context.recorder;
        recorder.record(self.kind, wanted.resource, notice);
    }

    /// Makes the operator the only owner of a list or object of an owned child in which what other managers own
    /// conflicts. Returns the new version of the child; `None` if there is nothing to adopt.
    pub(super) async fn absorb(
        &self,
        wanted: Wanted<'_>,
        path: &str,
    ) -> Result<Option<u64>, RequestError> {
        let (at, manager) = (wanted.location(), self.kind.field_manager);
        let object = self.context.caller.get(at).await?;
        let Some(patch) = absorb::absorb(&object, manager, path) else {
            return Ok(None);
        };
        let patched = self.patch_child(at, &patch).await?;
        // No object has the version 0: the following write is rejected.
        Ok(Some(version_of(&patched).unwrap_or(0)))
    }
}

/// Whether an object without an owner is a child that lost it, for example in a backup: it has all labels of
/// the child, its selector, and containers of the same names. Labels alone can be copied.
fn is_orphan(wanted: Wanted<'_>, object: &Value) -> bool {
    let child = &wanted.child.body;
    let labels = child.pointer("/metadata/labels").and_then(Value::as_object);
    let has = |(name, value): (&String, &Value)| {
        let labels = object.pointer("/metadata/labels");
        labels.and_then(|labels| labels.get(name)) == Some(value)
    };
    let is_same = |path: &str| object.pointer(path) == child.pointer(path);
    labels.is_some_and(|labels| labels.iter().all(has))
        && is_same("/spec/selector")
        && containers(object) == containers(child)
}

/// Whether a child selects the pods of another one, as a Service does.
fn selects_pods(child: &Child) -> bool {
    !child.kind.has_pods && child.body.pointer("/spec/selector").is_some()
}

/// The names of the containers of a workload.
fn containers(workload: &Value) -> Vec<&Value> {
    let containers = workload.pointer("/spec/template/spec/containers");
    let containers = containers.and_then(Value::as_array).into_iter().flatten();
    containers
        .filter_map(|container| container.get("name"))
        .collect()
}
