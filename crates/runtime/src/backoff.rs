//! Back-off delays: per object for the work queue, and per stream for the informers. Computes delays;
//! the callers wait.
//! Used by `cache` and `queue`.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

use quartet_http::exponential;

/// The first delay of an object: `DefaultTypedItemBasedRateLimiter` and
/// `DefaultTypedControllerRateLimiter` of client-go, `util/workqueue/default_rate_limiters.go`.
pub const BASE_DELAY: Duration = Duration::from_millis(5);

/// The longest delay of an object. client-go waits up to 1000 s; a resolved cause would then be noticed
/// a quarter of an hour later.
pub const MAX_DELAY: Duration = Duration::from_secs(60);

/// The first delay of a stream: client-go's reflector, `tools/cache/reflector.go`,
/// `NewReflectorWithOptions`; the same in `kube::runtime::watcher::DefaultBackoff`.
pub const STREAM_BASE_DELAY: Duration = Duration::from_millis(800);

/// The longest delay of a stream, from the same place.
pub const STREAM_MAX_DELAY: Duration = Duration::from_secs(30);

/// A stream without an error for this long is healthy again. client-go uses 2 minutes; after two
/// restarts of the API server, the delay would then be half a minute too long.
pub const STREAM_HEALED_AFTER: Duration = Duration::from_secs(10);

/// Consecutive failures per object, and the resulting delay: client-go's
/// `TypedItemExponentialFailureRateLimiter`.
///
/// Holds an entry for each object that failed since its last success: at most one per object, if
/// deleted objects are removed.
#[derive(Debug)]
pub struct ObjectBackoff<K> {
    failures: HashMap<K, u32>,
}

impl<K> Default for ObjectBackoff<K> {
    fn default() -> Self {
        ObjectBackoff {
            failures: HashMap::new(),
        }
    }
}

impl<K: Eq + Hash> ObjectBackoff<K> {
    /// Counts a failure and returns the delay until the retry: 5 ms · 2^n after n earlier consecutive
    /// failures, at most [`MAX_DELAY`].
    pub fn next_delay(&mut self, key: K) -> Duration {
        let failures = self.failures.entry(key).or_default();
        let delay = exponential(BASE_DELAY, *failures, MAX_DELAY);
        *failures = failures.saturating_add(1);
        delay
    }

    /// Removes the failures of an object after a success or its deletion.
    pub fn forget(&mut self, key: &K) {
        self.failures.remove(key);
    }
}

/// Consecutive errors of one stream, and the delay before it is polled again.
#[derive(Debug, Default)]
pub struct StreamBackoff {
    errors: u32,
    /// End of the last delay.
    resumed: Option<Instant>,
}

impl StreamBackoff {
    /// Counts an error at `now` and returns the delay: 0.8 s · 2^n, at most 30 s. The upper half is
    /// random, so that replicas and informers that lost the same API server do not reconnect at the
    /// same time.
    pub fn next_delay(&mut self, now: Instant) -> Duration {
        let healed = |resumed| now.saturating_duration_since(resumed) >= STREAM_HEALED_AFTER;
        if self.resumed.is_some_and(healed) {
            self.errors = 0;
        }
        let longest = exponential(STREAM_BASE_DELAY, self.errors, STREAM_MAX_DELAY);
        let delay = longest.mul_f64(0.5 + 0.5 * fastrand::f64());
        self.errors = self.errors.saturating_add(1);
        self.resumed = now.checked_add(delay);
        delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_of_an_object_double_from_5_ms_to_60_s() {
        let mut backoff = ObjectBackoff::default();
        let delays: Vec<u64> = (0..17)
            .map(|_| u64::try_from(backoff.next_delay("a").as_millis()).unwrap())
            .collect();
        assert_eq!(
            delays,
            [
                5, 10, 20, 40, 80, 160, 320, 640, 1_280, 2_560, 5_120, 10_240, 20_480, 40_960,
                60_000, 60_000, 60_000
            ]
        );
    }

    #[test]
    fn an_object_that_fails_for_ever_waits_60_s_each_time() {
        let mut backoff = ObjectBackoff::default();
        backoff.failures.insert("a", u32::MAX);
        assert_eq!(backoff.next_delay("a"), MAX_DELAY);
        assert_eq!(backoff.failures.get("a"), Some(&u32::MAX));
    }

    #[test]
    fn one_object_s_failures_do_not_delay_another() {
        let mut backoff = ObjectBackoff::default();
        for _ in 0..10 {
            backoff.next_delay("a");
        }
        assert_eq!(backoff.next_delay("b"), BASE_DELAY);
    }

    #[test]
    fn success_starts_an_object_s_delays_anew() {
        let mut backoff = ObjectBackoff::default();
        backoff.next_delay("a");
        backoff.next_delay("a");
        backoff.forget(&"a");
        assert!(backoff.failures.is_empty());
        assert_eq!(backoff.next_delay("a"), BASE_DELAY);
    }

    #[test]
    fn delays_of_a_stream_double_from_0_8_s_to_30_s_with_a_random_upper_half() {
        let mut backoff = StreamBackoff::default();
        let mut now = Instant::now();
        for longest in [800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000] {
            let longest = Duration::from_millis(longest);
            let delay = backoff.next_delay(now);
            assert!(
                delay >= longest / 2 && delay <= longest,
                "{delay:?} of {longest:?}"
            );
            now += delay;
        }
    }

    #[test]
    fn a_stream_that_worked_for_ten_seconds_starts_anew() {
        let mut backoff = StreamBackoff::default();
        let mut now = Instant::now();
        for _ in 0..8 {
            now += backoff.next_delay(now);
        }
        now += STREAM_HEALED_AFTER - Duration::from_millis(1);
        let not_yet = backoff.next_delay(now);
        assert!(not_yet >= STREAM_MAX_DELAY / 2);
        now += not_yet + STREAM_HEALED_AFTER;
        assert!(backoff.next_delay(now) <= STREAM_BASE_DELAY);
    }
}
