//! The API server's clock, by which certificates are judged: it is the client that checks
//! their dates, and a node's own clock may be wrong. See docs/decisions/0007.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::{SignedDuration, Timestamp};

use crate::api_server::http_date;

/// The time of the API server, or of this machine as long as there was no answer. Clones share
/// what they know.
#[derive(Debug, Clone, Default)]
pub(super) struct ServerTime {
    /// Seconds by which the API server is ahead of this machine.
    ahead: Arc<AtomicI64>,
}

impl ServerTime {
    /// Takes note of the `Date` of an answer (RFC 9110 §5.6.7).
    pub(super) fn observe(&self, date: Option<&str>) {
        self.observe_at(date, Timestamp::now());
    }

    fn observe_at(&self, date: Option<&str>, now: Timestamp) {
        let date = date.and_then(http_date);
        if let Some(date) = date {
            let ahead = date.as_second() - now.as_second();
            // A date has whole seconds, and the answer took its time.
            let ahead = if ahead.abs() <= 2 { 0 } else { ahead };
            self.ahead.store(ahead, Ordering::Relaxed);
        }
    }

    /// What the API server's clock says now.
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
        // What is no date changes nothing.
        assert_eq!(seen(Some("today")), "2026-01-31T11:00:01Z");
        assert_eq!(seen(None), "2026-01-31T11:00:01Z");
    }
}
