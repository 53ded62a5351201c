//! The pause after a check of the cluster, and the log of its error.

use std::error::Error;
use std::future::pending;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::{Instant, sleep};

use super::identity::Identity;
use crate::api_server::exponential;
use quartet_http::error_report;

/// Minimum and maximum pause after a failure; it doubles in between.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Pauses that double after each failure.
#[derive(Default)]
pub(super) struct Retry {
    failures: u32,
    writes: u32,
}

impl Retry {
    /// The pause after another failure, with jitter, so that two conflicting replicas do not conflict
    /// again.
    pub(super) fn pause(&mut self) -> Duration {
        let doubled = exponential(RETRY.0, self.failures, RETRY.1);
        self.failures += 1;
        doubled.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// The pause after another consecutive write: none at first. It bounds the loop if the API server
    /// does not store what is written.
    pub(super) fn after_write(&mut self) -> Duration {
        self.writes += 1;
        match self.writes {
            0..=3 => Duration::ZERO,
            _ => self.pause(),
        }
    }
}

/// How often the clock is read during a pause.
const CLOCK_CHECK: Duration = Duration::from_secs(60);

/// Completes when the pair is no longer valid by this machine's clock, although it was: the clock was set,
/// or the machine was suspended. Timers do not notice that.
pub(super) async fn expired(serving: Option<&Identity>) {
    let is_valid = || serving.is_some_and(|pair| pair.is_valid_at(Timestamp::now()));
    if !is_valid() {
        return pending().await;
    }
    while is_valid() {
        sleep(CLOCK_CHECK).await;
    }
}

/// How often an error that lasts is logged again: logs are rotated.
const REPEAT: Duration = Duration::from_secs(60 * 60);

/// The last error of something that is retried, and when it was logged. The same error is logged once an
/// hour.
#[derive(Default)]
pub(super) struct LastError(Option<(String, Instant)>);

impl LastError {
    /// Logs `error` after `message`, unless it is the last one of this hour.
    pub(super) fn warn(&mut self, error: &dyn Error, message: &str) {
        let error = error_report(error);
        if self.is_due(&error) {
            tracing::warn!(error, "{message}");
        }
    }

    fn is_due(&mut self, error: &str) -> bool {
        let is_told = |(last, at): &(String, Instant)| last == error && at.elapsed() < REPEAT;
        let is_due = !self.0.as_ref().is_some_and(is_told);
        if is_due {
            self.0 = Some((error.to_owned(), Instant::now()));
        }
        is_due
    }

    /// It succeeded: the next error is logged.
    pub(super) fn clear(&mut self) {
        self.0 = None;
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use jiff::SignedDuration;

    use super::super::issue::issue;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_pair_that_is_no_longer_valid_by_the_clock_is_noticed() {
        let names = ["a.b.svc".to_owned()];
        let now = Timestamp::now();
        let end = |now| issue(&names, now).unwrap().pair.validity().not_after;
        let begun = now - end(now).duration_since(now) + SignedDuration::from_secs(1);
        let pair = issue(&names, begun).unwrap();
        expired(Some(&pair)).await;
        assert!(Timestamp::now() > pair.pair.validity().not_after);
        // It was not valid before: the API server's clock decides.
        assert!(expired(Some(&pair)).now_or_never().is_none());
        assert!(expired(None).now_or_never().is_none());
    }

    #[test]
    fn pauses_grow_from_a_second_to_a_minute() {
        let mut retry = Retry::default();
        for longest in [1, 2, 4, 8, 16, 32, 60, 60] {
            let longest = Duration::from_secs(longest);
            let pause = retry.pause();
            assert!(pause <= longest && pause >= longest / 2, "{pause:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_that_lasts_is_logged_once_an_hour() {
        let mut last = LastError::default();
        let mut due = [(); 4].map(|()| last.is_due("forbidden"));
        assert_eq!(due, [true, false, false, false]);
        tokio::time::advance(REPEAT).await;
        due = ["forbidden", "forbidden", "gone", "forbidden"].map(|error| last.is_due(error));
        assert_eq!(due, [true, false, true, true]);
        last.clear();
        assert!(last.is_due("forbidden"));
    }

    #[test]
    fn writes_that_lead_nowhere_slow_down() {
        let mut retry = Retry::default();
        let pauses: Vec<_> = (0..5).map(|_| retry.after_write()).collect();
        assert_eq!(pauses[..3], [Duration::ZERO; 3]);
        assert!(pauses[3] >= RETRY.0 / 2 && pauses[4] >= RETRY.0);
    }
}
