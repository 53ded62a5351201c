//! The faults of watch events: plain data.

use std::ops::RangeBounds;

use serde_json::Value;

use crate::request::{Match, Target};
use crate::rule::Numbers;

/// What happens to an event of a watch.
#[derive(Debug, Clone)]
pub enum EventAction {
    /// The event is dropped.
    Drop,
    /// The event is sent twice.
    Duplicate,
    /// The event is sent, followed again by everything that this watch has sent so far, up to 64
    /// events: outdated versions, and a DELETED before the ADDED of the same object.
    Replay,
    /// The event and all that follow on the same watch are held until the rule is removed.
    Hold,
    /// An ERROR event with the code 410 replaces it, and the watch ends.
    Gone,
    /// Half of the event is sent, and the watch ends.
    Half,
    /// The value at this JSON pointer of the event is replaced, if it exists.
    Edit(&'static str, Value),
    /// The event's line is longer by this many bytes.
    Pad(usize),
}

/// What happens to which events of watches.
#[derive(Debug, Clone)]
pub struct EventRule {
    matches: Match,
    /// ADDED, MODIFIED, DELETED or BOOKMARK; any if empty.
    kinds: Vec<&'static str>,
    pub(crate) numbers: Numbers,
    pub(crate) action: EventAction,
}

impl EventRule {
    /// Applies `action` to each event of matching watches and objects.
    pub fn new(watches: Match, action: EventAction) -> Self {
        EventRule {
            matches: watches,
            kinds: Vec::new(),
            numbers: Numbers::ALL,
            action,
        }
    }

    /// Restricts the rule to events of this type: ADDED, MODIFIED, DELETED, BOOKMARK. Repeated
    /// calls add types.
    #[must_use]
    pub fn only(mut self, kind: &'static str) -> Self {
        self.kinds.push(kind);
        self
    }

    /// Restricts the rule to these of the matching events, counted from 1 since the installation.
    #[must_use]
    pub fn nth(mut self, numbers: impl RangeBounds<u64>) -> Self {
        self.numbers = Numbers::of(numbers);
        self
    }

    pub(crate) fn holds(&self, target: &Target, kind: &str, name: &str) -> bool {
        self.matches.holds_but_for_the_name(target)
            && self.matches.holds_for_the_name(name)
            && (self.kinds.is_empty() || self.kinds.contains(&kind))
    }
}
