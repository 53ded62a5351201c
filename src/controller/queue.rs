//! The work queue: which object a worker takes next. client-go's `workqueue` with the
//! priorities of controller-runtime's `priorityqueue`. Knows keys only, nothing of objects.
//!
//! * One slot per key: adding one that waits already changes nothing but to raise its
//!   priority and to bring its moment forward. So the queue is bounded by the number of
//!   objects, and needs no limit of its own.
//! * A key that a worker has is handed to no other. Added meanwhile, it comes out once more
//!   after [`Queue::done`], in the place that it took when it was added.
//! * First come first served within a priority, by the moment of becoming ready; while both
//!   priorities wait, one low item follows on [`NORMALS_PER_LOW`] normal ones.
//! * A retry keeps the priority of what is retried, as in controller-runtime.

mod slots;

use std::fmt;
use std::hash::Hash;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use self::slots::Slots;
pub use self::slots::{NORMALS_PER_LOW, Priority};
use crate::controller::backoff::ObjectBackoff;
use crate::controller::metrics::{Backlog, Metrics, ObserveBacklog, QueueMetrics};

/// The longest delay, so that no point in time overflows.
const LONGEST_DELAY: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A work queue of keys. Shared by everyone who adds and by the workers.
pub struct Queue<K> {
    /// Also known, weakly, to the metrics, which ask for the backlog at each scrape.
    shared: Arc<Shared<K>>,
    metrics: QueueMetrics,
}

struct Shared<K> {
    /// Held for a few map operations and never across an await, so that a blocking lock is
    /// the cheaper one.
    state: Mutex<State<K>>,
    /// One permit for each key that becomes available; everyone when the next delayed key
    /// is due earlier than before, or when the queue is shut down.
    wake: Notify,
}

struct State<K> {
    slots: Slots<K>,
    backoff: ObjectBackoff<K>,
    shut_down: bool,
}

impl<K: Clone + Eq + Hash + Send + 'static> Queue<K> {
    /// An empty queue whose metrics carry `name` as labels `name` and `controller`.
    pub fn new(name: &str, metrics: &Metrics) -> Self {
        let state = State {
            slots: Slots::default(),
            backoff: ObjectBackoff::default(),
            shut_down: false,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            wake: Notify::new(),
        });
        let observed: Arc<dyn ObserveBacklog> = Arc::<Shared<K>>::clone(&shared);
        let metrics = metrics.queue(name, Arc::downgrade(&observed));
        Queue { shared, metrics }
    }

    /// Adds a key that is due now.
    pub fn add(&self, key: K, priority: Priority) {
        self.shared
            .change(|state, now| state.add(key, priority, now, now));
    }

    /// As [`Queue::add_later`], for workers: the priority is that with which the key was handed out.
    pub fn add_after(&self, key: K, delay: Duration) {
        if !delay.is_zero() {
            self.metrics.retries.inc();
        }
        self.shared
            .change(|state, now| state.retry(key, delay, now));
    }

    /// Adds a key that is due in `delay`, or in `while_waiting` if it waits already. A key that is
    /// due earlier stays so.
    pub fn add_later(&self, key: K, priority: Priority, delay: Duration, while_waiting: Duration) {
        self.shared.change(|state, now| {
            let delay = match state.slots.is_waiting(&key) {
                true => while_waiting,
                false => delay,
            };
            let due = now.checked_add(delay.min(LONGEST_DELAY)).unwrap_or(now);
            state.add(key, priority, due, now);
        });
    }

    /// Adds a key whose reconcile failed, due after its back-off, and after `at_least`.
    pub fn add_rate_limited(&self, key: K, at_least: Duration) {
        self.metrics.retries.inc();
        self.shared.change(|state, now| {
            let delay = state.backoff.next_delay(key.clone()).max(at_least);
            state.retry(key, delay, now);
        });
    }

    /// Ends the back-off of a key: its reconcile succeeded.
    pub fn forget(&self, key: &K) {
        self.shared.lock().backoff.forget(key);
    }

    /// Drops a key and its back-off: the object is deleted. A worker that has the key finishes and
    /// calls [`Queue::done`] as usual.
    pub fn remove(&self, key: &K) {
        let mut state = self.shared.lock();
        state.backoff.forget(key);
        state.slots.remove(key);
    }

    /// Waits for the next key, which is the caller's until [`Queue::done`]; `None` once the
    /// queue is shut down. Cancel-safe: a call that is dropped has taken nothing.
    pub async fn get(&self) -> Option<K> {
        loop {
            // Registered before the look, so that a key added in between is not missed.
            let mut enqueued = pin!(self.shared.wake.notified());
            enqueued.as_mut().enable();
            let due = {
                let mut state = self.shared.lock();
                if state.shut_down {
                    return None;
                }
                if let Some((key, waited)) = state.slots.pop(Instant::now()) {
                    self.metrics.queue_duration.observe(waited.as_secs_f64());
                    return Some(key);
                }
                state.slots.next_due()
            };
            // Every waiting call keeps its own timer for the next delayed key: some wake in
            // vain, but none depends on another that may have been dropped or be busy.
            match due {
                None => enqueued.await,
                Some(due) => tokio::select! {
                    () = enqueued => {}
                    () = sleep_until(due) => {}
                },
            }
        }
    }

    /// The worker has finished a key that [`Queue::get`] returned.
    pub fn done(&self, key: &K) {
        self.shared.change(|state, now| {
            if let Some(worked) = state.slots.done(key, now) {
                self.metrics.work_duration.observe(worked.as_secs_f64());
            }
        });
    }

    /// From now on [`Queue::get`] returns `None` and nothing is added. Workers finish the keys that
    /// they have.
    pub fn shut_down(&self) {
        self.shared.lock().shut_down = true;
        self.shared.wake.notify_waiters();
    }

    /// The number of waiting keys: delayed ones included, those of workers excluded.
    pub fn len(&self) -> usize {
        self.shared.lock().slots.len()
    }

    /// Whether no key waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K: Clone + Eq + Hash> State<K> {
    fn retry(&mut self, key: K, delay: Duration, now: Instant) {
        let priority = self
            .slots
            .priority_in_work(&key)
            .unwrap_or(Priority::Normal);
        let due = now.checked_add(delay.min(LONGEST_DELAY)).unwrap_or(now);
        self.add(key, priority, due, now);
    }

    fn add(&mut self, key: K, priority: Priority, due: Instant, now: Instant) {
        if !self.shut_down {
            self.slots.add(key, priority, due, now);
        }
    }
}

impl<K> Shared<K> {
    fn lock(&self) -> MutexGuard<'_, State<K>> {
        // Nothing panics while it holds the lock; if it did, the maps would still be sound.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash> Shared<K> {
    /// Makes a change and notifies the workers that it concerns.
    fn change(&self, change: impl FnOnce(&mut State<K>, Instant)) {
        let mut state = self.lock();
        let (available, due) = (state.slots.available(), state.slots.next_due());
        change(&mut state, Instant::now());
        let became_available = state.slots.available().saturating_sub(available);
        let is_earlier = match (state.slots.next_due(), due) {
            (Some(now), Some(before)) => now < before,
            (now, before) => now.is_some() && before.is_none(),
        };
        drop(state);
        if is_earlier {
            self.wake.notify_waiters();
        }
        for _ in 0..became_available {
            self.wake.notify_one();
        }
    }
}

impl<K: Clone + Eq + Hash + Send + 'static> ObserveBacklog for Shared<K> {
    fn backlog(&self) -> Backlog {
        self.lock().slots.backlog(Instant::now())
    }
}

impl<K> fmt::Debug for Queue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
