//! The children of one resource: what has to be sent so that they are as its operator wants
//! them, and what an answer of the API server means for the resource. At rest nothing is
//! sent; nothing is ever read but where the API server's refusal leaves open whose a child is.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tracing::{debug, info};

use super::call::{CallError, Caller, Location, Part};
use super::children::{Children, Standing, taken};
use super::event::{Notice, Recorder, Severity};
use super::fingerprint::{self, Fingerprint};
use super::lean::{LeanResource, LeanService, Owner};
use super::memory::{Attempt, Memories, Rewritten, until_next_look};
use super::metrics::Metrics;
use super::object::ObjectKey;
use super::store::Store;
use super::takeover;
use super::verdict::{self, Verdict};
use crate::api::Kind;
use crate::operators::{Child, ChildKind, Problem, Resource, names};

/// Why the children are not as they should be.
#[derive(Debug)]
pub(super) enum Setback {
    /// Something outside is in the way; to be looked at again after this time.
    Blocked(Problem, Duration),
    /// The API server refuses a child for what it is; tried again by the back-off.
    Refused(Problem, CallError),
    /// Passing trouble; tried again by the back-off, and told nobody.
    Failed(CallError),
    /// The namespace is going away, and the resource with it.
    NamespaceEnding,
    /// The resource is gone, or about to be, whatever it was read as.
    ResourceGone,
}

impl From<CallError> for Setback {
    fn from(error: CallError) -> Self {
        Setback::Failed(error)
    }
}

/// Applies the children of the resources of one kind.
pub(super) struct Applier {
    kind: &'static Kind,
    controller: String,
    caller: Caller,
    recorder: Recorder,
    resources: Arc<Store<LeanResource>>,
    children: Arc<Children>,
    memories: Arc<Memories>,
    metrics: Arc<Metrics>,
}

/// A child, and the fingerprint of what is desired of it.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    resource: &'a Resource,
    child: &'a Child,
    desired: Fingerprint,
}

impl<'a> Wanted<'a> {
    fn location(&self) -> Location<'a> {
        Location::of_child(self.child.kind, &self.resource.namespace, &self.child.name)
    }

    fn key(&self) -> ObjectKey {
        ObjectKey::new(&self.resource.namespace, &self.child.name)
    }
}

impl Applier {
    /// An applier for `kind`.
    pub(super) fn new(
        kind: &'static Kind,
        (caller, recorder): (Caller, Recorder),
        resources: Arc<Store<LeanResource>>,
        children: Arc<Children>,
        memories: Arc<Memories>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Applier {
            kind,
            controller: kind.controller_name(),
            caller,
            recorder,
            resources,
            children,
            memories,
            metrics,
        }
    }

    /// Makes the children as desired, in their order, and removes a Service that is no longer
    /// among them. Stops at the first that cannot be had.
    pub(super) async fn ensure(
        &self,
        resource: &Resource,
        children: &[Child],
    ) -> Result<(), Setback> {
        for child in children {
            let desired = fingerprint::of_desired(&child.body);
            self.ensure_child(Wanted {
                resource,
                child,
                desired,
            })
            .await?;
        }
        for service in self.children.services(&resource.uid) {
            let is_asked_for = children.iter().any(|child| {
                child.kind == ChildKind::Service && child.name == service.meta.key.name()
            });
            if !is_asked_for && !service.meta.deleting {
                self.delete_service(resource, &service).await?;
            }
        }
        self.memories.unblock(resource);
        Ok(())
    }

    /// The resource is gone, or its children are: gives back the names that it claimed.
    pub(super) fn release(&self, resource: &ObjectKey, uid: &str) {
        let child = ObjectKey::new(resource.namespace(), &names::child_name(resource.name()));
        for kind in [ChildKind::Deployment, ChildKind::Service] {
            self.children.claims.release(kind, &child, uid);
        }
        self.children.bereaved.forget(uid);
    }

    async fn ensure_child(&self, wanted: Wanted<'_>) -> Result<(), Setback> {
        let Wanted {
            resource,
            child,
            desired,
        } = wanted;
        let key = wanted.key();
        let owner = Owner {
            group: self.kind.group.into(),
            kind: self.kind.kind.into(),
            name: resource.name.as_str().into(),
            uid: resource.uid.as_str().into(),
        };
        let standing = self.children.standing(child.kind, &key, &owner);
        if let Standing::Foreign(problem) = standing {
            return Err(Setback::Blocked(problem, until_next_look()));
        }
        if !self.children.claims.claim(child.kind, &key, &resource.uid) {
            let problem = taken(child.kind, &key, None);
            return Err(Setback::Blocked(problem, until_next_look()));
        }
        if let Standing::Ours { fingerprint, .. } = &standing
            && self.is_settled(wanted, *fingerprint)
        {
            return Ok(());
        }
        let attempt = Attempt {
            kind: child.kind,
            desired,
            generation: resource.generation,
            found: self.children.found(child.kind, &key),
        };
        if let Some((problem, wait)) = self.memories.blocked(resource, &attempt) {
            return Err(Setback::Blocked(problem, wait));
        }
        let outcome = match &standing {
            Standing::Unknown => {
                self.look_whether_alive(resource).await?;
                self.apply(wanted, None).await
            }
            Standing::Ours {
                fingerprint: None, ..
            } => self.look_whose(wanted).await,
            Standing::Ours { uid, .. } => self.apply(wanted, Some(uid)).await,
            Standing::Ending | Standing::Foreign(_) => Ok(()),
        };
        if let Err(Setback::Blocked(problem, wait)) = &outcome {
            self.memories
                .block(resource, attempt, problem.clone(), *wait);
        }
        outcome
    }

    /// Whether a child of ours is as it shall be, or as the API server makes it of that.
    fn is_settled(&self, wanted: Wanted<'_>, observed: Option<Fingerprint>) -> bool {
        observed.is_some_and(|observed| {
            let rewritten = Rewritten {
                kind: wanted.child.kind,
                desired: wanted.desired,
                answered: observed,
            };
            observed == wanted.desired || self.memories.is_rewritten(wanted.resource, rewritten)
        })
    }

    /// Applies a child: with force and its uid when it is known to be ours, else without.
    async fn apply(&self, wanted: Wanted<'_>, ours: Option<&str>) -> Result<(), Setback> {
        let (at, body) = (wanted.location(), &wanted.child.body);
        let manager = self.kind.field_manager;
        let answer = match ours {
            None => self.caller.apply(at, manager, false, body).await,
            Some(uid) => {
                self.caller
                    .apply(at, manager, true, &with_uid(body, uid))
                    .await
            }
        };
        let error = match answer {
            Ok(object) => {
                self.applied(wanted, &object);
                return Ok(());
            }
            Err(error) => error,
        };
        match error.refusal().map(verdict::of_apply) {
            Some(Verdict::AskWhose) if ours.is_none() => {
                debug!(controller = self.controller, %error, "asking whose the child is");
                Box::pin(self.look_whose(wanted)).await
            }
            Some(Verdict::Duplicate { field, problem }) => {
                if ours.is_none() || !self.absorb_list(wanted, &field).await? {
                    return Err(Setback::Refused(problem, error));
                }
                Box::pin(self.apply(wanted, ours)).await
            }
            Some(Verdict::Blocked(problem)) => Err(Setback::Blocked(problem, until_next_look())),
            Some(Verdict::Refused(problem)) => Err(Setback::Refused(problem, error)),
            Some(Verdict::NamespaceEnding) => {
                debug!(controller = self.controller, %error, "the namespace is going away");
                Err(Setback::NamespaceEnding)
            }
            Some(Verdict::AskWhose | Verdict::Transient) | None => Err(Setback::Failed(error)),
        }
    }

    /// One GET decides: is the object this very resource's (its label was removed, an older
    /// operator made it), or somebody else's?
    async fn look_whose(&self, wanted: Wanted<'_>) -> Result<(), Setback> {
        let at = wanted.location();
        let object = self.caller.get(at).await?;
        let owner = Owner::of(&object);
        let uid = &wanted.resource.uid;
        if owner.as_ref().is_none_or(|owner| *owner.uid != **uid) {
            let problem = taken(wanted.child.kind, &wanted.key(), owner.as_ref());
            return Err(Setback::Blocked(problem, until_next_look()));
        }
        let manager = self.kind.field_manager;
        if fingerprint::of_observed(&object, manager).is_none()
            && let Some(patch) = takeover::patch(&object, manager, uid)
        {
            self.caller
                .json_patch(at, Part::Object, manager, &patch)
                .await?;
            self.tell_of_takeover(wanted);
        }
        let child_uid = object.pointer("/metadata/uid").and_then(Value::as_str);
        self.apply(wanted, child_uid).await
    }

    /// A child is missing. If it was there: is it gone by somebody's hand, or because the
    /// resource is?
    async fn look_whether_alive(&self, resource: &Resource) -> Result<(), Setback> {
        // In this order: what was lost is forgotten after the resource has left the cache,
        // which may happen now, while this works on what was read from there before.
        let is_bereaved = self.children.bereaved.contains(&resource.uid);
        let key = ObjectKey::new(&resource.namespace, &resource.name);
        let known = self.resources.get(&key);
        if known.is_none_or(|known| *known.meta.uid != *resource.uid) {
            return Err(Setback::ResourceGone);
        }
        if !is_bereaved {
            return Ok(());
        }
        let at = Location {
            api: &format!("/apis/{}", resource.api_version),
            plural: self.kind.plural,
            namespace: &resource.namespace,
            name: &resource.name,
        };
        let found = self.caller.list_one(at).await?;
        let metadata = found.pointer("/items/0/metadata").unwrap_or(&Value::Null);
        if metadata["uid"] != *resource.uid || !metadata["deletionTimestamp"].is_null() {
            let (namespace, name) = (at.namespace, at.name);
            debug!(controller = self.controller, namespace, name, "it is gone");
            return Err(Setback::ResourceGone);
        }
        self.children.bereaved.forget(&resource.uid);
        Ok(())
    }

    fn tell_of_takeover(&self, wanted: Wanted<'_>) {
        let (kind, name) = (wanted.child.kind.name(), &wanted.child.name);
        let notice = Notice {
            severity: Severity::Normal,
            reason: "TakenOver".to_owned(),
            note: format!("{kind} {name}, which an older operator made, is kept from now on"),
        };
        info!(child = kind, name, "taken over from an older operator");
        self.recorder.record(self.kind, wanted.resource, notice);
    }

    /// Makes us the only owner of a list of our own child in which others' items stand in the
    /// way of ours. False if there is nothing to absorb.
    async fn absorb_list(&self, wanted: Wanted<'_>, field: &str) -> Result<bool, CallError> {
        let (at, manager) = (wanted.location(), self.kind.field_manager);
        let object = self.caller.get(at).await?;
        let Some(patch) = takeover::absorb_list(&object, manager, field) else {
            return Ok(false);
        };
        self.caller
            .json_patch(at, Part::Object, manager, &patch)
            .await?;
        Ok(true)
    }

    /// Takes the answer to an apply into the cache, and remembers it if it is not what was
    /// sent: the API server rounds, and admission plugins change what they like.
    fn applied(&self, wanted: Wanted<'_>, object: &Value) {
        let Wanted {
            resource,
            child,
            desired,
        } = wanted;
        let answered = self.children.put_written(child.kind, object);
        let rewritten = answered
            .filter(|answered| *answered != desired)
            .map(|answered| Rewritten {
                kind: child.kind,
                desired,
                answered,
            });
        if rewritten.is_some() {
            self.metrics.rewritten(&self.controller, child.kind.name());
        }
        self.memories.applied(resource, child.kind, rewritten);
        info!(child = child.kind.name(), name = child.name, "applied");
    }

    /// The one delete there is: a Service of ours that the spec no longer asks for.
    async fn delete_service(
        &self,
        resource: &Resource,
        service: &LeanService,
    ) -> Result<(), CallError> {
        let meta = &service.meta;
        let at = Location::of_child(ChildKind::Service, meta.key.namespace(), meta.key.name());
        match self
            .caller
            .delete(at, &meta.uid, meta.resource_version)
            .await
        {
            Ok(_) => info!(
                child = "Service",
                name = meta.key.name(),
                "deleted, not asked for"
            ),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
        self.children
            .claims
            .release(ChildKind::Service, &meta.key, &resource.uid);
        Ok(())
    }
}

/// The body, meant for the object with this uid and no other of its name.
fn with_uid(body: &Value, uid: &str) -> Value {
    let mut body = body.clone();
    if let Some(Value::Object(metadata)) = body.get_mut("metadata") {
        metadata.insert("uid".to_owned(), uid.into());
    }
    body
}
