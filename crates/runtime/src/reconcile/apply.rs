//! The third phase: applies the children of one resource, and interprets the answers of the API server. Nothing is sent
//! while the children are as desired. A child is read only if the cache does not show enough, for example
//! after a rejection, if this field manager has not applied it, or if another writer keeps changing it.

mod checks;
mod deletion;
pub(super) mod error;
mod ownership;
pub(super) mod wanted;

use std::ops::ControlFlow;

use serde_json::{Value, json};
use tracing::{debug, info};

pub(super) use self::error::ApplyError;
use self::error::{Blocker, PATIENCE_WITH_WRITES};
pub(super) use self::wanted::Ensured;
use self::wanted::{Existing, Expected, Wanted};
use crate::cache::cached::Owner;
use crate::reconcile::error_class::{self, ErrorClass};
use crate::reconcile::outcome::{Action, Outcome};
use crate::reconcile::read::Seen;
use crate::reconcile::{Reconciler, STALE_RETRY};
use crate::repairs::Repairs;
use crate::state::{Repaired, jittered_retry};
use quartet_applied::{field_conflict, fingerprint, merge};
use quartet_http::RequestError;
use quartet_versions::Brand;
use quartet_workload::names::MANAGED_BY_LABEL;
use quartet_workload::{Child, Desired, Problem, Reason, Resource, kept, status};

/// Applies the desired children, unless the resource is paused or being deleted, or its spec is refused.
/// [`ControlFlow::Break`]: what was seen is outdated or ends, and nothing is reported.
///
/// # Errors
/// That of a read before the first `Ready`.
pub(super) async fn apply(
    reconciler: &Reconciler,
    seen: &Seen,
    desired: &Desired,
) -> Result<ControlFlow<Action, Outcome>, RequestError> {
    let resource = &seen.resource;
    let children = match desired {
        // The garbage collector deletes the children. A child that is created now would outlive a
        // foreground deletion of its owner, or delay it.
        Ok(children) if resource.paused.is_none() && !seen.cached.meta.deleting => children,
        refused => {
            // Nothing is applied, so an earlier failure does not last.
            reconciler.state(resource).unconfirmed(None);
            let problem = refused.as_ref().err().filter(|_| resource.paused.is_none());
            return Ok(ControlFlow::Continue(Outcome {
                problem: problem.cloned(),
                ..Outcome::default()
            }));
        }
    };
    let ensured = reconciler.ensure(resource, children).await;
    if let Ok(ensured) = &ensured
        && reconciler.becomes_ready(resource, children)
        && !reconciler.is_current(ensured).await?
    {
        return Ok(ControlFlow::Break(Action::RequeueAfter(STALE_RETRY)));
    }
    Ok(reconciler.outcome(resource, ensured))
}

impl Reconciler {
    /// Applies the children in their order, and deletes optional children that are no longer desired. A child
    /// that is blocked also blocks the later ones.
    ///
    /// # Errors
    /// An [`ApplyError`] other than a blocker; later children stay unchanged.
    async fn ensure(&self, resource: &Resource, children: &[Child]) -> Result<Ensured, ApplyError> {
        let mut ensured = Ensured::default();
        match self.apply_all(resource, children, &mut ensured).await {
            Ok(()) => self.state(resource).blocked = None,
            Err(ApplyError::Blocked(blocker)) => ensured.blocked(blocker),
            Err(error) => return Err(error),
        }
        Ok(ensured)
    }

    async fn apply_all(
        &self,
        resource: &Resource,
        children: &[Child],
        ensured: &mut Ensured,
    ) -> Result<(), ApplyError> {
        for child in children {
            let wanted = Wanted::new(resource, child, self.kind.brand.applied);
            // Read for each child: applying the one before may have adopted an object.
            let preserved = self.preserving(wanted);
            let preserved = preserved.as_ref().map(|child| wanted.keeping(child));
            self.ensure_child(preserved.unwrap_or(wanted), ensured)
                .await?;
        }
        self.delete_unwanted(resource, children).await
    }

    /// The child with what is preserved of the existing Deployment: the selector of an older operator, and
    /// spread constraints of an earlier release until another field of the pods changes.
    fn preserving(&self, wanted: Wanted<'_>) -> Option<Child> {
        let (resource, child) = (wanted.resource, wanted.child);
        let (namespace, uid) = (&resource.namespace, &resource.uid);
        let live = self.context.children.cached(child.kind, &wanted.key());
        let fields = live.as_ref().and_then(|live| live.fingerprint);
        let fields = fields.map(|fingerprint| fingerprint.fields);
        let selector = self.context.children.preserved_selector(namespace, uid);
        if selector.is_none() && fields.is_none_or(|fields| fields == wanted.desired.fields) {
            return None;
        }
        let kept = selector.map(|selector| kept::keeping(child, &selector));
        let replicas = live.as_ref().and_then(|live| live.workload());
        let replicas = replicas.map(|workload| workload.desired);
        let earlier =
            kept::with_earlier_spread(kept.as_ref().unwrap_or(child), self.kind.brand.kind_label);
        let is_live = |earlier: &Child| {
            let mut body = earlier.body.clone();
            merge(&mut body, json!({"spec": {"replicas": replicas}}));
            let is =
                |body: &Value| Some(fingerprint::of_desired(body, wanted.stamp).fields) == fields;
            // 0.1.0 left this field to the API server, whose default is the same.
            is(&body) || {
                let container = body.pointer_mut("/spec/template/spec/containers/0");
                let container = container.and_then(Value::as_object_mut);
                container.is_some_and(|it| it.remove("imagePullPolicy").is_some()) && is(&body)
            }
        };
        earlier.filter(is_live).or(kept)
    }

    /// Whether the cache shows every child as expected.
    pub(crate) fn is_confirmed(&self, resource: &Resource, expected: &[Expected]) -> bool {
        expected.iter().all(|expected| {
            let (kind, key) = (expected.kind, &expected.key);
            let observed = self.context.children.fingerprint(kind, key, &resource.uid);
            self.is_as_expected(resource, expected, observed)
        })
    }

    /// Whether the resource has pods, and all of them are of its latest children and available.
    pub(super) fn is_rolled_out(&self, resource: &Resource) -> bool {
        let (namespace, uid) = (&resource.namespace, &resource.uid);
        self.context.children.is_rolled_out(namespace, uid)
    }

    /// Whether the caches show a complete rollout that its status does not report yet.
    fn becomes_ready(&self, resource: &Resource, children: &[Child]) -> bool {
        let is_told = status::condition(&resource.status, status::READY).is_some_and(|ready| {
            ready.status == "True" && ready.observed_generation == Some(resource.generation)
        });
        let is_rolled_out =
            || self.is_rolled_out(resource) || children.iter().all(|child| !child.kind.has_pods);
        !is_told && is_rolled_out()
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
        let (resource, child) = (wanted.resource, wanted.child);
        let ours = self.claim(wanted)?;
        if let Some(ours) = &ours
            && self.is_as_expected(resource, &wanted.expected(), ours.fingerprint)
        {
            ensured.expected.push(wanted.expected());
            self.note_recent_conflict(wanted, ensured);
            return Ok(());
        }
        // A write to an earlier object of this name does not apply to this one.
        let stamp = ours
            .as_ref()
            .filter(|ours| ours.is_owned_by(&resource.uid))
            .and_then(|ours| ours.stamp);
        if let Some(stamp) = stamp {
            self.check_generation(resource, stamp).await?;
        }
        if let Some(conflict) = self.check_repairs(wanted, ours.is_some()).await? {
            ensured.blocked(conflict);
            return Ok(());
        }
        let found = self.context.children.cached(child.kind, &wanted.key());
        let attempt = wanted.attempt(found.as_deref());
        // Before the pace: it would count as a rollout.
        self.check_blocked(resource, attempt)?;
        let outcome = match &ours {
            None if found.is_none() => self.create(wanted).await,
            None => match self.check_owner(resource).await {
                Ok(()) => self.resolve_ownership(wanted, false).await,
                Err(error) => Err(error),
            },
            Some(ours) => {
                let Some(paced) = self.pace(wanted, ours, stamp, ensured) else {
                    return Ok(());
                };
                let existing = Existing {
                    uid: &ours.meta.uid,
                    resource_version: ours.meta.resource_version,
                    rollout: paced.then(|| ours.meta.generation + 1),
                };
                match ours.fingerprint {
                    None => self.resolve_ownership(wanted, paced).await,
                    Some(_) => self.update(wanted, existing).await,
                }
            }
        };
        match outcome {
            Ok(applied) => {
                ensured.expected.push(applied);
                self.note_recent_conflict(wanted, ensured);
                Ok(())
            }
            Err(ApplyError::Blocked(blocker)) => {
                self.state(resource).block(attempt, &blocker);
                Err(blocker.into())
            }
            Err(error) => Err(error),
        }
    }

    /// Applies a child that the cache does not show, without force. The API server may still have it. Returns
    /// what was applied.
    async fn create(&self, wanted: Wanted<'_>) -> Result<Expected, ApplyError> {
        self.check_owner(wanted.resource).await?;
        let error = match self.apply(wanted, None).await {
            Ok(lost) => return expected(wanted, lost),
            Err(error) => error,
        };
        match error.status().map(error_class::of_apply) {
            Some(ErrorClass::ResolveOwnership) => {
                debug!(%error, "resolving the owner of the child");
                self.resolve_ownership(wanted, false).await
            }
            class => Err(apply_error(class, error)),
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
                Some(ErrorClass::Mixed { path, .. }) => self.absorb(wanted, path).await?,
                _ => None,
            };
            match absorbed {
                Some(version) => existing.resource_version = version,
                None => return Err(apply_error(class, error)),
            }
        }
    }

    /// Sends one apply. It is forced, with uid and version as preconditions, if the child is `existing`. Stores
    /// the answer in the cache, and records whether it differs from the request: the API server rounds values,
    /// and admission plugins change fields. An answer without a field that the watches need is not stored,
    /// since no event would replace it; the field is returned.
    async fn apply(
        &self,
        wanted: Wanted<'_>,
        existing: Option<Existing<'_>>,
    ) -> Result<Option<&'static str>, RequestError> {
        let (resource, child, desired) = (wanted.resource, wanted.child, wanted.desired);
        let (at, manager) = (wanted.location(), self.kind.field_manager);
        let (body, children) = (wanted.body(existing), &self.context.children);
        let removals = children.removals(child.kind);
        let force = existing.is_some();
        let (answer, is_created) = self.context.caller.apply(at, manager, force, &body).await?;
        // Without force, too: the child may have lost its label or its owner reference.
        if !is_created {
            self.repairs(wanted, Repairs::applied);
        }
        let lost = lost_field(self.kind.brand, &answer, &self.owner(resource));
        if lost.is_some() {
            return Ok(lost);
        }
        let answered = children.put_written(child.kind, &answer, removals);
        let what = Repaired::Child(child.kind, child.name.as_str().into());
        let mut state = self.state(resource);
        match answered.filter(|answered| *answered != desired) {
            Some(answered) => {
                let fields = field_conflict::changed(&child.body, &answer);
                state.rewritten.insert(what, ((desired, answered), fields));
            }
            None => _ = state.rewritten.remove(&what),
        }
        drop(state);
        info!(child = child.kind.kind, child_name = child.name, "applied");
        Ok(None)
    }
}

/// The field without which no watch shows the child, or not as a child of `owner`.
fn lost_field(brand: &Brand, answer: &Value, owner: &Owner) -> Option<&'static str> {
    let labels = answer.pointer("/metadata/labels");
    let label = labels.and_then(|labels| labels.get(MANAGED_BY_LABEL));
    if label.and_then(Value::as_str) != Some(brand.name) {
        return Some("metadata.labels[app.kubernetes.io/managed-by]");
    }
    let is_owned = Owner::of(brand, answer).is_some_and(|found| found.passes_to(owner));
    (!is_owned).then_some("metadata.ownerReferences")
}

/// What is expected of an applied child.
///
/// # Errors
/// A webhook or policy has changed this field of it.
pub(super) fn expected(wanted: Wanted<'_>, lost: Option<&str>) -> Result<Expected, ApplyError> {
    let Some(field) = lost else {
        return Ok(wanted.expected());
    };
    let (kind, name) = (wanted.child.kind.kind, &wanted.child.name);
    let message = format!(
        "{kind} {name}: a mutating admission webhook or policy changes {field}, without which this \
         operator does not see the {kind}; make it leave that field"
    );
    Err(Blocker::external(Problem::new(Reason::FieldConflict, message)).into())
}

/// The error of a rejected apply.
fn apply_error(class: Option<ErrorClass>, error: RequestError) -> ApplyError {
    match class {
        Some(ErrorClass::Blocked(problem) | ErrorClass::Mixed { problem, .. }) => {
            Blocker::external(problem).into()
        }
        // Possibly not known yet.
        Some(ErrorClass::NotFound(problem)) => ApplyError::Blocked(Blocker {
            problem,
            patience: PATIENCE_WITH_WRITES,
            retry: jittered_retry(),
        }),
        Some(ErrorClass::NamespaceEnding) => {
            debug!(%error, "the namespace is being deleted");
            ApplyError::NamespaceEnding
        }
        Some(ErrorClass::ResolveOwnership | ErrorClass::Transient) | None => {
            ApplyError::Failed(error)
        }
    }
}
