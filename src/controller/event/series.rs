//! Which events become objects: equal ones within six minutes are one object with a count,
//! as with client-go's recorder, and one resource has no more than it is allowed. Pure: the
//! clock comes in.
//!
//! Source: client-go `tools/events/event_broadcaster.go`.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::{Event, Notice, Regarding};

/// An event that is not repeated for this long is over; the next one is a new object.
const FINISHED: Duration = Duration::from_secs(6 * 60);
/// The count of a series is written at most this often.
const REFRESH: Duration = Duration::from_secs(60);
/// Objects that one resource may have at once, and the time after which it may have one more.
const BURST: u32 = 10;
const REFILL: Duration = Duration::from_secs(60);
/// Most series and most resources that are remembered, as client-go's cache.
const REMEMBERED: usize = 4096;

/// What to do about an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ErrorClass {
    /// It is a new object.
    Create,
    /// It is counted, and the count is due to be written.
    Count,
    /// It is counted, and the count is written later.
    Wait,
    /// The resource has had enough.
    Suppress,
}

/// One event that happened once or more.
#[derive(Debug)]
pub(super) struct Series {
    /// Name of the object.
    pub(super) name: String,
    /// How often it happened.
    pub(super) count: u32,
    /// When it last happened.
    pub(super) last: Timestamp,
    seen: Instant,
    written: Instant,
    is_due: bool,
}

/// Equal events.
pub(super) type Key = (Regarding, Notice);

/// What is remembered of recent events.
#[derive(Debug, Default)]
pub(super) struct Correlator {
    series: HashMap<Key, Series>,
    /// By UID: objects that were made, and when the last was refunded.
    spent: HashMap<String, (u32, Instant)>,
}

impl Correlator {
    /// Takes note of `event`.
    pub(super) fn observe(&mut self, event: &Event, now: Instant) -> ErrorClass {
        let key = (event.regarding.clone(), event.notice.clone());
        if let Some(series) = self.series.get_mut(&key)
            && now < series.seen + FINISHED
        {
            series.count = series.count.saturating_add(1);
            series.last = event.at;
            series.seen = now;
            series.is_due = true;
            let is_first = series.count == 2;
            return match is_first || now >= series.written + REFRESH {
                true => ErrorClass::Count,
                false => ErrorClass::Wait,
            };
        }
        if !self.spend(&event.regarding.uid, now) {
            return ErrorClass::Suppress;
        }
        if self.series.len() >= REMEMBERED {
            let oldest = self.series.iter().min_by_key(|(_, series)| series.seen);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                self.series.remove(&oldest);
            }
        }
        let series = Series {
            name: event.object_name(),
            count: 1,
            last: event.at,
            seen: now,
            written: now,
            is_due: false,
        };
        self.series.insert(key, series);
        ErrorClass::Create
    }

    /// The series of `key`.
    pub(super) fn series(&self, key: &Key) -> Option<&Series> {
        self.series.get(key)
    }

    /// The count of `key` was written, or could not be: it is not tried again before the next
    /// event or the next time that is due.
    pub(super) fn written(&mut self, key: &Key, now: Instant) {
        if let Some(series) = self.series.get_mut(key) {
            series.written = now;
            series.is_due = false;
        }
    }

    /// The object of `key` is not there: the next equal event makes another.
    pub(super) fn forget(&mut self, key: &Key) {
        self.series.remove(key);
    }

    /// When the next count is due; `None` if none is waiting.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let waiting = self.series.values().filter(|series| series.is_due);
        waiting.map(|series| series.written + REFRESH).min()
    }

    /// The series whose counts are due now. Forgets what is over.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Key> {
        self.series
            .retain(|_, series| series.is_due || now < series.seen + FINISHED);
        let is_due = |series: &Series| series.is_due && now >= series.written + REFRESH;
        let due = self.series.iter().filter(|(_, series)| is_due(series));
        due.map(|(key, _)| key.clone()).collect()
    }

    /// All series whose counts wait.
    pub(super) fn waiting(&self) -> Vec<Key> {
        let waiting = self.series.iter().filter(|(_, series)| series.is_due);
        waiting.map(|(key, _)| key.clone()).collect()
    }

    /// Whether `uid` may have one more object.
    fn spend(&mut self, uid: &str, now: Instant) -> bool {
        if self.spent.len() >= REMEMBERED && !self.spent.contains_key(uid) {
            let refunded = REFILL * BURST;
            self.spent.retain(|_, (_, since)| now < *since + refunded);
        }
        if self.spent.len() >= REMEMBERED && !self.spent.contains_key(uid) {
            return false;
        }
        let (spent, since) = self.spent.entry(uid.to_owned()).or_insert((0, now));
        while *spent > 0 && now >= *since + REFILL {
            *spent -= 1;
            *since += REFILL;
        }
        if *spent == 0 {
            *since = now;
        }
        if *spent >= BURST {
            return false;
        }
        *spent += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::*;

    fn event(uid: &str, reason: &str) -> Event {
        Event {
            regarding: Regarding {
                api_version: "cache.example.com/v1".to_owned(),
                kind: "Memcached",
                namespace: "ns".to_owned(),
                name: "cache".to_owned(),
                uid: uid.to_owned(),
            },
            notice: Notice {
                severity: Severity::Warning,
                reason: reason.to_owned(),
                note: "why".to_owned(),
            },
            at: Timestamp::now(),
        }
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn equal_events_are_one_object_whose_count_is_written_at_once_and_then_once_a_minute() {
        let (mut correlator, start) = (Correlator::default(), Instant::now());
        let event = event("u", "NameConflict");
        let key = (event.regarding.clone(), event.notice.clone());
        assert_eq!(correlator.observe(&event, start), ErrorClass::Create);
        assert_eq!(correlator.next_due(), None, "nothing to write, no clock");
        assert_eq!(
            correlator.observe(&event, start + SECOND),
            ErrorClass::Count
        );
        correlator.written(&key, start + SECOND);
        for second in 2..50 {
            let now = start + second * SECOND;
            assert_eq!(correlator.observe(&event, now), ErrorClass::Wait);
        }
        assert_eq!(correlator.next_due(), Some(start + 61 * SECOND));
        assert!(correlator.due(start + 60 * SECOND).is_empty());
        assert_eq!(
            correlator.due(start + 61 * SECOND),
            std::slice::from_ref(&key)
        );
        assert_eq!(correlator.series(&key).map(|series| series.count), Some(50));
        correlator.written(&key, start + 61 * SECOND);
        assert_eq!(correlator.next_due(), None);
    }

    #[test]
    fn what_was_not_repeated_for_six_minutes_is_over() {
        let (mut correlator, start) = (Correlator::default(), Instant::now());
        let event = event("u", "NameConflict");
        correlator.observe(&event, start);
        assert_eq!(
            correlator.observe(&event, start + FINISHED),
            ErrorClass::Create
        );
        assert!(correlator.due(start + 2 * FINISHED).is_empty());
        assert!(correlator.series.is_empty());
    }

    #[test]
    fn one_resource_has_ten_objects_and_one_more_a_minute_and_others_have_theirs() {
        let (mut correlator, start) = (Correlator::default(), Instant::now());
        let observe = |correlator: &mut Correlator, uid, number: u32, now| {
            correlator.observe(&event(uid, &format!("Reason{number}")), now)
        };
        for number in 0..BURST {
            assert_eq!(
                observe(&mut correlator, "u", number, start),
                ErrorClass::Create
            );
        }
        assert_eq!(
            observe(&mut correlator, "u", 10, start),
            ErrorClass::Suppress
        );
        assert_eq!(observe(&mut correlator, "v", 10, start), ErrorClass::Create);
        let later = start + 2 * REFILL;
        assert_eq!(observe(&mut correlator, "u", 11, later), ErrorClass::Create);
        assert_eq!(observe(&mut correlator, "u", 12, later), ErrorClass::Create);
        assert_eq!(
            observe(&mut correlator, "u", 13, later),
            ErrorClass::Suppress
        );
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (mut correlator, start) = (Correlator::default(), Instant::now());
        for number in 0..2 * REMEMBERED {
            correlator.observe(&event(&number.to_string(), "NameConflict"), start);
        }
        assert!(correlator.series.len() <= REMEMBERED && correlator.spent.len() <= REMEMBERED);
    }
}
