//! The children of one resource: what has to be sent so that they are as its operator wants
//! them, and what an answer of the API server means for the resource. At rest nothing is
//! sent; nothing is ever read but where the API server's refusal leaves open whose a child is.

mod checks;
mod whose;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::OnceCell;
use tracing::{debug, info};

use self::checks::Pace;
use super::call::{CallError, Caller, Location};
use super::children::{Children, Standing, taken, terminating};
use super::event::Recorder;
use super::fingerprint::{self, Fingerprint};
use super::lean::{LeanResource, LeanService, Owner};
use super::memory::{Attempt, Memories, Obstacle, Rewritten, until_next_look};
use super::metrics::Metrics;
use super::object::ObjectKey;
use super::pacing::Pacer;
use super::repairs::RepairLog;
use super::stamp::Stamp;
use super::store::Store;
use super::verdict::{self, Verdict};
use crate::api::Kind;
#[cfg(test)]
use crate::explorer::twins::{self, Twin};
use crate::operators::{Child, ChildKind, Problem, Reason, Resource, kept, names};

/// How long writes may fail until the resource is degraded.
pub(super) const PATIENCE_WITH_WRITES: Duration = Duration::from_secs(30);
/// How long the deletion of a child may take until the resource is degraded.
const PATIENCE_WITH_DELETION: Duration = Duration::from_secs(60);

/// What was done for the children of a resource.
#[derive(Debug, Default)]
pub(super) struct Ensured {
    /// What each child has to look like for the resource to be ready.
    pub(super) expected: Vec<Expected>,
    /// Why a child that is left as it is for now is not confirmed.
    pub(super) unconfirmed: Option<Problem>,
    /// When to look again without a new event.
    pub(super) look_again: Option<Duration>,
}

/// What a child has to look like.
#[derive(Debug)]
pub(super) struct Expected {
    kind: ChildKind,
    key: ObjectKey,
    fingerprint: Fingerprint,
}

/// Why the children are not as they should be.
#[derive(Debug)]
pub(super) enum Setback {
    /// Something outside is in the way; to be looked at again after this time.
    Blocked(Problem, Duration),
    /// A child has to wait for something that usually passes by itself.
    Pending {
        /// What it waits for.
        problem: Problem,
        /// How long that may last until the resource is degraded.
        patience: Option<Duration>,
        /// When to look again without a new event.
        look_again: Duration,
    },
    /// The API server refuses a child for what it is; tried again by the back-off.
    Refused(Problem, CallError),
    /// A write failed for a cause that may pass; tried again by the back-off.
    Failed(CallError),
    /// The resource was changed since it was read. Nothing is known of it, not even a status.
    Stale,
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
    repairs: RepairLog<(ChildKind, ObjectKey)>,
    /// A revision of etcd since which no other manager writes: read before the first child is
    /// made.
    begun: OnceCell<u64>,
    pacer: Arc<Pacer>,
    metrics: Arc<Metrics>,
}

/// How a child that is there is written.
#[derive(Clone, Copy)]
struct Existing<'a> {
    uid: &'a str,
    /// The write fails if the child is at another version. An edit that is not known here, or
    /// a newer write of another leader, is so never overwritten.
    resource_version: u64,
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

    fn resource_key(&self) -> ObjectKey {
        ObjectKey::new(&self.resource.namespace, &self.resource.name)
    }

    fn expected(&self) -> Expected {
        Expected {
            kind: self.child.kind,
            key: self.key(),
            fingerprint: self.desired,
        }
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
        (pacer, metrics): (Arc<Pacer>, Arc<Metrics>),
    ) -> Self {
        Applier {
            kind,
            controller: kind.controller_name(),
            caller,
            recorder,
            resources,
            children,
            memories,
            repairs: RepairLog::default(),
            begun: OnceCell::new(),
            pacer,
            metrics,
        }
    }

    /// As [`Applier::begin`], without a request.
    #[cfg(test)]
    pub(super) fn begun_at(&self, revision: u64) {
        self.begun.set(revision).expect("once");
    }

    /// Makes the children as desired, in their order, and removes a Service that is no longer
    /// among them.
    ///
    /// # Errors
    /// The first [`Setback`]; children after it are left as they are.
    pub(super) async fn ensure(
        &self,
        resource: &Resource,
        children: &[Child],
    ) -> Result<Ensured, Setback> {
        let mut ensured = Ensured::default();
        for child in children {
            // For each child anew: applying the one before may have adopted an object.
            let selector = self.children.kept_selector(&resource.uid);
            let kept = selector.map(|selector| kept::keeping(child, &selector));
            let child = kept.as_ref().unwrap_or(child);
            let wanted = Wanted::new(resource, child);
            self.ensure_child(wanted, &mut ensured).await?;
        }
        for service in self.children.services(&resource.uid) {
            let is_asked_for = children.iter().any(|child| {
                child.kind == ChildKind::Service && child.name == service.meta.key.name()
            });
            if is_asked_for {
                continue;
            }
            if !service.meta.deleting {
                // What is deleted for an older generation does not come back as it was.
                if self.live_generation(resource).await? > resource.generation {
                    return Err(Setback::Stale);
                }
                if !self.delete_service(resource, &service).await? {
                    continue;
                }
            }
            // Still there: somebody's finalizer holds it.
            let left = self.children.services(&resource.uid);
            if left.iter().any(|it| it.meta.deleting) {
                return Err(pending_deletion(terminating(
                    ChildKind::Service,
                    &service.meta.key,
                )));
            }
        }
        self.memories.unblock(resource);
        Ok(ensured)
    }

    /// Whether the cache shows every child as expected at this moment.
    pub(super) fn is_confirmed(&self, resource: &Resource, expected: &[Expected]) -> bool {
        expected.iter().all(|expected| {
            let Expected {
                kind,
                key,
                fingerprint,
            } = expected;
            let found = self.children.of_owner(*kind, key, &resource.uid);
            let observed = found.and_then(|(observed, _)| observed);
            self.is_settled(resource, *kind, *fingerprint, observed)
        })
    }

    /// The resource is gone, or its children are: gives back the names that it claimed.
    pub(super) fn release(&self, resource: &ObjectKey, uid: &str) {
        let child = ObjectKey::new(resource.namespace(), &names::child_name(resource.name()));
        for kind in [ChildKind::Deployment, ChildKind::Service] {
            self.children.claims.release(kind, &child, uid);
            self.repairs.forget(&(kind, child.clone()));
        }
        self.pacer.ended(resource);
        self.children.bereaved.forget(uid);
    }

    async fn ensure_child(&self, wanted: Wanted<'_>, ensured: &mut Ensured) -> Result<(), Setback> {
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
        match &standing {
            Standing::Foreign(problem) => {
                return Err(Setback::Blocked(problem.clone(), until_next_look()));
            }
            Standing::Ending(problem) => return Err(pending_deletion(problem.clone())),
            Standing::Unknown | Standing::Ours { .. } => {}
        }
        if !self.children.claims.claim(child.kind, &key, &resource.uid) {
            let problem = taken(child.kind, &key, None);
            return Err(Setback::Blocked(problem, until_next_look()));
        }
        let mut paced = false;
        if let Standing::Ours {
            fingerprint, stamp, ..
        } = &standing
        {
            if self.is_settled(resource, child.kind, desired, *fingerprint) {
                ensured.expected.push(wanted.expected());
                return self.settled(wanted);
            }
            if let Some(stamp) = stamp {
                self.check_generation(resource, *stamp).await?;
            }
            self.check_repairs(wanted).await?;
            if child.kind == ChildKind::Deployment {
                match self.pace(wanted, *fingerprint, *stamp) {
                    Pace::Now => self.pacer.ended(&wanted.resource_key()),
                    Pace::Turn => paced = true,
                    Pace::Wait(waits) => {
                        waits.note(wanted, ensured);
                        return Ok(());
                    }
                }
            }
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
                return Err(pending_rollout(wanted, wait));
            }
            Some((Obstacle::NotFound(problem), wait)) => return Err(not_found(problem, wait)),
            _ => {}
        }
        let outcome = match &standing {
            Standing::Ours {
                fingerprint: None, ..
            } => self.look_whose(wanted).await,
            Standing::Ours {
                uid,
                resource_version,
                ..
            } => {
                let existing = Existing {
                    uid,
                    resource_version: *resource_version,
                };
                self.apply(wanted, Some(existing), paced).await
            }
            _ => {
                self.look_whether_alive(resource).await?;
                self.apply(wanted, None, false).await
            }
        };
        let obstacle = match &outcome {
            Err(Setback::Blocked(problem, wait)) => {
                Some((Obstacle::Problem(problem.clone()), *wait))
            }
            Err(Setback::Pending {
                problem,
                look_again,
                ..
            }) => match problem.reason {
                Reason::RollingOut => Some((Obstacle::Rollout, *look_again)),
                Reason::ApplyFailed => Some((Obstacle::NotFound(problem.clone()), *look_again)),
                _ => None,
            },
            _ => None,
        };
        if let Some((obstacle, wait)) = obstacle {
            self.memories.block(resource, attempt, obstacle, wait);
        }
        if outcome.is_ok() {
            ensured.expected.push(wanted.expected());
        } else if paced {
            // Its place is for another until it is tried again.
            self.pacer.ended(&wanted.resource_key());
        }
        outcome
    }

    /// Whether our fields of a child are as desired, or as the API server makes them of that.
    fn is_settled(
        &self,
        resource: &Resource,
        kind: ChildKind,
        desired: Fingerprint,
        observed: Option<Fingerprint>,
    ) -> bool {
        observed.is_some_and(|observed| {
            let rewritten = Rewritten {
                kind,
                desired,
                answered: observed,
            };
            observed == desired || self.memories.is_rewritten(resource, rewritten)
        })
    }

    /// A child is as desired. A conflict about it is told until it has stayed so for a while.
    fn settled(&self, wanted: Wanted<'_>) -> Result<(), Setback> {
        let child = (wanted.child.kind, wanted.key());
        match self.repairs.settled(&child, wanted.desired.fields) {
            Some((problem, left)) => Err(Setback::Blocked(problem, left)),
            None => Ok(()),
        }
    }

    /// Applies a child: with force, its uid and its version when it is known to be ours, else
    /// without.
    async fn apply(
        &self,
        wanted: Wanted<'_>,
        existing: Option<Existing<'_>>,
        paced: bool,
    ) -> Result<(), Setback> {
        let (at, manager) = (wanted.location(), self.kind.field_manager);
        let mut body = wanted.child.body.clone();
        Stamp::new(wanted.resource, wanted.desired, paced).put_on(&mut body);
        let named = existing;
        #[cfg(test)]
        let named = named.filter(|_| !twins::is(Twin::ApplyWithoutUid));
        if let (Some(existing), Some(Value::Object(metadata))) = (named, body.get_mut("metadata")) {
            let version = existing.resource_version.to_string();
            metadata.insert("uid".to_owned(), existing.uid.into());
            metadata.insert("resourceVersion".to_owned(), version.into());
        }
        let forced = existing.is_some();
        let error = match self.caller.apply(at, manager, forced, &body).await {
            Ok(object) => {
                if forced {
                    let child = (wanted.child.kind, wanted.key());
                    self.repairs.applied(&child, wanted.desired.fields);
                }
                self.applied(wanted, &object);
                return Ok(());
            }
            Err(error) => error,
        };
        match error.refusal().map(verdict::of_apply) {
            Some(Verdict::AskWhose) if existing.is_none() => {
                debug!(controller = self.controller, %error, "asking whose the child is");
                Box::pin(self.look_whose(wanted)).await
            }
            Some(Verdict::Duplicate { field, problem }) => {
                let Some(existing) = existing else {
                    return Err(Setback::Refused(problem, error));
                };
                match self.absorb_list(wanted, &field).await? {
                    None => Err(Setback::Refused(problem, error)),
                    Some(resource_version) => {
                        let existing = Existing {
                            resource_version,
                            ..existing
                        };
                        Box::pin(self.apply(wanted, Some(existing), paced)).await
                    }
                }
            }
            Some(Verdict::Blocked(problem)) => Err(Setback::Blocked(problem, until_next_look())),
            Some(Verdict::Refused(problem)) => Err(Setback::Refused(problem, error)),
            Some(Verdict::NotFound(problem)) => Err(not_found(problem, until_next_look())),
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

    /// The one delete there is: a Service of ours that the spec no longer asks for. Returns
    /// whether it is held.
    async fn delete_service(
        &self,
        resource: &Resource,
        service: &LeanService,
    ) -> Result<bool, CallError> {
        let meta = &service.meta;
        let mut is_held = false;
        let at = Location::of_child(ChildKind::Service, meta.key.namespace(), meta.key.name());
        match self
            .caller
            .delete(at, &meta.uid, meta.resource_version)
            .await
        {
            Ok(answer) => {
                is_held = answer.pointer("/metadata/deletionTimestamp").is_some();
                if is_held {
                    self.children.put_written(ChildKind::Service, &answer);
                } else {
                    // It counts as there until the watch tells of its end; not as in order.
                    let services = &self.children.services;
                    services.amend(&meta.key, &meta.uid, |it| it.meta.deleting = true);
                }
                info!(
                    child = "Service",
                    name = meta.key.name(),
                    "deleted, not asked for"
                );
            }
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
        self.children
            .claims
            .release(ChildKind::Service, &meta.key, &resource.uid);
        Ok(is_held)
    }
}

/// A child is being deleted, and its end wakes the resource.
fn pending_deletion(problem: Problem) -> Setback {
    Setback::Pending {
        problem,
        patience: Some(PATIENCE_WITH_DELETION),
        look_again: PATIENCE_WITH_DELETION,
    }
}

/// The API server knows no such namespace or resource type, perhaps not yet.
fn not_found(problem: Problem, look_again: Duration) -> Setback {
    Setback::Pending {
        problem,
        patience: Some(PATIENCE_WITH_WRITES),
        look_again,
    }
}

/// A Service of an older operator stays as it is until the Deployment is rolled out, which
/// wakes the resource.
fn pending_rollout(wanted: Wanted<'_>, look_again: Duration) -> Setback {
    let name = &wanted.child.name;
    Setback::Pending {
        problem: Problem {
            reason: Reason::RollingOut,
            message: format!("Service {name} is adopted when the Deployment is rolled out"),
        },
        patience: None,
        look_again,
    }
}
