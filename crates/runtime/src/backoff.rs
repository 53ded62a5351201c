//! Back-off delays per object, for the work queue. Computes delays; the caller waits.
//! Used by `queue`.

use std::collections::HashMap;
use std::time::Duration;

use crate::object::ObjectKey;
use quartet_http::exponential;

/// The first delay of an object: `DefaultTypedItemBasedRateLimiter` and
/// `DefaultTypedControllerRateLimiter` of client-go, `util/workqueue/default_rate_limiters.go`.
pub(crate) const BASE_DELAY: Duration = Duration::from_millis(5);

/// The longest delay of an object. client-go waits up to 1000 s; a resolved cause would then be noticed
/// a quarter of an hour later.
pub(crate) const MAX_DELAY: Duration = Duration::from_secs(60);

/// Consecutive failures per object, and the resulting delay: client-go's
/// `TypedItemExponentialFailureRateLimiter`.
///
/// Holds an entry for each object that failed since its last success: at most one per object, if
/// deleted objects are removed.
#[derive(Debug, Default)]
pub(crate) struct ObjectBackoff {
    failures: HashMap<ObjectKey, u32>,
}

impl ObjectBackoff {
    /// Counts a failure and returns the delay until the retry: 5 ms · 2^n after n earlier consecutive
    /// failures, at most [`MAX_DELAY`].
    pub(crate) fn next_delay(&mut self, key: ObjectKey) -> Duration {
        let failures = self.failures.entry(key).or_default();
        let delay = exponential(BASE_DELAY, *failures, MAX_DELAY);
        *failures = failures.saturating_add(1);
        delay
    }

    /// Removes the failures of an object after a success or its deletion.
    pub(crate) fn forget(&mut self, key: &ObjectKey) {
        self.failures.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new("ns", name)
    }

    #[test]
    fn an_object_that_fails_for_ever_waits_60_s_each_time() {
        let mut backoff = ObjectBackoff::default();
        backoff.failures.insert(key("a"), u32::MAX);
        assert_eq!(backoff.next_delay(key("a")), MAX_DELAY);
        assert_eq!(backoff.failures.get(&key("a")), Some(&u32::MAX));
    }

    #[test]
    fn one_object_s_failures_do_not_delay_another() {
        let mut backoff = ObjectBackoff::default();
        for _ in 0..10 {
            backoff.next_delay(key("a"));
        }
        assert_eq!(backoff.next_delay(key("b")), BASE_DELAY);
    }

    #[test]
    fn success_starts_an_object_s_delays_anew() {
        let mut backoff = ObjectBackoff::default();
        backoff.next_delay(key("a"));
        backoff.next_delay(key("a"));
        backoff.forget(&key("a"));
        assert!(backoff.failures.is_empty());
        assert_eq!(backoff.next_delay(key("a")), BASE_DELAY);
    }
}
