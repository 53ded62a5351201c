//! Remembers deleted objects for a minute: the answer to a write may arrive after the watch has
//! reported the deletion. Without a tombstone it would restore the object, which nothing would remove
//! again.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// How long the answer to a write may arrive after a deletion or a list: longer than the deadline of
/// any call.
pub(crate) const MAX_ANSWER_DELAY: Duration = Duration::from_secs(60);

/// UIDs of objects that were deleted within the last minute, each with the resource version of the
/// deletion, and its time. Later states are not covered: a watch with a selector also reports a removed
/// label as a deletion.
#[derive(Debug, Default)]
pub(super) struct Tombstones {
    by_uid: HashMap<Box<str>, (u64, Instant)>,
}

impl Tombstones {
    pub(super) fn add(&mut self, uid: &str, version: u64, now: Instant) {
        self.by_uid.retain(|_, (_, at)| is_recent(*at, now));
        self.by_uid.insert(uid.into(), (version, now));
    }

    /// Whether the object was deleted at `version` or later.
    pub(super) fn covers(&self, uid: &str, version: u64, now: Instant) -> bool {
        let tombstone = self.by_uid.get(uid);
        tombstone.is_some_and(|(deleted, at)| *deleted >= version && is_recent(*at, now))
    }
}

fn is_recent(then: Instant, now: Instant) -> bool {
    now < then + MAX_ANSWER_DELAY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deletion_covers_older_writes_for_a_minute() {
        let mut tombstones = Tombstones::default();
        let now = Instant::now();
        tombstones.add("a", 10, now);
        assert!(tombstones.covers("a", 9, now));
        assert!(tombstones.covers("a", 10, now));
        assert!(!tombstones.covers("a", 11, now));
        assert!(!tombstones.covers("b", 1, now));
        assert!(!tombstones.covers("a", 9, now + MAX_ANSWER_DELAY));
        tombstones.add("b", 12, now + MAX_ANSWER_DELAY);
        assert_eq!(tombstones.by_uid.len(), 1, "the first is forgotten");
    }

    #[test]
    fn a_second_deletion_starts_the_minute_anew() {
        let mut tombstones = Tombstones::default();
        let now = Instant::now();
        tombstones.add("a", 10, now);
        tombstones.add("a", 20, now + MAX_ANSWER_DELAY / 2);
        assert!(tombstones.covers("a", 15, now + MAX_ANSWER_DELAY));
        assert!(!tombstones.covers("a", 15, now + MAX_ANSWER_DELAY + MAX_ANSWER_DELAY / 2));
    }
}
