//! The clock of the election. It is monotonic and counts the time while the machine is suspended.

use std::ops::Add;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A time on this machine, since its start. It cannot be compared with times of other machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Moment(pub Duration);

/// `CLOCK_MONOTONIC`, by which tokio's timers go, stands still on Linux while the machine is
/// suspended; elsewhere it does not.
#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

impl Moment {
    /// The current time.
    pub(crate) fn now() -> Self {
        let time = clock_gettime(CLOCK);
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or_default();
        Moment(Duration::new(seconds, nanoseconds))
    }

    /// The time from `earlier` to this moment; zero if that is not earlier.
    pub(crate) fn since(self, earlier: Moment) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Moment;

    fn add(self, duration: Duration) -> Moment {
        Moment(self.0.saturating_add(duration))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_goes_forward_from_the_start_of_the_machine() {
        let (one, two) = (Moment::now(), Moment::now());
        assert!(one <= two && one > Moment(Duration::ZERO));
        assert_eq!(one.since(one + Duration::from_secs(1)), Duration::ZERO);
        assert!((one + Duration::MAX).since(one) > Duration::from_secs(1 << 40));
    }
}
