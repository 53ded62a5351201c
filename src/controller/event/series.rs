//! Aggregates Events: equal ones within six minutes are one object with a count, as in client-go's
//! recorder, and each resource has a limited number. Pure; the time is an argument.
//!
//! Source: client-go `tools/events/event_broadcaster.go`.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::object::{Event, Key};

/// A series ends when it is not repeated for this long; the next event is a new object.
const FINISHED: Duration = Duration::from_secs(6 * 60);
/// Minimum interval of writes of a series' count.
pub(super) const REFRESH: Duration = Duration::from_secs(60);
/// Token bucket per resource: the number of objects, and the time to refill one.
const BURST: u32 = 10;
const REFILL: Duration = Duration::from_secs(60);
/// Maximum number of series and resources in memory, as in client-go's cache.
const REMEMBERED: usize = 4096;

/// What to do with an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Create a new object.
    Create,
    /// Counted, and the count is due to be written.
    Count,
    /// Counted; the count is written later.
    Wait,
    /// Dropped: the resource has reached its limit.
    Suppress,
}

/// A series of equal events.
#[derive(Debug)]
pub(super) struct Series {
    /// Name of the object.
    pub(super) name: String,
    /// Number of occurrences.
    pub(super) count: u32,
    /// Time of the last occurrence.
    pub(super) last: Timestamp,
    seen: Instant,
    written: Instant,
    is_due: bool,
}

/// Recent series and the limits of resources.
#[derive(Debug, Default)]
pub(super) struct Correlator {
    series: HashMap<Key, Series>,
    /// By UID: the number of created objects, and the time of the last refill.
    spent: HashMap<String, (u32, Instant)>,
}

impl Correlator {
    /// Records `event` and returns the action.
    pub(super) fn observe(&mut self, event: &Event, now: Instant) -> Action {
        if let Some(series) = self.series.get_mut(&event.key)
            && now < series.seen + FINISHED
        {
            series.count = series.count.saturating_add(1);
            series.last = event.at;
            series.seen = now;
            series.is_due = true;
            let is_first = series.count == 2;
            return match is_first || now >= series.written + REFRESH {
                true => Action::Count,
                false => Action::Wait,
            };
        }
        if !self.spend(&event.key.regarding.uid, now) {
            return Action::Suppress;
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
        self.series.insert(event.key.clone(), series);
        Action::Create
    }

    /// The series of `key`.
    pub(super) fn series(&self, key: &Key) -> Option<&Series> {
        self.series.get(key)
    }

    /// The count of `key` was written, or the write failed: the next write is after the next event or
    /// at the next due time.
    pub(super) fn written(&mut self, key: &Key, now: Instant) {
        if let Some(series) = self.series.get_mut(key) {
            series.written = now;
            series.is_due = false;
        }
    }

    /// The object of `key` does not exist: the next equal event creates another one.
    pub(super) fn forget(&mut self, key: &Key) {
        self.series.remove(key);
    }

    /// When the next count is due; `None` if there is none.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let waiting = self.series.values().filter(|series| series.is_due);
        waiting.map(|series| series.written + REFRESH).min()
    }

    /// The series whose counts are due at `now`. Removes ended series.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Key> {
        self.series
            .retain(|_, series| series.is_due || now < series.seen + FINISHED);
        let is_due = |series: &Series| series.is_due && now >= series.written + REFRESH;
        let due = self.series.iter().filter(|(_, series)| is_due(series));
        due.map(|(key, _)| key.clone()).collect()
    }

    /// Whether `uid` may have another object.
    fn spend(&mut self, uid: &str, now: Instant) -> bool {
        if self.spent.len() >= REMEMBERED && !self.spent.contains_key(uid) {
            let refunded = REFILL * BURST;
            self.spent.retain(|_, (_, since)| now < *since + refunded);
        }
        if self.spent.len() >= REMEMBERED && !self.spent.contains_key(uid) {
            // As for series: the others are told, too.
            let oldest = self.spent.iter().min_by_key(|(_, (_, since))| *since);
            if let Some(oldest) = oldest.map(|(uid, _)| uid.clone()) {
                self.spent.remove(&oldest);
            }
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
    use super::super::{Notice, Regarding, Severity};
    use super::*;

    fn event(uid: &str, reason: &str) -> Event {
        let regarding = Regarding {
            api_version: "cache.example.com/v1".to_owned(),
            kind: "Memcached",
            namespace: "ns".to_owned(),
            name: "cache".to_owned(),
            uid: uid.to_owned(),
        };
        let notice = Notice {
            severity: Severity::Warning,
            reason: reason.to_owned(),
            note: "why".to_owned(),
        };
        Event {
            key: Key { regarding, notice },
            at: Timestamp::now(),
        }
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn equal_events_are_one_object_whose_count_is_written_once_a_minute() {
        let (mut correlator, start) = (Correlator::default(), Instant::now());
        let event = event("u", "NameConflict");
        let key = event.key.clone();
        assert_eq!(correlator.observe(&event, start), Action::Create);
        assert_eq!(correlator.next_due(), None, "nothing to write, no clock");
        assert_eq!(correlator.observe(&event, start + SECOND), Action::Count);
        correlator.written(&key, start + SECOND);
        for second in 2..50 {
            let now = start + second * SECOND;
            assert_eq!(correlator.observe(&event, now), Action::Wait);
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
        assert_eq!(correlator.observe(&event, start + FINISHED), Action::Create);
        assert!(correlator.due(start + 2 * FINISHED - REFRESH).is_empty());
        assert_eq!(correlator.series.len(), 1, "not over yet");
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
            assert_eq!(observe(&mut correlator, "u", number, start), Action::Create);
        }
        assert_eq!(observe(&mut correlator, "u", 10, start), Action::Suppress);
        assert_eq!(observe(&mut correlator, "v", 10, start), Action::Create);
        let later = start + 2 * REFILL;
        assert_eq!(observe(&mut correlator, "u", 11, later), Action::Create);
        assert_eq!(observe(&mut correlator, "u", 12, later), Action::Create);
        assert_eq!(observe(&mut correlator, "u", 13, later), Action::Suppress);
    }

    #[test]
    fn a_resource_that_was_quiet_has_ten_objects_again_and_no_more() {
        let (mut correlator, start) = (Correlator::default(), Instant::now());
        assert!(correlator.spend("u", start));
        let later = start + 10 * REFILL;
        for _ in 0..BURST {
            assert!(correlator.spend("u", later));
        }
        assert!(!correlator.spend("u", later));
    }

    #[test]
    fn more_resources_than_are_remembered_have_events_and_the_oldest_is_forgotten() {
        let (mut correlator, start) = (Correlator::default(), Instant::now());
        for number in 0..REMEMBERED {
            let now = start + SECOND.mul_f64(number as f64 / REMEMBERED as f64);
            assert!(correlator.spend(&number.to_string(), now));
        }
        assert!(correlator.spend("new", start + SECOND));
        assert!(!correlator.spent.contains_key("0") && correlator.spent.contains_key("1"));
        assert_eq!(correlator.spent.len(), REMEMBERED);
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
