//! The order of the work queue, without waiting: who is in it, who is next, who is being
//! worked on. Pure: `now` is an argument, so that a model can be run beside it.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

use crate::controller::metrics::Backlog;

/// How urgent an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Priority {
    /// Objects of the initial list: controller-runtime's `handler.LowPriority`.
    Low,
    /// Everything else.
    Normal,
}

/// While both priorities have items, one item of low priority follows on this many normal
/// ones: a fleet that never rests slows the initial list down to an eighth, and no further.
pub const NORMALS_PER_LOW: u32 = 7;

/// An item that waits: one per key, however often it is added.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    priority: Priority,
    /// Its place in `Slots::delayed` or in its lane: the count of entries before it.
    sequence: u64,
    stage: Stage,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    /// In `Slots::delayed` until this moment.
    Delayed { until: Instant },
    /// In its lane since this moment, or, while a worker has the key, held back from it:
    /// what client-go calls dirty.
    Ready { since: Instant },
}

/// A key that a worker has.
#[derive(Debug, Clone, Copy)]
struct Processing {
    since: Instant,
    /// What it was handed out with; a retry keeps it.
    priority: Priority,
}

/// The keys of the queue in all their states. A key is at most once in `waiting` and at most
/// once in `processing`; it is in a lane or in `delayed` exactly as its stage says.
#[derive(Debug)]
pub(super) struct Slots<K> {
    waiting: HashMap<K, Waiting>,
    processing: HashMap<K, Processing>,
    /// Ready and not being worked on, first come first served.
    normal: BTreeMap<u64, K>,
    low: BTreeMap<u64, K>,
    /// Due later, soonest first; the number makes entries of one moment distinct.
    delayed: BTreeMap<(Instant, u64), K>,
    /// Source of `Waiting::sequence`.
    next_sequence: u64,
    /// Normal items handed out since the last low one, counted while a low one waits.
    normals_in_a_row: u32,
    /// See `Backlog::adds`.
    adds: u64,
}
impl<K> Default for Slots<K> {
    fn default() -> Self {
        Slots {
            waiting: HashMap::new(),
            processing: HashMap::new(),
            normal: BTreeMap::new(),
            low: BTreeMap::new(),
            delayed: BTreeMap::new(),
            next_sequence: 0,
            normals_in_a_row: 0,
            adds: 0,
        }
    }
}

impl<K: Clone + Eq + Hash> Slots<K> {
    /// Adds a key that is due at `due`. One that is there already keeps the higher priority,
    /// the earlier moment, and, once it is ready, its place in the order.
    pub(super) fn add(&mut self, key: K, priority: Priority, due: Instant, now: Instant) {
        self.promote(now);
        let sequence = self.sequence();
        let (priority, due) = match self.take(&key) {
            None => (priority, due),
            Some(before) => {
                let priority = before.priority.max(priority);
                match before.stage {
                    Stage::Ready { .. } => {
                        return self.place(key, Waiting { priority, ..before });
                    }
                    Stage::Delayed { until } => (priority, until.min(due)),
                }
            }
        };
        let stage = if due <= now {
            self.adds += 1;
            Stage::Ready { since: now }
        } else {
            Stage::Delayed { until: due }
        };
        self.place(
            key,
            Waiting {
                priority,
                sequence,
                stage,
            },
        );
    }

    /// Takes the next key that is ready and that no worker has; with it, how long it waited.
    pub(super) fn pop(&mut self, now: Instant) -> Option<(K, Duration)> {
        self.promote(now);
        let low_is_due = self.normals_in_a_row >= NORMALS_PER_LOW || self.normal.is_empty();
        let key = if low_is_due && let Some((_, key)) = self.low.pop_first() {
            self.normals_in_a_row = 0;
            key
        } else {
            let Some((_, key)) = self.normal.pop_first() else {
                self.normals_in_a_row = 0;
                return None;
            };
            let low_waits = u32::from(!self.low.is_empty());
            self.normals_in_a_row = low_waits * self.normals_in_a_row.saturating_add(1);
            key
        };
        let item = self.waiting.remove(&key)?;
        let since = match item.stage {
            Stage::Ready { since } => since,
            Stage::Delayed { until } => until,
        };
        self.processing.insert(
            key.clone(),
            Processing {
                since: now,
                priority: item.priority,
            },
        );
        Some((key, now.saturating_duration_since(since)))
    }

    /// A worker is through with a key; if it became ready meanwhile, it is handed out again.
    /// Returns how long the worker had it.
    pub(super) fn done(&mut self, key: &K, now: Instant) -> Option<Duration> {
        self.promote(now);
        let processing = self.processing.remove(key)?;
        if let Some(item) = self.waiting.get(key).copied()
            && let Stage::Ready { .. } = item.stage
        {
            self.lane(item.priority).insert(item.sequence, key.clone());
        }
        Some(now.saturating_duration_since(processing.since))
    }

    /// Drops what waits under a key. A worker that has it keeps it until it is done.
    pub(super) fn remove(&mut self, key: &K) {
        self.take(key);
    }

    /// The priority with which a worker has the key.
    pub(super) fn priority_in_work(&self, key: &K) -> Option<Priority> {
        self.processing
            .get(key)
            .map(|processing| processing.priority)
    }

    /// When the next delayed key is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.delayed.first_key_value().map(|((until, _), _)| *until)
    }

    /// Keys that a call of `pop` now would find, delayed ones that have become due since the
    /// last call of `add`, `pop` or `done` left out.
    pub(super) fn available(&self) -> usize {
        self.normal.len() + self.low.len()
    }

    /// Keys that wait, ready or not.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether the key waits, ready or not.
    pub(super) fn is_waiting(&self, key: &K) -> bool {
        self.waiting.contains_key(key)
    }

    pub(super) fn backlog(&mut self, now: Instant) -> Backlog {
        self.promote(now);
        let mut backlog = Backlog {
            adds: self.adds,
            normal: self.normal.len(),
            low: self.low.len(),
            ..Backlog::default()
        };
        for (key, processing) in &self.processing {
            let running = now.saturating_duration_since(processing.since);
            backlog.unfinished = backlog.unfinished.saturating_add(running);
            backlog.longest = backlog.longest.max(running);
            match self.waiting.get(key) {
                Some(Waiting {
                    stage: Stage::Ready { .. },
                    priority: Priority::Low,
                    ..
                }) => {
                    backlog.low += 1;
                }
                Some(Waiting {
                    stage: Stage::Ready { .. },
                    ..
                }) => backlog.normal += 1,
                _ => {}
            }
        }
        backlog
    }

    /// Makes ready what has become due, in the order of becoming so. Every operation does
    /// this first: an item that was due before another was added stands before it.
    fn promote(&mut self, now: Instant) {
        while let Some(entry) = self.delayed.first_entry()
            && entry.key().0 <= now
        {
            let ((until, _), key) = entry.remove_entry();
            let Some(item) = self.waiting.remove(&key) else {
                continue;
            };
            let sequence = self.sequence();
            self.adds += 1;
            self.place(
                key,
                Waiting {
                    sequence,
                    stage: Stage::Ready { since: until },
                    ..item
                },
            );
        }
    }

    /// Puts an item that is in none of the collections where its stage says.
    fn place(&mut self, key: K, item: Waiting) {
        match item.stage {
            Stage::Delayed { until } => {
                self.delayed.insert((until, item.sequence), key.clone());
            }
            Stage::Ready { .. } => {
                if !self.processing.contains_key(&key) {
                    self.lane(item.priority).insert(item.sequence, key.clone());
                }
            }
        }
        self.waiting.insert(key, item);
    }

    /// Takes an item out of all the collections that it waits in.
    fn take(&mut self, key: &K) -> Option<Waiting> {
        let item = self.waiting.remove(key)?;
        match item.stage {
            Stage::Delayed { until } => {
                self.delayed.remove(&(until, item.sequence));
            }
            Stage::Ready { .. } => {
                self.lane(item.priority).remove(&item.sequence);
            }
        }
        Some(item)
    }

    fn lane(&mut self, priority: Priority) -> &mut BTreeMap<u64, K> {
        match priority {
            Priority::Normal => &mut self.normal,
            Priority::Low => &mut self.low,
        }
    }

    fn sequence(&mut self) -> u64 {
        self.next_sequence += 1;
        self.next_sequence
    }
}
