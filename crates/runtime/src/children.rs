//! The children of all resources: a cache for each type of child and one for pods, shared by all
//! controllers. No I/O.
//! Used by `controllers`, `event_handlers` and `reconcile`.

use std::sync::Arc;

use serde_json::Value;

use crate::cache::cached::{CachedChild, CachedPod, Owner, pod_index};
use crate::cache::decode::Received;
use crate::cache::store::Store;
use crate::object::ObjectKey;
use quartet_applied::fingerprint::Fingerprint;
use quartet_versions::{Brand, Kind};
use quartet_workload::{
    ChildKind, ChildState, ObservedChild, ObservedPod, ObservedWorkload, Operator, Problem, Reason,
    owned_by,
};

/// The caches of children.
pub(crate) struct Children {
    brand: &'static Brand,
    kinds: Vec<&'static Kind>,
    /// One per type. A linear search of these few costs less than a map.
    stores: Vec<(ChildKind, Arc<Store<CachedChild>>)>,
    pub(crate) pods: Arc<Store<CachedPod>>,
}

impl Children {
    /// Empty caches of the types that these operators of `brand` own.
    pub(crate) fn new(brand: &'static Brand, operators: &[&'static dyn Operator]) -> Self {
        let owned = owned_by(operators).into_iter();
        let stores = owned.map(|owned| (owned.kind, Arc::default()));
        Children {
            brand,
            kinds: operators.iter().map(|operator| operator.kind()).collect(),
            stores: stores.collect(),
            pods: Arc::default(),
        }
    }

    /// The caches by type.
    pub(crate) fn stores(&self) -> &[(ChildKind, Arc<Store<CachedChild>>)] {
        &self.stores
    }

    /// The cache of a type; `None` if no operator owns this type.
    pub(crate) fn store(&self, kind: ChildKind) -> Option<&Arc<Store<CachedChild>>> {
        let mut stores = self.stores.iter();
        Some(&stores.find(|(it, _)| *it == kind)?.1)
    }

    /// A cached child.
    pub(crate) fn cached(&self, kind: ChildKind, key: &ObjectKey) -> Option<Arc<CachedChild>> {
        self.store(kind)?.get(key)
    }

    /// [`Store::removals`] of a type.
    pub(crate) fn removals(&self, kind: ChildKind) -> u64 {
        self.store(kind).map_or(0, |store| store.removals())
    }

    /// The cached form of a child.
    pub(crate) fn decode(&self, kind: ChildKind, object: &Value) -> Result<CachedChild, String> {
        CachedChild::decode(self.brand, &self.kinds, kind, object)
    }

    /// The cached form of a child that the watch reports. While its pods are rolled out, most reports change its
    /// status only. Then its template and its `managedFields`, most of the object, are known and are not read.
    pub(crate) fn reported(
        &self,
        kind: ChildKind,
        received: &Received,
    ) -> Result<CachedChild, String> {
        let hash = kind.has_pods.then(|| received.hash_without_status());
        let hash_without_status = hash.flatten();
        let cached = self.cached(kind, &received.key());
        let known = cached.filter(|it| {
            hash_without_status.is_some() && it.hash_without_status == hash_without_status
        });
        let Some(known) = known else {
            let child = self.decode(kind, &received.object(&[])?)?;
            return Ok(CachedChild {
                hash_without_status,
                ..child
            });
        };
        let child = self.decode(kind, &received.object(&["managedFields", "template"])?)?;
        Ok(CachedChild {
            hash_without_status,
            fingerprint: known.fingerprint,
            ..child
        })
    }

    /// Stores the API server's answer to a write in the cache, ahead of the watch event; see
    /// [`Store::put_written`]. Returns the fingerprint of the owned fields; `None` if the answer cannot be
    /// decoded.
    pub(crate) fn put_written(
        &self,
        kind: ChildKind,
        answer: &Value,
        removals: u64,
    ) -> Option<Fingerprint> {
        let child = self.decode(kind, answer).ok()?;
        let fingerprint = child.fingerprint;
        self.store(kind)?.put_written(child, removals);
        fingerprint
    }

    /// The child with pods, by kind and name.
    pub(crate) fn workload_named(&self, kind: &str, key: &ObjectKey) -> Option<Arc<CachedChild>> {
        let mut stores = self.stores.iter();
        let (_, store) = stores.find(|(it, _)| it.has_pods && it.kind == kind)?;
        store.get(key)
    }

    fn with_pods(&self, namespace: &str, uid: &str) -> impl Iterator<Item = Arc<CachedChild>> {
        let stores = self.stores.iter().filter(|(kind, _)| kind.has_pods);
        stores.flat_map(move |(_, store)| store.indexed(namespace, uid))
    }

    /// The selector of the workload of the resource `uid` in `namespace` that an older operator created.
    pub(crate) fn preserved_selector(&self, namespace: &str, uid: &str) -> Option<Box<Value>> {
        let mut children = self.with_pods(namespace, uid);
        children.next()?.workload()?.preserved_selector.clone()
    }

    /// Whether the resource `uid` in `namespace` has a child with pods, and all such children have rolled
    /// out their latest spec with every pod available.
    pub(crate) fn is_rolled_out(&self, namespace: &str, uid: &str) -> bool {
        let mut children = self.with_pods(namespace, uid);
        let is_complete = |child: &Arc<CachedChild>| !child.is_rolling_out();
        children.next().is_some_and(|it| is_complete(&it)) && children.all(|it| is_complete(&it))
    }

    /// The fingerprint of the owned fields of the child `kind` with the key `key`; `None` if the resource
    /// `uid` does not own it, or it is being deleted.
    pub(crate) fn fingerprint(
        &self,
        kind: ChildKind,
        key: &ObjectKey,
        uid: &str,
    ) -> Option<Fingerprint> {
        let cached = self.cached(kind, key)?;
        let owner = cached.owner.as_ref()?;
        let is_owned = *owner.uid == *uid && !cached.meta.deleting;
        cached.fingerprint.filter(|_| is_owned)
    }

    /// The children of the resource `uid` in `namespace` for its status: the child with pods, those pods,
    /// and all others. If several have pods, the status counts those of the `wanted` one.
    pub(crate) fn observed(
        &self,
        namespace: &str,
        uid: &str,
        wanted: Option<(ChildKind, &str)>,
    ) -> (
        Option<ObservedWorkload>,
        Vec<ObservedPod>,
        Vec<ObservedChild>,
    ) {
        let stores = self.stores.iter();
        let children = stores.flat_map(|(kind, store)| {
            let children = store.indexed(namespace, uid).into_iter();
            children.map(move |child| (*kind, child))
        });
        let mut children: Vec<_> = children.collect();
        children.sort_by_key(|(kind, _)| !kind.has_pods);
        let is_wanted = |(kind, child): &(ChildKind, Arc<CachedChild>)| {
            wanted.is_none_or(|wanted| wanted == (*kind, child.meta.key.name()))
        };
        let main = children
            .iter()
            .position(|it| it.0.has_pods && is_wanted(it));
        let main = main.map(|index| children.remove(index));
        let workload = main
            .as_ref()
            .and_then(|(_, child)| child.workload().cloned());
        let pods = main.map(|(kind, child)| self.pods(kind, &child.meta.key));
        let others = children.into_iter().map(|(kind, child)| ObservedChild {
            kind,
            name: child.meta.key.name().to_owned(),
            not_ready: match &child.state {
                ChildState::NotReady(why) => Some(why.clone()),
                ChildState::Workload(_) if child.is_rolling_out() => {
                    Some("it is rolling out".into())
                }
                ChildState::Workload(_) | ChildState::Ready => None,
            },
        });
        (workload, pods.unwrap_or_default(), others.collect())
    }

    /// The live pods of the child `kind` with the key `key`, sorted by name.
    fn pods(&self, kind: ChildKind, key: &ObjectKey) -> Vec<ObservedPod> {
        let index = pod_index(kind.kind, key.namespace(), key.name());
        let pods = self.pods.indexed(key.namespace(), &index);
        let mut live: Vec<_> = pods
            .iter()
            .filter(|pod| pod.live)
            .map(|pod| pod.observed())
            .collect();
        live.sort_by(|one, other| one.name.cmp(&other.name));
        live
    }
}

/// The problem of a child that is being deleted.
pub(crate) fn terminating(kind: ChildKind, key: &ObjectKey) -> Problem {
    let kind = kind.kind;
    let message = format!(
        "{kind} {} is being deleted; it is created again after its deletion (see its metadata.finalizers if that takes long)",
        key.name()
    );
    Problem::new(Reason::ChildTerminating, message)
}

/// The problem of a child whose name belongs to another object.
pub(crate) fn name_conflict(kind: ChildKind, key: &ObjectKey, owner: Option<&Owner>) -> Problem {
    let owner = match owner {
        Some(owner) => format!("belongs to {} {}", owner.kind, owner.name),
        None => "does not belong to this resource".to_owned(),
    };
    let message = format!(
        "{kind:?} {} exists and {owner}; delete or rename it, or give this resource another name; to hand it over, \
         remove its owner and give it the labels, the selector and the names of containers of a child",
        key.name()
    );
    Problem::new(Reason::NameConflict, message)
}

#[cfg(test)]
mod tests;
