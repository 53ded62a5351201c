//! Paces rollouts that no user requested. A new manager with other defaults changes every Deployment of
//! a kind; only a limited number roll out at the same time. A change of a resource's own spec never waits.
//!
//! The caches of children show which of them roll out: their stamp has the generation that a paced
//! rollout made. Nothing else is stored, so every leader counts the same rollouts.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use tracing::info;

use crate::cache::cached::{CachedChild, CachedResource};
use crate::cache::store::Store;
use crate::children::Children;
use crate::metrics::{Metrics, gauge_value};
use crate::object::ObjectKey;
use crate::state::jittered;
use quartet_workload::ObservedWorkload;

/// How long a waiting resource waits until it asks again; ± 20 %.
const WAIT: Duration = Duration::from_secs(50);

/// The delay of the next attempt of a waiting resource: at most a minute.
pub(crate) fn jittered_wait() -> Duration {
    jittered(WAIT)
}

/// Whether the child is in a paced rollout: until its pods are available. A child of a later generation was
/// changed by somebody else since, and is not.
pub(crate) fn is_rolling(child: &CachedChild) -> bool {
    let rollout = child.stamp.and_then(|stamp| stamp.rollout);
    let has_ended = child
        .workload()
        .is_none_or(ObservedWorkload::has_ended_rollout);
    rollout == Some(child.meta.generation) && !has_ended
}

/// The paced rollouts of one kind.
pub(crate) struct Pacer {
    /// Maximum number of concurrent rollouts; 0 means no limit.
    limit: usize,
    /// The resources of the kind that this manager reconciles.
    resources: Arc<Store<CachedResource>>,
    children: Arc<Children>,
    /// The numbers of rollouts that run and that wait.
    gauges: [Gauge; 2],
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Resources with a paced rollout: read from the caches once, then updated by each reconcile.
    rolling: Option<HashSet<ObjectKey>>,
    /// Resources whose last reconcile was told to wait.
    waiting: HashSet<ObjectKey>,
}

impl Pacer {
    /// A pacer of the children of `resources`.
    pub(crate) fn new(
        controller: &str,
        limit: usize,
        resources: Arc<Store<CachedResource>>,
        children: Arc<Children>,
        metrics: &Metrics,
    ) -> Self {
        Pacer {
            limit,
            resources,
            children,
            gauges: ["rolling", "waiting"].map(|state| metrics.paced(controller, state)),
            state: Mutex::default(),
        }
    }

    /// Whether the Deployment of the resource `key` may be changed now. If so, it counts as a rollout
    /// until [`Pacer::reconcile_ended`] at least.
    pub(crate) fn may_begin(&self, key: &ObjectKey) -> bool {
        let mut state = self.state.lock();
        let rolling = self.rolling(&mut state);
        let may = self.limit == 0 || rolling.len() < self.limit || rolling.contains(key);
        if may {
            rolling.insert(key.clone());
            info!("rolling out a changed default of the operator");
        } else {
            state.waiting.insert(key.clone());
        }
        may
    }

    /// A reconcile of the resource `key` starts: it is determined again whether it waits.
    pub(crate) fn reconcile_begins(&self, key: &ObjectKey) {
        self.state.lock().waiting.remove(key);
    }

    /// A reconcile of the resource `key` ended; the caches show whether the resource `is_rolling`.
    pub(crate) fn reconcile_ended(&self, key: &ObjectKey, is_rolling: bool) {
        let mut state = self.state.lock();
        let rolling = self.rolling(&mut state);
        if is_rolling {
            rolling.insert(key.clone());
        } else {
            rolling.remove(key);
        }
        let counts = [rolling.len(), state.waiting.len()];
        for (gauge, count) in self.gauges.iter().zip(counts) {
            gauge.set(gauge_value(count));
        }
    }

    /// The resource `key` was deleted.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.reconcile_begins(key);
        self.reconcile_ended(key, false);
    }

    fn rolling<'a>(&self, state: &'a mut State) -> &'a mut HashSet<ObjectKey> {
        state.rolling.get_or_insert_with(|| self.found_rolling())
    }

    /// The resources with a paced rollout that an earlier leader started. Not those that this manager does
    /// not reconcile: nothing would tell that their rollout has ended.
    fn found_rolling(&self) -> HashSet<ObjectKey> {
        let stores = self.children.stores().iter();
        let children = stores.flat_map(|(_, store)| store.snapshot());
        let rolling = children.filter(|child| is_rolling(child));
        let owners = rolling.filter_map(|child| {
            let owner = child.owner.as_ref()?;
            let key = ObjectKey::new(child.meta.key.namespace(), &owner.name);
            let known = self.resources.get(&key)?;
            (known.meta.uid == owner.uid).then_some(key)
        });
        owners.collect()
    }
}
