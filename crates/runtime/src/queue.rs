//! The work queue: client-go's `workqueue` with the priorities of controller-runtime's `priorityqueue`.
//! Holds keys, not objects.
//!
//! * One entry per key: adding a waiting key only raises its priority and makes it due earlier. So the
//!   queue is bounded by the number of objects, and needs no limit.
//! * A key in process is not handed out again. If it is added meanwhile, it is handed out after
//!   [`Queue::done`], in the order of the addition.
//! * FIFO within a priority, by the time at which a key became ready.
//! * A retry keeps the priority of the key.
//!
//! Used by `controllers`, `event_handlers` and `reconcile`.

mod slots;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

pub(crate) use self::slots::Priority;
use self::slots::Slots;
use crate::backoff::ObjectBackoff;
use crate::metrics::{Metrics, QueueMetrics};
use crate::object::ObjectKey;

/// The longest delay, to prevent an overflow of time.
const LONGEST_DELAY: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A work queue of keys, shared by event handlers and workers.
pub(crate) struct Queue {
    /// The metrics hold a weak reference, and read the backlog at each scrape.
    shared: Arc<Shared>,
    metrics: QueueMetrics,
}

#[derive(Default)]
struct Shared {
    /// Held for a few map operations and never across an await, so a blocking lock is cheaper.
    state: Mutex<State>,
    /// One permit for each key that becomes available. All waiters are notified when the next delayed
    /// key is due earlier than before.
    wake: Notify,
}

#[derive(Default)]
struct State {
    slots: Slots,
    backoff: ObjectBackoff,
}

impl Queue {
    /// An empty queue whose metrics carry `name` as labels `name` and `controller`.
    pub(crate) fn new(name: &str, metrics: &Metrics) -> Self {
        let shared = Arc::<Shared>::default();
        let observed = Arc::downgrade(&shared);
        let backlog = move || {
            let shared = observed.upgrade()?;
            Some(shared.state.lock().slots.backlog(Instant::now()))
        };
        let metrics = metrics.queue(name, Box::new(backlog));
        Queue { shared, metrics }
    }

    /// Adds a key that is ready now.
    pub(crate) fn add(&self, key: ObjectKey, priority: Priority) {
        self.add_later(key, priority, Duration::ZERO);
    }

    /// As [`Queue::add_later`], for workers: a key that was handed out with a low priority keeps it.
    pub(crate) fn add_after(&self, key: ObjectKey, delay: Duration) {
        self.metrics.retries.inc_by(u64::from(!delay.is_zero()));
        self.shared
            .change(|state, now| state.retry(key, delay, now));
    }

    /// Adds a key that is due after `delay`. Keeps an earlier due time.
    pub(crate) fn add_later(&self, key: ObjectKey, priority: Priority, delay: Duration) {
        self.shared
            .change(|state, now| state.add(key, priority, delay, now));
    }

    /// Adds a key whose reconcile failed, due after its back-off, at the latest after `at_most`.
    pub(crate) fn add_rate_limited(&self, key: ObjectKey, at_most: Option<Duration>) {
        self.metrics.retries.inc();
        self.shared.change(|state, now| {
            let delay = state.backoff.next_delay(key.clone());
            let delay = at_most.map_or(delay, |at_most| delay.min(at_most));
            state.retry(key, delay, now);
        });
    }

    /// Resets the back-off of a key after a success.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.shared.state.lock().backoff.forget(key);
    }

    /// The number of keys that are due and wait for a worker.
    pub(crate) fn ready(&self) -> usize {
        self.shared.state.lock().slots.available()
    }

    /// Removes a key and its back-off: the object was deleted. A worker that has the key finishes and
    /// calls [`Queue::done`] as usual.
    pub(crate) fn remove(&self, key: &ObjectKey) {
        let mut state = self.shared.state.lock();
        state.backoff.forget(key);
        state.slots.take(key);
    }

    /// Waits for the next key, which is in process until [`Queue::done`]. Cancel-safe: a dropped call takes
    /// no key.
    pub(crate) async fn get(&self) -> ObjectKey {
        loop {
            // Registered before the check, so that no key added in between is missed.
            let mut enqueued = pin!(self.shared.wake.notified());
            enqueued.as_mut().enable();
            let due = {
                let mut state = self.shared.state.lock();
                if let Some((key, waited)) = state.slots.pop(Instant::now()) {
                    self.metrics.queue_duration.observe(waited.as_secs_f64());
                    return key;
                }
                state.slots.next_due()
            };
            // Every waiting call has its own timer for the next delayed key. Some wake without a key,
            // but none depends on another one, which may be dropped or busy.
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
    pub(crate) fn done(&self, key: &ObjectKey) {
        self.shared.change(|state, now| {
            if let Some(worked) = state.slots.done(key, now) {
                self.metrics.work_duration.observe(worked.as_secs_f64());
            }
        });
    }
}

impl State {
    /// Adds a key again with the priority with which it was handed out.
    fn retry(&mut self, key: ObjectKey, delay: Duration, now: Instant) {
        let priority = self.slots.priority_in_work(&key);
        self.add(key, priority.unwrap_or(Priority::Normal), delay, now);
    }

    fn add(&mut self, key: ObjectKey, priority: Priority, delay: Duration, now: Instant) {
        let due = now.checked_add(delay.min(LONGEST_DELAY)).unwrap_or(now);
        self.slots.add(key, priority, due, now);
    }
}

impl Shared {
    /// Applies a change, and notifies the affected workers.
    fn change(&self, change: impl FnOnce(&mut State, Instant)) {
        let mut state = self.state.lock();
        let (available, due) = (state.slots.available(), state.slots.next_due());
        change(&mut state, Instant::now());
        let became_available = state.slots.available().saturating_sub(available);
        let next = state.slots.next_due();
        let is_earlier = next.is_some_and(|next| due.is_none_or(|before| next < before));
        drop(state);
        if is_earlier {
            self.wake.notify_waiters();
        }
        for _ in 0..became_available {
            self.wake.notify_one();
        }
    }
}

#[cfg(test)]
mod tests;
