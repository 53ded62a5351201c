//! Paces rollouts that no user requested. A new manager with other defaults changes every Deployment of
//! a kind; only a limited number roll out at the same time, in the order of their names. A change of a
//! resource's own spec never waits.
//!
//! The caches of children show a new leader which of them roll out: their stamp has the generation that
//! a paced rollout made. Nothing else is stored.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tracing::info;

use crate::controller::cache::cached::CachedResource;
use crate::controller::cache::store::Store;
use crate::controller::children::Children;
use crate::controller::event_handlers::QueueHandle;
use crate::controller::metrics::Metrics;
use crate::controller::object::ObjectKey;
use crate::controller::queue::{Priority, Queue};
use crate::controller::state::jittered;

/// Resync interval of a waiting resource, which is usually enqueued earlier.
const RESYNC: Duration = Duration::from_secs(60);

/// [`RESYNC`] ± 20 %.
pub(in crate::controller) fn jittered_resync() -> Duration {
    jittered(RESYNC)
}

/// The paced rollouts of one kind.
pub(crate) struct Pacer {
    /// Name of the controller, for the log and the metric.
    controller: String,
    /// Maximum number of concurrent rollouts; 0 means no limit.
    limit: usize,
    queue: Arc<Queue<ObjectKey>>,
    /// The resources of the kind that this manager reconciles.
    resources: Arc<Store<CachedResource>>,
    children: Arc<Children>,
    metrics: Arc<Metrics>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Resources with a rollout in progress; `None` before the first read of the cache.
    rolling: Option<BTreeSet<ObjectKey>>,
    /// Those of `rolling` whose last apply may have been executed, which the cache may not show yet.
    doubted: BTreeSet<ObjectKey>,
    /// Resources that wait for their rollout.
    waiting: BTreeSet<ObjectKey>,
}

impl State {
    /// The number of rollouts in progress.
    fn rolling(&self) -> usize {
        self.rolling.as_ref().map_or(0, BTreeSet::len)
    }
}

impl Pacer {
    /// A pacer of the Deployments of the resources of `handle`.
    pub(crate) fn new(
        handle: &QueueHandle,
        limit: usize,
        children: Arc<Children>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Pacer {
            controller: handle.kind.controller_name(),
            limit,
            queue: Arc::clone(&handle.queue),
            resources: Arc::clone(&handle.resources),
            children,
            metrics,
            state: Mutex::default(),
        }
    }

    /// Whether the resource `key` holds a slot.
    pub(in crate::controller) fn is_rolling(&self, key: &ObjectKey) -> bool {
        if self.limit == 0 {
            return false;
        }
        self.seeded(&mut self.state.lock()).contains(key)
    }

    /// The resources that hold a slot.
    fn seeded<'a>(&self, state: &'a mut State) -> &'a mut BTreeSet<ObjectKey> {
        if state.rolling.is_none() {
            state.rolling = Some(self.found_rolling());
            self.report(state);
        }
        state.rolling.get_or_insert_default()
    }

    /// Whether a rollout of the resource `key` may have begun, whatever the cache shows during this reconcile.
    pub(in crate::controller) fn doubt(&self, key: &ObjectKey, may_have_begun: bool) {
        let doubted = &mut self.state.lock().doubted;
        match may_have_begun {
            true => doubted.insert(key.clone()),
            false => doubted.remove(key),
        };
    }

    /// Whether the Deployment of the resource `key` may be changed now. If so, it holds a slot until
    /// [`Pacer::ended`].
    pub(in crate::controller) fn may_begin(&self, key: &ObjectKey) -> bool {
        if self.limit == 0 {
            return true;
        }
        let mut state = self.state.lock();
        let rolling = self.seeded(&mut state);
        let free = self.limit.saturating_sub(rolling.len());
        if rolling.contains(key) {
            // An earlier leader may have had a higher limit.
            return rolling.iter().take(self.limit).any(|it| it == key);
        }
        let before = state.waiting.range(..key).take(free).count();
        let may = before < free;
        if may {
            state.waiting.remove(key);
            state.rolling.get_or_insert_default().insert(key.clone());
        } else {
            state.waiting.insert(key.clone());
        }
        self.report(&state);
        if may {
            let waiting = state.waiting.len();
            info!(waiting, "rolling out a changed default of the operator");
        }
        may
    }

    /// The resource `key` neither rolls out nor waits any more: its rollout is complete or has not begun, or
    /// it was deleted. Enqueues the next waiting resources.
    pub(in crate::controller) fn ended(&self, key: &ObjectKey) {
        let mut state = self.state.lock();
        let was_rolling = state
            .rolling
            .as_mut()
            .is_some_and(|rolling| rolling.remove(key));
        state.doubted.remove(key);
        let was_waiting = state.waiting.remove(key);
        if !was_rolling && !was_waiting {
            return;
        }
        self.wake_next(&mut state);
    }

    /// A reconcile of the resource `key` starts: it is determined again whether it waits.
    pub(in crate::controller) fn reconcile_begins(&self, key: &ObjectKey) -> bool {
        let mut state = self.state.lock();
        state.doubted.remove(key);
        state.waiting.remove(key)
    }

    /// A reconcile of the resource `key` ended, which `waited` when it started. Frees its slot if the
    /// rollout is complete, or ends its wait if it needs no rollout any more (it is paused, or its own
    /// spec changed).
    pub(in crate::controller) fn reconcile_ended(
        &self,
        key: &ObjectKey,
        waited: bool,
        has_ended: bool,
    ) {
        let mut state = self.state.lock();
        let is_rolling = state.rolling.as_ref().is_some_and(|it| it.contains(key));
        if is_rolling && has_ended && !state.doubted.contains(key) {
            drop(state);
            self.ended(key);
            let state = self.state.lock();
            if state.rolling() == 0 && state.waiting.is_empty() {
                info!("no rollout of a changed default is in progress or waits");
            }
        } else if waited && !is_rolling && !state.waiting.contains(key) {
            self.wake_next(&mut state);
        }
    }

    /// The resources with a paced rollout that an earlier leader started. Not those that this manager does
    /// not reconcile: nothing would free their slots.
    fn found_rolling(&self) -> BTreeSet<ObjectKey> {
        let stores = self.children.stores().iter();
        stores
            .flat_map(|(_, store)| store.snapshot())
            .filter(|child| {
                let rollout = child.stamp.and_then(|stamp| stamp.rollout);
                rollout == Some(child.meta.generation)
                    && child.workload().is_some_and(|it| !it.is_updated())
            })
            .filter_map(|child| {
                let owner = child.owner.as_ref()?;
                let key = ObjectKey::new(child.meta.key.namespace(), &owner.name);
                let known = self.resources.get(&key)?;
                (known.meta.uid == owner.uid).then_some(key)
            })
            .collect()
    }

    fn wake_next(&self, state: &mut State) {
        let free = self.limit.saturating_sub(state.rolling());
        for next in state.waiting.iter().take(free) {
            self.queue.add(next.clone(), Priority::Low);
        }
        self.report(state);
    }

    fn report(&self, state: &State) {
        self.metrics
            .paced(&self.controller, state.rolling(), state.waiting.len());
    }
}
