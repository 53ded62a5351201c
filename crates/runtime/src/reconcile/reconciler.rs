//! What a reconciler consists of. Its methods are in the other files of `reconcile`.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{MappedMutexGuard, Mutex};

use super::first_revision::FirstRevision;
use crate::cache::cached::CachedResource;
use crate::cache::store::Store;
use crate::children::Children;
use crate::clock::Clock;
use crate::event::Recorder;
use crate::event_handlers::QueueHandle;
use crate::metrics::Metrics;
use crate::object::ObjectKey;
use crate::state::{ReconcileState, ReconcileStates, key_of};
use quartet_http::Caller;
use quartet_http::Location;
use quartet_versions::{Kind, Version};
use quartet_workload::{Legacy, Operator, Resource, Settings};

/// How long to wait for an outdated cache if no event arrives.
pub(super) const STALE_RETRY: Duration = Duration::from_secs(1);

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
    pub(super) operator: &'static dyn Operator,
    pub(super) kind: &'static Kind,
    pub(super) controller: String,
    pub(super) resources: Arc<Store<CachedResource>>,
    pub(super) states: Arc<ReconcileStates>,
    /// Resources whose reconcile begins a paced rollout, which the caches do not show yet.
    pub(crate) begun: Mutex<HashSet<ObjectKey>>,
    pub(super) context: Context,
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
            controller: operator.kind().controller_name(),
            resources: Arc::clone(&handle.resources),
            states: Arc::clone(&handle.states),
            begun: Mutex::default(),
            context,
        }
    }

    /// The state of a resource between two reconciles.
    pub(super) fn state(&self, resource: &Resource) -> MappedMutexGuard<'_, ReconcileState> {
        self.states.of(&key_of(resource), &resource.uid)
    }

    /// The version in which the resource was read. Only versions of this operator are watched.
    pub(super) fn version_of(&self, cached: &CachedResource) -> &'static Version {
        self.kind
            .version(cached.version)
            .unwrap_or(&self.kind.spoke)
    }

    pub(super) fn location<'a>(
        &'a self,
        cached: &'a CachedResource,
        api_version: &'a str,
    ) -> Location<'a> {
        Location {
            api_version,
            plural: self.kind.plural,
            namespace: cached.meta.key.namespace(),
            name: cached.meta.key.name(),
        }
    }
}
