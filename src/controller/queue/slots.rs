//! The state of the work queue, without waiting: the items, their order, and the keys in process. Pure:
//! `now` is an argument, so that a model can be compared.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

use crate::controller::metrics::Backlog;

/// The priority of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Priority {
    /// Objects of the initial list: controller-runtime's `handler.LowPriority`.
    Low,
    /// Everything else.
    Normal,
    /// What a reconcile asked for at a time that has come, in most cases the write of a status. It has
    /// waited, and does not wait again behind all new objects.
    High,
}

impl Priority {
    const ALL: [Priority; 3] = [Priority::Low, Priority::Normal, Priority::High];
}

/// After this number of items of higher priority an item of a lower one is next: constant load of one
/// priority slows each lower one down to an eighth, not more.
pub const HIGHER_PER_LOWER: u32 = 7;

/// A waiting item. There is one per key.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    priority: Priority,
    /// Its position in `Slots::delayed` or in its lane: the number of entries added before it.
    sequence: u64,
    stage: Stage,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    /// In `Slots::delayed` until this time.
    Delayed { until: Instant },
    /// In its lane since this time, or held back from it while the key is in process (*dirty* in
    /// client-go).
    Ready { since: Instant },
}

/// A key in process.
#[derive(Debug, Clone, Copy)]
struct Processing {
    since: Instant,
    /// The priority with which it was handed out; a retry keeps it.
    priority: Priority,
}

/// All keys of the queue. A key is at most once in `waiting` and at most once in `processing`. Its
/// stage tells whether it is in a lane or in `delayed`.
#[derive(Debug)]
pub(super) struct Slots<K> {
    waiting: HashMap<K, Waiting>,
    processing: HashMap<K, Processing>,
    /// What is ready and not in process.
    lanes: Lanes<K>,
    /// Due later, earliest first; the number distinguishes entries with the same time.
    delayed: BTreeMap<(Instant, u64), K>,
    /// Source of `Waiting::sequence`.
    next_sequence: u64,
    /// See `Backlog::adds`.
    adds: u64,
}

/// The ready items by priority.
#[derive(Debug)]
struct Lanes<K> {
    low: Lane<K>,
    normal: Lane<K>,
    high: Lane<K>,
}

/// The ready items of one priority.
#[derive(Debug)]
struct Lane<K> {
    /// In FIFO order.
    items: BTreeMap<u64, K>,
    /// Number of items of higher priority that were handed out since one of these was.
    overtaken: u32,
}

impl<K> Default for Lanes<K> {
    fn default() -> Self {
        Lanes {
            low: Lane::default(),
            normal: Lane::default(),
            high: Lane::default(),
        }
    }
}

impl<K> Lanes<K> {
    fn of(&self, priority: Priority) -> &Lane<K> {
        match priority {
            Priority::Low => &self.low,
            Priority::Normal => &self.normal,
            Priority::High => &self.high,
        }
    }

    fn of_mut(&mut self, priority: Priority) -> &mut Lane<K> {
        match priority {
            Priority::Low => &mut self.low,
            Priority::Normal => &mut self.normal,
            Priority::High => &mut self.high,
        }
    }

    /// Takes the next item, and counts it for those of lower priority that wait.
    fn pop(&mut self) -> Option<K> {
        let mut highest = None;
        let mut overtaken = None;
        for priority in Priority::ALL {
            let lane = self.of_mut(priority);
            if lane.items.is_empty() {
                lane.overtaken = 0;
                continue;
            }
            highest = Some(priority);
            if lane.overtaken >= HIGHER_PER_LOWER {
                overtaken = overtaken.or(highest);
            }
        }
        let next = overtaken.or(highest)?;
        for priority in Priority::ALL.into_iter().filter(|it| *it < next) {
            let lane = self.of_mut(priority);
            if !lane.items.is_empty() {
                lane.overtaken += 1;
            }
        }
        let lane = self.of_mut(next);
        lane.overtaken = 0;
        lane.items.pop_first().map(|(_, key)| key)
    }
}

impl<K> Default for Lane<K> {
    fn default() -> Self {
        Lane {
            items: BTreeMap::new(),
            overtaken: 0,
        }
    }
}

impl<K> Default for Slots<K> {
    fn default() -> Self {
        Slots {
            waiting: HashMap::new(),
            processing: HashMap::new(),
            lanes: Lanes::default(),
            delayed: BTreeMap::new(),
            next_sequence: 0,
            adds: 0,
        }
    }
}

impl<K: Clone + Eq + Hash> Slots<K> {
    /// Adds a key that is due at `due`. A waiting key keeps the higher priority, the earlier time and,
    /// once ready, its position.
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

    /// Takes the next ready key that is not in process; returns it with its waiting time.
    pub(super) fn pop(&mut self, now: Instant) -> Option<(K, Duration)> {
        self.promote(now);
        let key = self.lanes.pop()?;
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

    /// Marks a key as done; if it became ready meanwhile, it can be handed out again. Returns the
    /// processing time.
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

    /// Removes a waiting key. If the key is in process, it stays so until it is done.
    pub(super) fn remove(&mut self, key: &K) {
        self.take(key);
    }

    /// The priority with which a key in process was handed out.
    pub(super) fn priority_in_work(&self, key: &K) -> Option<Priority> {
        self.processing
            .get(key)
            .map(|processing| processing.priority)
    }

    /// When the next delayed key is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.delayed.first_key_value().map(|((until, _), _)| *until)
    }

    /// Number of keys that `pop` can return now, without delayed ones that became due since the last
    /// call of `add`, `pop` or `done`.
    pub(super) fn available(&self) -> usize {
        let lanes = Priority::ALL.map(|priority| self.lanes.of(priority));
        lanes.iter().map(|lane| lane.items.len()).sum()
    }

    /// Number of waiting keys, ready or not.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether the key is waiting, ready or not.
    pub(super) fn is_waiting(&self, key: &K) -> bool {
        self.waiting.contains_key(key)
    }

    pub(super) fn backlog(&mut self, now: Instant) -> Backlog {
        self.promote(now);
        let mut backlog = Backlog {
            adds: self.adds,
            low: self.lanes.low.items.len(),
            normal: self.lanes.normal.items.len(),
            high: self.lanes.high.items.len(),
            ..Backlog::default()
        };
        for (key, processing) in &self.processing {
            let running = now.saturating_duration_since(processing.since);
            backlog.unfinished = backlog.unfinished.saturating_add(running);
            backlog.longest = backlog.longest.max(running);
            if let Some(item) = self.waiting.get(key)
                && let Stage::Ready { .. } = item.stage
            {
                match item.priority {
                    Priority::Low => backlog.low += 1,
                    Priority::Normal => backlog.normal += 1,
                    Priority::High => backlog.high += 1,
                }
            }
        }
        backlog
    }

    /// Moves due keys to their lanes, in the order of their due times. Every operation does this first:
    /// an item that was due before another was added precedes it.
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

    /// Inserts an item into the collection of its stage.
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

    /// Removes an item from all collections of waiting items.
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
        &mut self.lanes.of_mut(priority).items
    }

    fn sequence(&mut self) -> u64 {
        self.next_sequence += 1;
        self.next_sequence
    }
}
