//! One reconcile of one resource, in four phases, each a function in a file of its name: [`read()`], [`desire()`],
//! [`apply()`], [`report()`]. Level-triggered: independent of the event that enqueued it. Kinds differ only in their
//! [operator](quartet_workload::Operator), a pure function.
//! Used by `controllers`.

pub(crate) mod apply;
mod desire;
pub(crate) mod error_class;
mod finalizers;
mod first_revision;
mod outcome;
pub(crate) mod pacing;
mod read;
mod report;
pub(crate) mod worker;

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{MappedMutexGuard, Mutex};
use tokio::time::Instant;

use crate::cache::cached::CachedResource;
use crate::cache::store::Store;
use crate::children::Children;
use crate::clock::Clock;
use crate::event::Recorder;
use crate::event_handlers::QueueHandle;
use crate::metrics::Metrics;
use crate::object::ObjectKey;
use crate::queue::Queue;
use crate::state::{ReconcileState, ReconcileStates, key_of, time_until};
use apply::apply;
pub(crate) use apply::error::Blocker;
use desire::desire;
pub(crate) use first_revision::FirstRevision;
pub(crate) use outcome::{Action, Failure};
use quartet_http::{Caller, Location, RequestError};
use quartet_versions::Kind;
use quartet_workload::{Legacy, Operator, Resource, Settings};
use read::{Seen, read};
use report::report;

/// How long to wait for an outdated cache if no event arrives.
const STALE_RETRY: Duration = Duration::from_secs(1);

/// What the reconcilers of all kinds share.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) settings: Settings,
    /// Maximum number of concurrent rollouts of changed defaults per kind; 0 means no limit.
    pub(crate) max_concurrent_rollouts: usize,
    pub(crate) legacy: Legacy,
    pub(crate) caller: Caller,
    /// Read before the first child is created, and before the first `Ready`.
    pub(crate) first_revision: Arc<FirstRevision>,
    pub(crate) recorder: Recorder,
    pub(crate) clock: Clock,
    pub(crate) children: Arc<Children>,
    pub(crate) metrics: Arc<Metrics>,
}

/// Reconciles the resources of one kind.
pub(crate) struct Reconciler {
    operator: &'static dyn Operator,
    kind: &'static Kind,
    queue: Arc<Queue>,
    resources: Arc<Store<CachedResource>>,
    states: Arc<ReconcileStates>,
    /// Resources whose reconcile begins a paced rollout, which the caches do not show yet.
    pub(crate) begun: Mutex<HashSet<ObjectKey>>,
    context: Context,
}

/// Ends what a reconcile has begun in [`Reconciler::begun`], also after a panic or its time limit.
struct Begun<'a>(&'a Mutex<HashSet<ObjectKey>>, &'a ObjectKey);

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.0.lock().remove(self.1);
    }
}

impl Reconciler {
    /// A reconciler of the resources of `handle`. Each resource is written in the version in which
    /// it was read, and the owner references of its children use that version.
    pub(crate) fn new(
        operator: &'static dyn Operator,
        context: Context,
        handle: &QueueHandle,
    ) -> Self {
        Reconciler {
            operator,
            kind: operator.kind(),
            queue: Arc::clone(&handle.queue),
            resources: Arc::clone(&handle.resources),
            states: Arc::clone(&handle.states),
            begun: Mutex::default(),
            context,
        }
    }

    /// The state of a resource between two reconciles.
    fn state(&self, resource: &Resource) -> MappedMutexGuard<'_, ReconcileState> {
        self.states.of(&key_of(resource), &resource.uid)
    }

    fn location<'a>(&self, resource: &'a Resource) -> Location<'a> {
        Location {
            api_version: &resource.api_version,
            plural: self.kind.plural,
            namespace: &resource.namespace,
            name: &resource.name,
        }
    }

    /// Reconciles one resource in four phases: reads it from the caches, computes the children that its operator
    /// desires, applies them, and reports the observed state in its status.
    ///
    /// # Errors
    /// An error that is retried with back-off.
    pub(crate) async fn reconcile(&self, key: &ObjectKey) -> Result<Action, Failure> {
        let Some(seen) = read(self, key) else {
            return Ok(Action::AwaitChange);
        };
        let uid = &seen.cached.meta.uid;
        let held_until = self.states.of(key, uid).held_until;
        if let Some(left) = held_until.and_then(time_until) {
            return Ok(Action::Held(left));
        }
        let begun = Begun(&self.begun, key);
        let next = self.reconcile_as_seen(&seen).await;
        drop(begun);
        if let Some(asked) = next.as_ref().err().and_then(|it| it.error.retry_after()) {
            self.states.of(key, uid).held_until = Instant::now().checked_add(asked);
        }
        let now = self.resources.get(key);
        if now.is_none_or(|now| now.meta.uid != *uid) {
            // A new resource of that name has its own event.
            self.states.forget(key, uid);
            return next.map(|_| Action::AwaitChange);
        }
        next
    }

    async fn reconcile_as_seen(&self, seen: &Seen) -> Result<Action, Failure> {
        // A policy may reject it. That prevents neither the children nor the status.
        let stripped = self.strip_legacy_finalizers(seen).await;
        let has_legacy = self.legacy_finalizer(&seen.cached).is_some();
        let stops = |error: &RequestError| error.is_fenced() || error.retry_after().is_some();
        if seen.cached.meta.deleting && has_legacy || stripped.as_ref().is_err_and(stops) {
            // The resource may be gone now; otherwise it has a new event.
            return stripped.map(|_| Action::AwaitChange).map_err(Failure::from);
        }
        let desired = desire(self.operator, &self.context.settings, seen);
        match apply(self, seen, &desired).await? {
            ControlFlow::Break(next) => Ok(next),
            ControlFlow::Continue(outcome) => report(self, seen, &desired, outcome, stripped).await,
        }
    }
}

#[cfg(test)]
mod tests;
