//! The cache of one kind: the state of the cluster, from the watch and own writes. Returns the change
//! of each step, which an informer reports. No I/O; independent of kinds.
//!
//! * A relist is one step for readers. Its changes are the differences from the previous state: added,
//!   updated and deleted.
//! * Read your writes: [`Store::put_written`] stores the answer to an own write, and no older event
//!   replaces it. Resource versions order the states ([`Object`]).
//! * No change is reported twice: neither the event of an own write nor an unchanged relist.
//! * No deleted object stays forever: see [`Store::removals`] for writes whose answer arrives late.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

pub use crate::object::{Object, ObjectKey};

/// Number of removals whose keys are known.
const MAX_REMOVED: usize = 1024;

/// A change of an object: at least one of its states before and after. After a deletion, and when the object
/// no longer matches the watch's selector, only the last known state is there.
#[derive(Debug)]
pub struct Change<T> {
    /// The state before, if it existed.
    pub before: Option<Arc<T>>,
    /// The state after, if it exists.
    pub after: Option<Arc<T>>,
}

impl<T> Change<T> {
    fn deleted(object: Arc<T>) -> Self {
        Change {
            before: Some(object),
            after: None,
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
    /// See [`Store::removals`].
    removals: u64,
    /// The last of them, since the last list.
    removed: VecDeque<ObjectKey>,
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
        self.matching(|_| true)
    }

    /// The objects that match `filter`, in any order.
    pub(crate) fn matching(&self, filter: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
        let state = self.state.lock();
        let objects = state.objects.values().filter(|object| filter(object));
        objects.cloned().collect()
    }

    /// The number of deletions and lists that the watch has reported.
    pub fn removals(&self) -> u64 {
        self.state.lock().removals
    }

    /// Stores the API server's answer to an own write. Neither this nor the event of the write is
    /// reported. The answer may contain changes of other writers since the last event, so the writer
    /// must read the store again.
    ///
    /// A new object is stored only if none of the removals since the [`Store::removals`] before the request is
    /// its own, or may be: nothing would remove the object again. The watch reports it if it exists.
    ///
    /// Returns false if the answer is not stored, or an older state than the stored one.
    pub fn put_written(&self, object: impl Into<Arc<T>>, removals: u64) -> bool {
        let object: Arc<T> = object.into();
        let mut state = self.state.lock();
        let version = object.resource_version();
        let stored = state.objects.get(object.key());
        let is_new = stored.is_none_or(|stored| stored.uid() != object.uid());
        let is_newer = stored.is_none_or(|stored| stored.resource_version() < version);
        let is_stored = is_newer && (!is_new || state.is_kept(object.key(), removals));
        if is_stored {
            state.insert(object);
        }
        is_stored
    }

    /// Stores an object from the watch. Ignores a state older than the stored one.
    pub fn applied(&self, object: Arc<T>) -> Vec<Change<T>> {
        let mut changes = Vec::new();
        let mut state = self.state.lock();
        if state.is_news(object.key(), version(object.as_ref())) {
            state.replace(object, &mut changes);
        }
        changes
    }

    /// Whether an object from the watch with this resource version, in this [`Object::form`], is not the
    /// event of an own write or older.
    pub(crate) fn is_news(&self, key: &ObjectKey, version: (u64, &str)) -> bool {
        self.state.lock().is_news(key, version)
    }

    /// Removes an object that the watch reports as deleted at `version`. Ignored if the stored state
    /// is later: a watch with a selector reports a removed label as a deletion, and an own write
    /// has restored the label since.
    pub fn deleted(&self, key: &ObjectKey, version: u64) -> Vec<Change<T>> {
        let mut state = self.state.lock();
        let mut changes = Vec::new();
        state.removals += 1;
        if state.removed.len() >= MAX_REMOVED {
            state.removed.pop_front();
        }
        state.removed.push_back(key.clone());
        let stored = state.objects.get(key);
        if stored.is_some_and(|stored| stored.resource_version() <= version) {
            changes.extend(state.remove(key).map(Change::deleted));
        }
        changes
    }

    /// Stores a list, in one step for readers. Returns the changes: deletions first, the others in the order of
    /// the list.
    pub(crate) fn relisted(&self, objects: Vec<Arc<T>>) -> Vec<Change<T>> {
        let mut state = self.state.lock();
        let mut changes = Vec::new();
        let listed: HashSet<&ObjectKey> = objects.iter().map(|object| object.key()).collect();
        let missing = state.objects.keys().filter(|key| !listed.contains(key));
        let missing: Vec<ObjectKey> = missing.cloned().collect();
        state.removals += 1;
        state.removed.clear();
        changes.extend(
            missing
                .iter()
                .filter_map(|key| state.remove(key))
                .map(Change::deleted),
        );
        for object in objects {
            // Also an older state: etcd may have been restored from a backup. The watch reports again what
            // was written after the list.
            let stored = state.objects.get(object.key());
            if stored.is_none_or(|stored| version(stored.as_ref()) != version(object.as_ref())) {
                state.replace(object, &mut changes);
            }
        }
        state.index.shrink_to_fit();
        changes
    }
}

impl<T: Object> State<T> {
    /// Types with one form do not tell it, so an equal version is enough there.
    fn is_news(&self, key: &ObjectKey, new: (u64, &str)) -> bool {
        let stored = self.objects.get(key);
        stored
            .map(|stored| version(stored.as_ref()))
            .is_none_or(|old| {
                new.0 > old.0 || new.0 == old.0 && !old.1.is_empty() && new.1 != old.1
            })
    }

    /// Whether no removal after the first `removals` is known, or possible, of this object.
    fn is_kept(&self, key: &ObjectKey, removals: u64) -> bool {
        let later = self.removals.saturating_sub(removals);
        let later = usize::try_from(later).unwrap_or(usize::MAX);
        later <= self.removed.len() && !self.removed.iter().rev().take(later).any(|it| it == key)
    }

    fn replace(&mut self, object: Arc<T>, changes: &mut Vec<Change<T>>) {
        let mut before = self.insert(Arc::clone(&object));
        let earlier = before.take_if(|before| before.uid() != object.uid());
        changes.extend(earlier.map(Change::deleted));
        let after = Some(object);
        changes.push(Change { before, after });
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

/// The state of an object: its resource version, in the API version that was read.
fn version<T: Object>(object: &T) -> (u64, &str) {
    (object.resource_version(), object.form())
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Store {
            state: Mutex::new(State {
                objects: HashMap::new(),
                index: HashMap::new(),
                removals: 0,
                removed: VecDeque::new(),
            }),
        }
    }
}

#[cfg(test)]
mod tests;
