//! Applies the children of one resource and interprets the answers of the API server. Nothing is sent
//! while the children are as desired. A child is read only if the cache does not show enough, for example
//! after a rejection, if this field manager has not applied it, or if another writer keeps changing it.

mod checks;
mod deletion;
pub(super) mod error;
mod ownership;
pub(super) mod wanted;

use serde_json::{Value, json};
use tracing::{debug, info};

use self::checks::Step;
pub(super) use self::error::ApplyError;
use self::error::{failing, lost_on_admission};
pub(super) use self::wanted::Ensured;
use self::wanted::{Existing, Expected, Wanted};
use crate::cache::cached::{CachedChild, Owner};
use crate::object::ObjectKey;
use crate::reconcile::error_class::{self, ErrorClass};
use crate::reconcile::reconciler::Reconciler;
use crate::repairs::Repairs;
use crate::state::{Attempt, ServerMutated, jittered_retry};
use quartet_applied::stamp::Stamp;
use quartet_applied::{fingerprint, merge};
use quartet_http::RequestError;
use quartet_workload::{Child, Resource, kept};

impl Reconciler {
    /// Applies the children in their order, and deletes optional children that are no longer desired.
    ///
    /// # Errors
    /// The first [`ApplyError`]; later children stay unchanged, except after a problem of one child only.
    pub(crate) async fn ensure(
        &self,
        resource: &Resource,
        children: &[Child],
    ) -> Result<Ensured, ApplyError> {
        let mut ensured = Ensured::default();
        let applied = self.apply_all(resource, children, &mut ensured).await;
        match (applied, ensured.problem.take()) {
            (Ok(()), None) => {
                self.states.unblock(resource);
                Ok(ensured)
            }
            (Ok(()), Some((problem, left))) => Err(ApplyError::Blocked(problem, left)),
            (Err(ApplyError::Pending { requeue_after, .. }), Some((problem, left))) => {
                Err(ApplyError::Blocked(problem, left.min(requeue_after)))
            }
            (Err(error), _) => Err(error),
        }
    }

    async fn apply_all(
        &self,
        resource: &Resource,
        children: &[Child],
        ensured: &mut Ensured,
    ) -> Result<(), ApplyError> {
        for child in children {
            // Read for each child: applying the one before may have adopted an object.
            let preserved = self.preserving(resource, child);
            let wanted = Wanted::new(resource, child, self.kind.brand.applied);
            let preserved = preserved.as_ref().map(|child| wanted.keeping(child));
            self.ensure_child(preserved.unwrap_or(wanted), ensured)
                .await?;
        }
        self.delete_unwanted(resource, children).await
    }

    /// The child with what is preserved of the existing Deployment: the selector of an older operator, and
    /// spread constraints of an earlier release until another field of the pods changes.
    fn preserving(&self, resource: &Resource, child: &Child) -> Option<Child> {
        let (namespace, uid) = (&resource.namespace, &resource.uid);
        let selector = self.children.preserved_selector(namespace, uid);
        let kept = selector.map(|selector| kept::keeping(child, &selector));
        let earlier =
            kept::with_earlier_spread(kept.as_ref().unwrap_or(child), self.kind.brand.kind_label);
        earlier
            .filter(|it| self.differs_in_replicas(resource, it))
            .or(kept)
    }

    /// Whether a cached Deployment is as desired but for the number of its pods.
    fn differs_in_replicas(&self, resource: &Resource, desired: &Child) -> bool {
        let key = ObjectKey::new(&resource.namespace, &desired.name);
        let live = self.children.cached(desired.kind, &key);
        live.is_some_and(|live| {
            let replicas = live.workload().map(|workload| workload.desired);
            let mut body = desired.body.clone();
            merge(&mut body, json!({"spec": {"replicas": replicas}}));
            let desired = fingerprint::of_desired(&body, self.kind.brand.applied).fields;
            live.fingerprint.is_some_and(|live| live.fields == desired)
        })
    }

    /// Whether the cache shows every child as expected.
    pub(crate) fn is_confirmed(&self, resource: &Resource, expected: &[Expected]) -> bool {
        expected.iter().all(|expected| {
            let (kind, key) = (expected.kind, &expected.key);
            let observed = self.children.fingerprint(kind, key, &resource.uid);
            self.is_as_expected(resource, expected, observed)
        })
    }

    /// Whether the resource has pods, and all of them are of its latest children and available.
    pub(super) fn is_rolled_out(&self, resource: &Resource) -> bool {
        let (namespace, uid) = (&resource.namespace, &resource.uid);
        self.children.is_rolled_out(namespace, uid)
    }

    /// A resource as the owner of its children.
    fn owner(&self, resource: &Resource) -> Owner {
        Owner {
            group: self.kind.group.into(),
            kind: self.kind.kind.into(),
            name: resource.name.as_str().into(),
            uid: resource.uid.as_str().into(),
            retained: false,
        }
    }

    async fn ensure_child(
        &self,
        wanted: Wanted<'_>,
        ensured: &mut Ensured,
    ) -> Result<(), ApplyError> {
        let Wanted {
            resource,
            child,
            desired,
            ..
        } = wanted;
        let ours = self.claim(wanted)?;
        let attempt = Attempt {
            kind: child.kind,
            name: child.name.as_str().into(),
            desired,
            generation: resource.generation,
            found: self.children.found(child.kind, &wanted.key()),
        };
        let blocked = self.states.blocked(resource, &attempt);
        let paced = match &ours {
            Some(ours) => {
                let blocked = blocked.as_ref();
                let step = self.check_existing(wanted, ours, blocked, ensured).await?;
                match step {
                    Step::Done => return Ok(()),
                    Step::Change { paced } => paced,
                }
            }
            None => match self.check_repairs(wanted, false).await? {
                Some((problem, wait)) => return Err(ApplyError::Blocked(problem, wait)),
                None => {
                    self.check_blocked(wanted, blocked.as_ref())?;
                    false
                }
            },
        };
        let outcome = match &ours {
            None => self.create(wanted).await,
            Some(ours) if ours.fingerprint.is_none() => self.resolve_ownership(wanted, paced).await,
            Some(ours) => {
                let existing = Existing {
                    uid: &ours.meta.uid,
                    resource_version: ours.meta.resource_version,
                    rollout: paced.then(|| ours.meta.generation + 1),
                };
                self.update(wanted, existing).await
            }
        };
        match outcome {
            Ok(applied) => {
                ensured.child(applied, self.recent_conflict(wanted));
                Ok(())
            }
            Err(error) => {
                if let Some((blocker, wait)) = error.blocker() {
                    self.states.block(resource, attempt, blocker, wait);
                }
                Err(error)
            }
        }
    }

    /// Applies a child that the cache does not show, without force. The API server may still have it. Returns
    /// what was applied.
    async fn create(&self, wanted: Wanted<'_>) -> Result<Expected, ApplyError> {
        self.check_owner(wanted.resource).await?;
        self.check_maker(wanted).await?;
        let error = match self.apply(wanted, None).await {
            Ok(lost) => return expected(wanted, lost),
            Err(error) => error,
        };
        match error.status().map(error_class::of_apply) {
            Some(ErrorClass::ResolveOwnership) => {
                debug!(%error, "resolving the owner of the child");
                self.resolve_ownership(wanted, false).await
            }
            class => Err(self.apply_error(class, error)),
        }
    }

    /// Applies a child of the resource, with force. Returns what was applied.
    async fn update(
        &self,
        wanted: Wanted<'_>,
        mut existing: Existing<'_>,
    ) -> Result<Expected, ApplyError> {
        loop {
            let error = match self.apply(wanted, Some(existing)).await {
                Ok(lost) => return expected(wanted, lost),
                Err(error) => error,
            };
            let class = error.status().map(error_class::of_apply);
            let absorbed = match &class {
                Some(ErrorClass::Duplicate { field, .. }) => {
                    self.absorb_list(wanted, field).await?
                }
                _ => None,
            };
            match absorbed {
                Some(version) => existing.resource_version = version,
                None => return Err(self.apply_error(class, error)),
            }
        }
    }

    /// Sends one apply. It is forced, with uid and version as preconditions, if the child is `existing`.
    /// Returns the field that admission took away, if the child cannot be watched without it.
    async fn apply(
        &self,
        wanted: Wanted<'_>,
        existing: Option<Existing<'_>>,
    ) -> Result<Option<&'static str>, RequestError> {
        let mut metadata = wanted.metadata();
        let rollout = existing.and_then(|it| it.rollout);
        let Resource {
            generation, spec, ..
        } = wanted.resource;
        Stamp::new(*generation, spec, wanted.desired, rollout).put_on(&mut metadata, wanted.stamp);
        if let Some(existing) = existing {
            let version = existing.resource_version.to_string();
            metadata.insert("uid".to_owned(), existing.uid.into());
            metadata.insert("resourceVersion".to_owned(), version.into());
        }
        let (at, manager, body) = (
            wanted.location(),
            self.kind.field_manager,
            wanted.body(metadata),
        );
        let force = existing.is_some();
        let (answer, is_created) = self.caller.apply(at, manager, force, &body).await?;
        // Without force, too: the child may have lost its label or its owner reference.
        if !is_created {
            self.repairs(wanted, Repairs::applied);
        }
        Ok(self.applied(wanted, answer))
    }

    /// The error of a rejected apply.
    fn apply_error(&self, class: Option<ErrorClass>, error: RequestError) -> ApplyError {
        match class {
            Some(ErrorClass::Blocked(problem) | ErrorClass::Duplicate { problem, .. }) => {
                ApplyError::Blocked(problem, jittered_retry())
            }
            Some(ErrorClass::NotFound(problem)) => failing(problem, jittered_retry()),
            Some(ErrorClass::NamespaceEnding) => {
                debug!(%error, "the namespace is being deleted");
                ApplyError::NamespaceEnding
            }
            Some(ErrorClass::ResolveOwnership | ErrorClass::Transient) | None => {
                ApplyError::Failed(error)
            }
        }
    }

    /// Stores the answer to an apply in the cache, and records whether it differs from the request: the
    /// API server rounds values, and admission plugins change fields. An answer without a field that the
    /// watches need is not stored, since no event would replace it; the field is returned.
    fn applied(&self, wanted: Wanted<'_>, answer: Value) -> Option<&'static str> {
        let Wanted {
            resource,
            child,
            desired,
            ..
        } = wanted;
        let answer = CachedChild::decode(self.kind.brand, child.kind, &answer).ok();
        let lost = answer
            .as_ref()
            .and_then(|answer| lost_field(answer, &self.owner(resource)));
        let answer = answer.filter(|_| lost.is_none());
        let answered = answer.as_ref().and_then(|answer| answer.fingerprint);
        if let Some(answer) = answer {
            self.children.put_decoded(child.kind, answer);
        }
        let rewritten = answered
            .filter(|answered| *answered != desired)
            .map(|answered| ServerMutated {
                kind: child.kind,
                name: child.name.as_str().into(),
                desired,
                answered,
            });
        if rewritten.is_some() || lost.is_some() {
            self.metrics.rewritten(&self.controller, child.kind.kind);
        }
        self.states.applied(resource, child, rewritten);
        info!(child = child.kind.kind, child_name = child.name, "applied");
        lost
    }
}

/// The field without which no watch shows the child, or not as a child of `owner`.
fn lost_field(answer: &CachedChild, owner: &Owner) -> Option<&'static str> {
    let is_owned = |found: &Owner| found.passes_to(owner);
    if !answer.meta.is_selected {
        return Some("metadata.labels[app.kubernetes.io/managed-by]");
    }
    if !answer.owner.as_ref().is_some_and(is_owned) {
        return Some("metadata.ownerReferences");
    }
    None
}

/// What is expected of an applied child.
fn expected(wanted: Wanted<'_>, lost: Option<&str>) -> Result<Expected, ApplyError> {
    match lost {
        None => Ok(wanted.expected()),
        Some(field) => Err(lost_on_admission(wanted, field)),
    }
}
