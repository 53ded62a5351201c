//! The cache of one kind: the state of the cluster, from the watch and own writes. Returns the change
//! of each step, which an informer reports. No I/O; independent of kinds.
//!
//! * A relist is one step for readers. Its changes are the differences from the previous state: added,
//!   updated and deleted.
//! * Read your writes: [`Store::put_written`] stores the answer to an own write, and no older event
//!   replaces it. Resource versions order the states ([`Object`]).
//! * No change is reported twice: neither the event of an own write nor an unchanged relist.
//! * No deleted object stays forever: see `Tombstones` and `Store::drop_unconfirmed` for writes whose
//!   answer arrives late.

mod tombstones;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

pub(crate) use self::tombstones::MAX_ANSWER_DELAY;
use self::tombstones::Tombstones;
pub use crate::object::{Object, ObjectKey};

/// A change of an object.
#[derive(Debug)]
pub enum Change<T> {
    /// The object was added.
    Added(Arc<T>),
    /// The object was updated.
    Updated {
        /// The state before.
        old: Arc<T>,
        /// The state after.
        new: Arc<T>,
    },
    /// The object was deleted, or no longer matches the watch's selector; the last known state.
    Deleted(Arc<T>),
}

impl<T> Change<T> {
    /// The state before, if it existed.
    pub fn before(&self) -> Option<&T> {
        match self {
            Change::Added(_) => None,
            Change::Updated { old, .. } | Change::Deleted(old) => Some(old),
        }
    }

    /// The state after, if it exists.
    pub fn after(&self) -> Option<&T> {
        match self {
            Change::Added(new) | Change::Updated { new, .. } => Some(new),
            Change::Deleted(_) => None,
        }
    }

    /// The last known state.
    pub fn latest(&self) -> &T {
        match self {
            Change::Added(object) | Change::Updated { new: object, .. } => object,
            Change::Deleted(object) => object,
        }
    }
}

/// The cached objects of one kind. Shared: one informer writes, all controllers read.
pub struct Store<T> {
    /// Held for map operations and never across an await.
    state: Mutex<State<T>>,
}

struct State<T> {
    objects: HashMap<ObjectKey, Arc<T>>,
    /// Keys by [`Object::index`]. Exact-sized vectors: nearly all hold one key.
    index: HashMap<Box<str>, Vec<ObjectKey>>,
    /// The running list; dropped when it completes or another one starts.
    relist: Option<Relist<T>>,
    /// When the last list completed.
    relisted: Option<Instant>,
    /// Own writes that the watch has not reported, with the time of their answers. Only those
    /// concurrent with a list, and new objects until [`MAX_ANSWER_DELAY`] after one.
    unconfirmed: HashMap<ObjectKey, Instant>,
    tombstones: Tombstones,
}

struct Relist<T> {
    /// In the order of the list.
    listed: Vec<Arc<T>>,
    /// Existing objects that cannot be decoded: their last decoded state stays.
    undecodable: HashSet<ObjectKey>,
    /// Own writes since the start of the list, with their times: they may be newer than the list.
    written: HashMap<ObjectKey, Instant>,
}

impl<T: Object> Store<T> {
    /// The object with the key `key`.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<T>> {
        self.state.lock().objects.get(key).cloned()
    }

    /// The objects in `namespace` whose [`Object::index`] is `value`, in any order. The index alone is not
    /// enough: an object of another namespace may name the UID of an owner in this one.
    pub fn indexed(&self, namespace: &str, value: &str) -> Vec<Arc<T>> {
        let state = self.state.lock();
        let keys = state.index.get(value);
        keys.into_iter()
            .flatten()
            .filter(|key| key.namespace() == namespace)
            .filter_map(|key| state.objects.get(key).cloned())
            .collect()
    }

    /// A snapshot of all objects, in any order.
    pub fn snapshot(&self) -> Vec<Arc<T>> {
        self.state.lock().objects.values().cloned().collect()
    }

    /// Stores the API server's answer to an own write. Neither this nor the event of the write is
    /// reported. The answer may contain changes of other writers since the last event, so the writer
    /// must read the store again.
    ///
    /// Returns false if the store has a newer state, or the object was deleted.
    pub fn put_written(&self, object: impl Into<Arc<T>>) -> bool {
        let object: Arc<T> = object.into();
        let now = Instant::now();
        let mut state = self.state.lock();
        let version = object.resource_version();
        let is_gone = state.tombstones.covers(object.uid(), version, now);
        let stored = state.objects.get(object.key());
        let newer = stored.filter(|stored| stored.resource_version() >= version);
        if is_gone || newer.is_some() {
            return false;
        }
        let is_new = stored.is_none_or(|stored| stored.uid() != object.uid());
        let key = object.key().clone();
        if let Some(relist) = &mut state.relist {
            relist.written.insert(key, now);
        } else if is_new && state.relisted.is_some_and(|at| now < at + MAX_ANSWER_DELAY) {
            state.unconfirmed.insert(key, now);
        }
        state.insert(object);
        true
    }

    /// Changes a cached object after an own write whose answer has no new version; reports no change.
    pub(crate) fn amend(&self, key: &ObjectKey, uid: &str, change: impl FnOnce(&mut T))
    where
        T: Clone,
    {
        let mut state = self.state.lock();
        let stored = state.objects.get(key).filter(|stored| stored.uid() == uid);
        if let Some(mut object) = stored.map(|stored| T::clone(stored)) {
            change(&mut object);
            state.insert(Arc::new(object));
        }
    }

    /// Stores an object from the watch. Ignores a state older than the stored one.
    pub fn applied(&self, object: Arc<T>) -> Vec<Change<T>> {
        let mut changes = Vec::new();
        self.state.lock().apply(object, &mut changes);
        changes
    }

    /// Removes an object that the watch reports as deleted at `version`. Ignored if the stored state
    /// is later: a watch with a selector reports a removed label as a deletion, and an own write
    /// has restored the label since.
    pub fn deleted(&self, key: &ObjectKey, uid: &str, version: u64) -> Vec<Change<T>> {
        let mut state = self.state.lock();
        let mut changes = Vec::new();
        state.unconfirmed.remove(key);
        let stored = state.objects.get(key);
        if stored.is_some_and(|stored| stored.resource_version() <= version) {
            changes.extend(state.remove(key).map(Change::Deleted));
        }
        state.tombstones.add(uid, version, Instant::now());
        changes
    }

    /// Starts a list. An unfinished one is dropped.
    pub(crate) fn begin_relist(&self) {
        self.state.lock().relist = Some(Relist {
            listed: Vec::new(),
            undecodable: HashSet::new(),
            written: HashMap::new(),
        });
    }

    /// Adds an object to the running list.
    pub(crate) fn listed(&self, object: Arc<T>) {
        if let Some(relist) = &mut self.state.lock().relist {
            relist.listed.push(object);
        }
    }

    /// Adds an object that cannot be decoded to the running list.
    pub(crate) fn listed_undecodable(&self, key: ObjectKey) {
        if let Some(relist) = &mut self.state.lock().relist {
            relist.undecodable.insert(key);
        }
    }

    /// Completes the list, in one step for readers. Returns the changes: deletions first, the others in
    /// the order of the list.
    pub(crate) fn finish_relist(&self) -> Vec<Change<T>> {
        let mut state = self.state.lock();
        let Some(relist) = state.relist.take() else {
            return Vec::new();
        };
        let mut changes = Vec::new();
        let listed: HashSet<&ObjectKey> = relist.listed.iter().map(|object| object.key()).collect();
        let missing = |key: &&ObjectKey| !listed.contains(key) && !relist.undecodable.contains(key);
        let missing: Vec<ObjectKey> = state.objects.keys().filter(missing).cloned().collect();
        state.unconfirmed.clear();
        for key in missing {
            if let Some(at) = relist.written.get(&key) {
                state.unconfirmed.insert(key, *at);
            } else {
                changes.extend(state.remove(&key).map(Change::Deleted));
            }
        }
        state.relisted = Some(Instant::now());
        for object in relist.listed {
            // A list is read from etcd, so it is later than all known states except own writes. Known
            // versions after it were undone: etcd was restored from a backup, and its versions
            // decrease.
            let stored = state.objects.get(object.key());
            if stored.is_some_and(|stored| stored.resource_version() > object.resource_version())
                && !relist.written.contains_key(object.key())
            {
                state.tombstones = Tombstones::default();
                state.replace(object, &mut changes);
            } else {
                state.apply(object, &mut changes);
            }
        }
        state.index.shrink_to_fit();
        changes
    }

    /// Drops own writes until `before`, made around a list that does not contain them, if the watch has
    /// not reported them since. The watch continues from the list, so it has reported every such write
    /// except those undone before the list. Call this for [`MAX_ANSWER_DELAY`] after a list, while late answers
    /// may arrive.
    pub(crate) fn drop_unconfirmed(&self, before: Instant) -> Vec<Change<T>> {
        let mut state = self.state.lock();
        let is_overdue = |_: &ObjectKey, written: &mut Instant| *written <= before;
        let overdue: Vec<_> = state.unconfirmed.extract_if(is_overdue).collect();
        let removed = overdue.iter().filter_map(|(key, _)| state.remove(key));
        removed.map(Change::Deleted).collect()
    }
}

impl<T: Object> State<T> {
    fn apply(&mut self, object: Arc<T>, changes: &mut Vec<Change<T>>) {
        self.unconfirmed.remove(object.key());
        let stored = self.objects.get(object.key());
        if stored.is_some_and(|stored| !is_news(object.as_ref(), stored)) {
            return;
        }
        self.replace(object, changes);
    }

    fn replace(&mut self, object: Arc<T>, changes: &mut Vec<Change<T>>) {
        match self.insert(Arc::clone(&object)) {
            None => changes.push(Change::Added(object)),
            Some(old) if old.uid() == object.uid() => {
                changes.push(Change::Updated { old, new: object });
            }
            Some(earlier) => changes.extend([Change::Deleted(earlier), Change::Added(object)]),
        }
    }

    fn insert(&mut self, object: Arc<T>) -> Option<Arc<T>> {
        if let Some(stored) = self.objects.get_mut(object.key())
            && stored.index() == object.index()
        {
            return Some(std::mem::replace(stored, object));
        }
        let replaced = self.remove(object.key());
        if let Some(value) = object.index() {
            let keys = self.index.entry(value.into());
            let keys = keys.or_insert_with(|| Vec::with_capacity(1));
            keys.push(object.key().clone());
        }
        self.objects.insert(object.key().clone(), object);
        replaced
    }

    fn remove(&mut self, key: &ObjectKey) -> Option<Arc<T>> {
        let object = self.objects.remove(key)?;
        if let Some(value) = object.index()
            && let Some(keys) = self.index.get_mut(value)
        {
            keys.retain(|indexed| indexed != key);
            if keys.is_empty() {
                self.index.remove(value);
            }
        }
        Some(object)
    }
}

/// Whether an object from the watch replaces the stored one: a later state, or the same state in
/// another version.
fn is_news<T: Object>(object: &T, stored: &T) -> bool {
    let (new, old) = (object.resource_version(), stored.resource_version());
    new > old || (new == old && object.form() != stored.form())
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Store {
            state: Mutex::new(State {
                objects: HashMap::new(),
                index: HashMap::new(),
                relist: None,
                relisted: None,
                unconfirmed: HashMap::new(),
                tombstones: Tombstones::default(),
            }),
        }
    }
}

#[cfg(test)]
mod tests;
