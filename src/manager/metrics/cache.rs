//! A bounded cache of values with an expiry time. The caller passes the current time.

use std::collections::HashMap;
use std::hash::Hash;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Values by key, each with its expiry time.
#[derive(Debug)]
pub(super) struct Cache<K, V> {
    capacity: usize,
    entries: Mutex<HashMap<K, (V, Instant)>>,
}

impl<K: Clone + Eq + Hash, V: Clone> Cache<K, V> {
    /// An empty cache of at most `capacity` entries.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            entries: Mutex::default(),
        }
    }

    /// The value of `key`, if it has not expired.
    pub(super) fn get(&self, key: &K, now: Instant) -> Option<V> {
        let entries = self.entries.lock();
        let (value, end) = entries.get(key)?;
        (now < *end).then(|| value.clone())
    }

    /// Stores `value` until `end`. A full cache removes expired entries, or else the entry that expires
    /// first.
    pub(super) fn put(&self, key: K, value: V, now: Instant, end: Instant) {
        let mut entries = self.entries.lock();
        if entries.len() >= self.capacity && !entries.contains_key(&key) {
            entries.retain(|_, (_, end)| now < *end);
        }
        if entries.len() >= self.capacity && !entries.contains_key(&key) {
            let first = entries.iter().min_by_key(|(_, (_, end))| *end);
            if let Some(first) = first.map(|(key, _)| key.clone()) {
                entries.remove(&first);
            }
        }
        entries.insert(key, (value, end));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_value_holds_until_its_end_and_no_longer() {
        let (cache, now) = (Cache::new(2), Instant::now());
        cache.put("a", 1, now, now + SECOND);
        assert_eq!(cache.get(&"a", now), Some(1));
        assert_eq!(cache.get(&"a", now + SECOND), None);
        assert_eq!(cache.get(&"b", now), None);
    }

    #[test]
    fn a_full_cache_loses_what_has_ended_and_else_what_ends_first() {
        let (cache, now) = (Cache::new(2), Instant::now());
        cache.put("short", 1, now, now + SECOND);
        cache.put("long", 2, now, now + 9 * SECOND);
        cache.put("longer", 3, now, now + 10 * SECOND);
        assert_eq!(cache.get(&"short", now), None);
        assert_eq!(cache.get(&"long", now), Some(2));
        // An existing key takes no additional entry.
        cache.put("long", 4, now, now + 2 * SECOND);
        assert_eq!(cache.get(&"longer", now), Some(3));
        // Expired entries are removed first.
        let later = now + 2 * SECOND;
        cache.put("new", 5, later, later + SECOND);
        assert_eq!(cache.get(&"longer", later), Some(3));
        assert_eq!(cache.get(&"new", later), Some(5));
    }
}
