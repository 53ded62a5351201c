//! The children of one resource: what has to be sent so that they are as its operator wants
//! them, and what an answer of the API server means for the resource. At rest nothing is
//! sent; nothing is ever read but where the API server's refusal leaves open whose a child is.

mod whose;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tracing::{debug, info};

use super::call::{CallError, Caller, Location};
use super::children::{Children, Standing, taken};
use super::event::Recorder;
use super::fingerprint::{self, Fingerprint};
use super::lean::{LeanResource, LeanService, Owner};
use super::memory::{Attempt, Memories, Obstacle, Rewritten, until_next_look};
use super::metrics::Metrics;
use super::object::ObjectKey;
use super::store::Store;
use super::verdict::{self, Verdict};
use crate::api::Kind;
use crate::operators::{Child, ChildKind, Problem, Resource, kept, names};

/// Why the children are not as they should be.
#[derive(Debug)]
pub(super) enum Setback {
    /// Something outside is in the way; to be looked at again after this time.
    Blocked(Problem, Duration),
    /// A Service of an older operator stays as it is until the Deployment is rolled out; to
    /// be looked at again when it is, and after this time.
    Waiting(Duration),
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
    fn new(resource: &'a Resource, child: &'a Child) -> Self {
        Wanted {
            resource,
            child,
            desired: fingerprint::of_desired(&child.body),
        }
    }

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
            // Asked for each, since the one before may just have been taken over.
            let selector = self.children.kept_selector(&resource.uid);
            let kept = selector.map(|selector| kept::keeping(child, &selector));
            let child = kept.as_ref().unwrap_or(child);
            self.ensure_child(Wanted::new(resource, child)).await?;
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
        match self.memories.blocked(resource, &attempt) {
            Some((Obstacle::Problem(problem), wait)) => {
                return Err(Setback::Blocked(problem, wait));
            }
            Some((Obstacle::Rollout, wait)) if !self.children.is_rolled_out(&resource.uid) => {
                return Err(Setback::Waiting(wait));
            }
            _ => {}
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
        let obstacle = match &outcome {
            Err(Setback::Blocked(problem, wait)) => {
                Some((Obstacle::Problem(problem.clone()), wait))
            }
            Err(Setback::Waiting(wait)) => Some((Obstacle::Rollout, wait)),
            _ => None,
        };
        if let Some((obstacle, wait)) = obstacle {
            self.memories.block(resource, attempt, obstacle, *wait);
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
