//! The fence in front of the controllers' writes: open while the lease was renewed within the
//! renew deadline, by a clock that runs while the process or the machine is stopped.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::candidate::Timing;
use super::clock::Moment;

/// The election writes it. Each write reads it before it starts and while it runs.
pub(crate) struct Fence {
    /// Time in nanoseconds from which no write may start; 0 if none may.
    closes: AtomicU64,
    /// How long after `closes` a running write may go on: the lease duration without the renew deadline.
    gap: Duration,
    clock: fn() -> Moment,
}

impl Fence {
    /// A closed fence.
    pub(crate) fn new(timing: Timing, clock: fn() -> Moment) -> Self {
        Fence {
            closes: AtomicU64::new(0),
            gap: timing.lease_duration.saturating_sub(timing.renew_deadline),
            clock,
        }
    }

    /// Open until this moment, or closed.
    pub(crate) fn set(&self, closes: Option<Moment>) {
        let nanoseconds = closes.map_or(0, |moment| moment.0.as_nanos());
        let nanoseconds = u64::try_from(nanoseconds).unwrap_or(u64::MAX);
        self.closes.store(nanoseconds, Ordering::Release);
    }

    /// Maximum duration of a write that starts now; `None` if it must not start.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        let closes = Moment(Duration::from_nanos(self.closes.load(Ordering::Acquire)));
        let now = (self.clock)();
        (now < closes).then(|| (closes + self.gap).since(now))
    }
}
