//! What goes wrong with the events of a watch: plain data.

use std::ops::RangeBounds;

use serde_json::Value;

use crate::request::{Match, Target};
use crate::rule::Numbers;

/// What happens to an event of a watch.
#[derive(Debug, Clone)]
pub enum EventAction {
    /// It is left out.
    Drop,
    /// It is left out, and the watch ends in front of it: the client continues from what it was
    /// told last, and hears of it then.
    DropAndEnd,
    /// It comes twice.
    Duplicate,
    /// It comes, and after it once more everything that this watch has told so far, up to 64
    /// events: what is long past, and a DELETED before the ADDED of the same object.
    Replay,
    /// It and all that follow it on the same watch come when the rule is removed.
    Hold,
    /// As [`EventAction::Hold`], or when the API server obeys a request like this, through this
    /// proxy and after the event was met. The rule holds nothing afterwards.
    HoldUntil(Match),
    /// In its place comes an ERROR event with the code 410, and the end.
    Gone,
    /// Half of it comes, and the end.
    Half,
    /// Another value stands at this JSON pointer of the event, if there is any there.
    Edit(&'static str, Value),
    /// It comes in a line that is longer by this many bytes.
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
    /// What happens to each event of the watches, and of the object, that match.
    pub fn new(watches: Match, action: EventAction) -> Self {
        EventRule {
            matches: watches,
            kinds: Vec::new(),
            numbers: Numbers::ALL,
            action,
        }
    }

    /// Only to events of this type: ADDED, MODIFIED, DELETED, BOOKMARK. Further ones add up.
    #[must_use]
    pub fn only(mut self, kind: &'static str) -> Self {
        self.kinds.push(kind);
        self
    }

    /// Only to these of the matching events, counted from 1 since the installation.
    #[must_use]
    pub fn nth(mut self, numbers: impl RangeBounds<u64>) -> Self {
        self.numbers = Numbers::of(numbers);
        self
    }

    /// Whether a request that was obeyed ends what this holds.
    pub(crate) fn is_released_by(&self, target: &Target) -> bool {
        matches!(&self.action, EventAction::HoldUntil(until) if until.holds(target))
    }

    pub(crate) fn holds(&self, target: &Target, kind: &str, name: &str) -> bool {
        self.matches.holds_but_for_the_name(target)
            && self.matches.holds_for_the_name(name)
            && (self.kinds.is_empty() || self.kinds.contains(&kind))
    }
}
