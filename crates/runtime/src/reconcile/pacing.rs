//! Paces rollouts that no user requested. A new manager with other defaults changes every Deployment of
//! a kind; only a limited number roll out at the same time. A change of a resource's own spec never waits.
//!
//! The caches of children show which of them roll out: their stamp has the generation that a paced
//! rollout made. Nothing else is stored, so every leader counts the same rollouts.

use std::collections::HashSet;
use std::time::Duration;

use tracing::info;

use crate::cache::cached::CachedChild;
use crate::object::ObjectKey;
use crate::reconcile::Reconciler;
use quartet_workload::ObservedWorkload;

/// How long a waiting resource waits until it asks again; ± 20 %.
pub(crate) const WAIT: Duration = Duration::from_secs(50);

/// Whether the child is in a paced rollout: until its pods are available. A child of a later generation was
/// changed by somebody else since, and is not.
pub(crate) fn is_rolling(child: &CachedChild) -> bool {
    let rollout = child.stamp.and_then(|stamp| stamp.rollout);
    let has_ended = child
        .workload()
        .is_none_or(ObservedWorkload::has_ended_rollout);
    rollout == Some(child.meta.generation) && !has_ended
}

impl Reconciler {
    /// Whether the Deployment of the resource `key` may be changed now. If so, it counts as a rollout
    /// until the end of the reconcile at least.
    pub(crate) fn may_begin(&self, key: &ObjectKey) -> bool {
        let mut begun = self.begun.lock();
        let limit = self.context.max_concurrent_rollouts;
        if limit > 0 {
            let mut rolling = self.rolling();
            rolling.extend(begun.iter().cloned());
            if rolling.len() >= limit && !rolling.contains(key) {
                return false;
            }
        }
        begun.insert(key.clone());
        info!("rolling out a changed default of the operator");
        true
    }

    /// The resources with a paced rollout. Not those that this manager does not reconcile: nothing would tell
    /// that their rollout has ended.
    fn rolling(&self) -> HashSet<ObjectKey> {
        let stores = self.context.children.stores().iter();
        let stores = stores.filter(|(kind, _)| kind.has_pods);
        let rolling = stores.flat_map(|(_, store)| store.matching(is_rolling));
        let owners = rolling.filter_map(|child| {
            let owner = child.owner.as_ref()?;
            let key = ObjectKey::new(child.meta.key.namespace(), &owner.name);
            let known = self.resources.get(&key)?;
            (known.meta.uid == owner.uid).then_some(key)
        });
        owners.collect()
    }
}
