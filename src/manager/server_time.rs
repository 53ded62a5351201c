//! The clock of the API server, which decides whether certificates are valid: the API server checks
//! their dates, and the clock of a node may be wrong. See docs/decisions/0007.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::{SignedDuration, Timestamp};

use crate::api_server::http_date;

/// The time of the API server, or of this machine before the first response. Clones share the state.
#[derive(Debug, Clone, Default)]
pub(super) struct ServerTime {
    /// Seconds by which the API server's clock is ahead of this machine's.
    ahead: Arc<AtomicI64>,
}

impl ServerTime {
    /// Records the `Date` of a response (RFC 9110 §5.6.7).
    pub(super) fn observe(&self, date: Option<&str>) {
        self.observe_at(date, Timestamp::now());
    }

    fn observe_at(&self, date: Option<&str>, now: Timestamp) {
        let date = date.and_then(http_date);
        if let Some(date) = date {
            let ahead = date.as_second() - now.as_second();
            // A date has whole seconds, and the response took some time.
            let ahead = if ahead.abs() <= 2 { 0 } else { ahead };
            self.ahead.store(ahead, Ordering::Relaxed);
        }
    }

    /// The current time of the API server.
    pub(super) fn now(&self) -> Timestamp {
        self.at(Timestamp::now())
    }

    fn at(&self, now: Timestamp) -> Timestamp {
        let ahead = SignedDuration::from_secs(self.ahead.load(Ordering::Relaxed));
        now.checked_add(ahead).unwrap_or(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_an_hour_behind_is_corrected_and_small_differences_are_not() {
        let now: Timestamp = "2026-01-31T10:00:00Z".parse().unwrap();
        let time = ServerTime::default();
        let seen = |date| {
            time.clone().observe_at(date, now);
            time.at(now).to_string()
        };
        assert_eq!(seen(None), "2026-01-31T10:00:00Z");
        assert_eq!(
            seen(Some("Sat, 31 Jan 2026 09:59:58 GMT")),
            "2026-01-31T10:00:00Z"
        );
        assert_eq!(
            seen(Some("Sat, 31 Jan 2026 11:00:01 GMT")),
            "2026-01-31T11:00:01Z"
        );
        // An invalid date changes nothing.
        assert_eq!(seen(Some("today")), "2026-01-31T11:00:01Z");
        assert_eq!(seen(None), "2026-01-31T11:00:01Z");
    }
}
