//! The state of the work queue, without waiting: the items, their order, and the keys in process. Pure:
//! `now` is an argument, so that a model can be compared.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tokio::time::Instant;

use crate::metrics::Backlog;
use crate::object::ObjectKey;

/// The priority of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Priority {
    /// Objects of the initial list: controller-runtime's `handler.LowPriority`.
    Low,
    /// Everything else.
    Normal,
}

/// A waiting item. There is one per key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    priority: Priority,
    /// Its position in `Slots::delayed` or `Slots::ready`: the number of entries added before it.
    sequence: u64,
    /// In `Slots::ready`, or held back from it while the key is in process (*dirty* in client-go).
    /// Otherwise in `Slots::delayed`.
    is_ready: bool,
    /// When it became ready, or is due.
    at: Instant,
}

impl Waiting {
    /// Its position in `Slots::ready`.
    fn position(&self) -> (Reverse<Priority>, u64) {
        (Reverse(self.priority), self.sequence)
    }
}

/// A key in process.
#[derive(Debug, Clone, Copy)]
struct Processing {
    since: Instant,
    /// The priority with which it was handed out; a retry keeps a low one.
    priority: Priority,
}

/// All keys of the queue. A key is at most once in `waiting` and at most once in `processing`. Its
/// `is_ready` tells whether it is in `ready` or in `delayed`.
#[derive(Debug, Default)]
pub(super) struct Slots {
    pub(super) waiting: HashMap<ObjectKey, Waiting>,
    processing: HashMap<ObjectKey, Processing>,
    /// What is ready and not in process: FIFO within a priority, the higher one first.
    ready: BTreeMap<(Reverse<Priority>, u64), ObjectKey>,
    /// Due later, earliest first; the number distinguishes entries with the same time.
    delayed: BTreeMap<(Instant, u64), ObjectKey>,
    /// Source of `Waiting::sequence`.
    next_sequence: u64,
    /// See `Backlog::adds`.
    adds: u64,
}

impl Slots {
    /// Adds a key that is due at `due`. A waiting key keeps the higher priority, the earlier time and,
    /// once ready, its position.
    pub(super) fn add(&mut self, key: ObjectKey, priority: Priority, due: Instant, now: Instant) {
        self.promote(now);
        let sequence = self.sequence();
        let (priority, due) = match self.take(&key) {
            None => (priority, due),
            Some(before) => {
                let priority = before.priority.max(priority);
                if before.is_ready {
                    return self.place(key, Waiting { priority, ..before });
                }
                (priority, before.at.min(due))
            }
        };
        let is_ready = due <= now;
        self.adds += u64::from(is_ready);
        let item = Waiting {
            priority,
            sequence,
            is_ready,
            at: due.max(now),
        };
        self.place(key, item);
    }

    /// Takes the next ready key that is not in process; returns it with its waiting time.
    pub(super) fn pop(&mut self, now: Instant) -> Option<(ObjectKey, Duration)> {
        self.promote(now);
        let (_, key) = self.ready.pop_first()?;
        let item = self.waiting.remove(&key)?;
        let (since, priority) = (now, item.priority);
        let processing = Processing { since, priority };
        self.processing.insert(key.clone(), processing);
        Some((key, now.saturating_duration_since(item.at)))
    }

    /// Marks a key as done; if it became ready meanwhile, it can be handed out again. Returns the
    /// processing time.
    pub(super) fn done(&mut self, key: &ObjectKey, now: Instant) -> Option<Duration> {
        self.promote(now);
        let processing = self.processing.remove(key)?;
        if let Some(item) = self.waiting.get(key).copied()
            && item.is_ready
        {
            self.ready.insert(item.position(), key.clone());
        }
        Some(now.saturating_duration_since(processing.since))
    }

    /// The priority with which a key in process was handed out.
    pub(super) fn priority_in_work(&self, key: &ObjectKey) -> Option<Priority> {
        let processing = self.processing.get(key)?;
        Some(processing.priority)
    }

    /// When the next delayed key is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.delayed.first_key_value().map(|((until, _), _)| *until)
    }

    /// Number of keys that `pop` can return now, without delayed ones that became due since the last
    /// call of `add`, `pop` or `done`.
    pub(super) fn available(&self) -> usize {
        self.ready.len()
    }

    pub(super) fn backlog(&mut self, now: Instant) -> Backlog {
        self.promote(now);
        let count = |priority| {
            let items = self.waiting.values();
            items
                .filter(|it| it.is_ready && it.priority == priority)
                .count()
        };
        Backlog {
            adds: self.adds,
            low: count(Priority::Low),
            normal: count(Priority::Normal),
        }
    }

    /// Moves due keys to `ready`, in the order of their due times. Every operation does this first:
    /// an item that was due before another was added precedes it.
    fn promote(&mut self, now: Instant) {
        while let Some(entry) = self.delayed.first_entry()
            && entry.key().0 <= now
        {
            let (_, key) = entry.remove_entry();
            let Some(mut item) = self.waiting.remove(&key) else {
                continue;
            };
            item.sequence = self.sequence();
            item.is_ready = true;
            self.adds += 1;
            self.place(key, item);
        }
    }

    /// Inserts an item into the collection of waiting items.
    fn place(&mut self, key: ObjectKey, item: Waiting) {
        if !item.is_ready {
            self.delayed.insert((item.at, item.sequence), key.clone());
        } else if !self.processing.contains_key(&key) {
            self.ready.insert(item.position(), key.clone());
        }
        self.waiting.insert(key, item);
    }

    /// Removes an item from all collections of waiting items.
    pub(super) fn take(&mut self, key: &ObjectKey) -> Option<Waiting> {
        let item = self.waiting.remove(key)?;
        if item.is_ready {
            self.ready.remove(&item.position());
        } else {
            self.delayed.remove(&(item.at, item.sequence));
        }
        Some(item)
    }

    fn sequence(&mut self) -> u64 {
        self.next_sequence += 1;
        self.next_sequence
    }
}
