//! Event handlers: which resources a change enqueues. A change of a resource enqueues itself, a
//! change of a child its owner, and a child's name that becomes free the resources of that name.
//! Used by `controllers` and `reconcile`.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::MappedMutexGuard;

use crate::cache::cached::{CachedChild, CachedPod, CachedResource, Owner, of_index};
use crate::cache::store::{Change, Store};
use crate::children::Children;
use crate::metrics::Metrics;
use crate::object::ObjectKey;
use crate::queue::{Priority, Queue};
use crate::state::{ReconcileState, ReconcileStates};
use quartet_versions::Kind;

/// Delay before a step of a rollout enqueues the owner. Steps come in bursts, and only the last one
/// counts. The end of a rollout, and a pod that fails, are not delayed. See decision 0005.
pub(super) const COALESCE: Duration = Duration::from_secs(4);

/// The queue and cache of one kind.
#[derive(Clone)]
pub(super) struct QueueHandle {
    pub(super) kind: &'static Kind,
    pub(super) queue: Arc<Queue>,
    pub(super) resources: Arc<Store<CachedResource>>,
    pub(super) states: Arc<ReconcileStates>,
}

/// Enqueues the resources that a change concerns.
pub(super) struct EventHandlers {
    pub(super) controllers: Vec<QueueHandle>,
    pub(super) children: Arc<Children>,
}

impl QueueHandle {
    pub(super) fn new(kind: &'static Kind, metrics: &Metrics) -> Self {
        QueueHandle {
            kind,
            queue: Arc::new(Queue::new(&kind.controller_name(), metrics)),
            resources: Arc::default(),
            states: Arc::default(),
        }
    }

    /// Enqueues a resource that changed. Resources of the first list have low priority, so that a
    /// change does not wait behind all of them.
    pub(super) fn resource_changed(&self, change: &Change<CachedResource>, is_first_list: bool) {
        match (&change.before, &change.after) {
            (Some(before), Some(after)) if before.is_semantically_equal(after) => {}
            (None, Some(after)) if is_first_list => {
                self.queue.add(after.meta.key.clone(), Priority::Low);
            }
            (_, Some(after)) => self.queue.add(after.meta.key.clone(), Priority::Normal),
            (Some(before), None) => {
                self.states.forget(&before.meta.key, &before.meta.uid);
                self.queue.remove(&before.meta.key);
            }
            (None, None) => {}
        }
    }
}

impl EventHandlers {
    /// Enqueues the owner of a child, or its successor with the same name, which waits for the
    /// child to be deleted.
    fn enqueue_owner(&self, namespace: &str, owner: &Owner, delay: Duration) {
        if let Some((controller, key)) = self.queue_of(namespace, owner)
            && controller.resources.get(&key).is_some()
        {
            controller.queue.add_later(key, Priority::Normal, delay);
        }
    }

    /// The state of the reconciles of an owner that exists; nothing would remove that of another one.
    fn state_of(
        &self,
        child: &CachedChild,
        owner: &Owner,
    ) -> Option<MappedMutexGuard<'_, ReconcileState>> {
        let (controller, key) = self.queue_of(child.meta.key.namespace(), owner)?;
        let known = controller.resources.get(&key)?;
        let is_it = known.meta.uid == owner.uid;
        is_it.then(|| controller.states.of(&key, &owner.uid))
    }

    /// Whether a write to this child was refused, so that a change of what others own of it may let it through.
    /// Such a change gives a child with pods another generation.
    fn is_refused(&self, child: &CachedChild) -> bool {
        let owner = child.owner.as_ref().filter(|_| child.workload().is_none());
        let state = owner.and_then(|owner| self.state_of(child, owner));
        state.is_some_and(|state| state.blocked.is_some())
    }

    /// The queue and the key of an owner.
    fn queue_of(&self, namespace: &str, owner: &Owner) -> Option<(&QueueHandle, ObjectKey)> {
        let mut controllers = self.controllers.iter();
        let controller = controllers.find(|controller| {
            *owner.kind == *controller.kind.kind && *owner.group == *controller.kind.group
        })?;
        Some((controller, ObjectKey::new(namespace, &owner.name)))
    }

    /// Enqueues the resources with the name of this child: it became free, or its owner changed.
    fn enqueue_by_name(&self, child: &ObjectKey) {
        for controller in &self.controllers {
            if controller.resources.get(child).is_some() {
                controller.queue.add(child.clone(), Priority::Normal);
            }
        }
    }

    pub(super) fn child_changed(&self, change: &Change<CachedChild>) {
        let (before, after) = (change.before.as_deref(), change.after.as_deref());
        let both = before.zip(after);
        if both.is_some_and(|(old, new)| old.is_semantically_equal(new) && !self.is_refused(new)) {
            return;
        }
        let is_free = |before: &&CachedChild| after.is_none_or(|after| after.owner != before.owner);
        let freed = before.filter(is_free);
        // Before the owner is enqueued.
        if let Some(child) = freed
            && let Some(owner) = &child.owner
            && let Some(mut state) = self.state_of(child, owner)
        {
            state.has_lost_child = true;
        }
        let mut delay = Duration::ZERO;
        if let Some((old, new)) = both
            && old.is_spec_equal(new)
            && old.is_rolling_out()
            && new.is_rolling_out()
        {
            if !new.is_current() {
                // What it reports is of an earlier spec, and nobody acts on it.
                return;
            }
            delay = COALESCE;
        }
        for child in [before, after].into_iter().flatten() {
            if let Some(owner) = &child.owner {
                self.enqueue_owner(child.meta.key.namespace(), owner, delay);
            }
        }
        if let Some(before) = freed {
            self.enqueue_by_name(&before.meta.key);
        }
    }

    pub(super) fn pod_changed(&self, change: &Change<CachedPod>) {
        let (before, after) = (change.before.as_deref(), change.after.as_deref());
        let both = before.zip(after);
        if both.is_some_and(|(old, new)| old.is_semantically_equal(new)) {
            return;
        }
        let failure = |pod: Option<&CachedPod>| pod.and_then(|pod| pod.failure.clone());
        let is_step = failure(before) == failure(after);
        for pod in [before, after].into_iter().flatten() {
            let workload = pod.workload.as_deref().and_then(of_index);
            let workload =
                workload.and_then(|(kind, key)| self.children.workload_named(kind, &key));
            if let Some(workload) = workload
                && let Some(owner) = &workload.owner
            {
                let delay = if is_step && workload.is_rolling_out() {
                    COALESCE
                } else {
                    Duration::ZERO
                };
                self.enqueue_owner(pod.meta.key.namespace(), owner, delay);
            }
        }
    }
}
