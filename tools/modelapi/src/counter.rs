//! A number that one may wait for.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// A number that only grows. Those that wait are woken in the order in which they came, which a
/// `tokio::sync::watch` does not promise: a run must be the same each time.
#[derive(Debug, Default)]
pub struct Counter {
    value: AtomicU64,
    changed: Notify,
}

impl Counter {
    /// The number now.
    pub fn get(&self) -> u64 {
        self.value.load(Ordering::SeqCst)
    }

    /// Adds one; returns what it was before.
    pub fn next(&self) -> u64 {
        let before = self.value.fetch_add(1, Ordering::SeqCst);
        self.changed.notify_waiters();
        before
    }

    pub(crate) fn set(&self, value: u64) {
        self.value.store(value, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    /// Waits until it is at least `value`.
    pub async fn reaches(&self, value: u64) {
        loop {
            let changed = self.changed.notified();
            let mut changed = std::pin::pin!(changed);
            // From here on nothing is missed.
            changed.as_mut().enable();
            if self.get() >= value {
                return;
            }
            changed.await;
        }
    }
}
