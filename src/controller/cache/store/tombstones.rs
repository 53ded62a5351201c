//! Remembers deleted objects for a minute: the answer to a write may arrive after the watch has
//! reported the deletion. Without a tombstone it would restore the object, which nothing would remove
//! again.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

/// How long the answer to a write may arrive after a deletion or a list: longer than the deadline of
/// any call.
pub(crate) const MAX_ANSWER_DELAY: Duration = Duration::from_secs(60);

/// UIDs of objects that were deleted within the last minute.
#[derive(Debug, Default)]
pub(super) struct Tombstones {
    by_uid: HashMap<Box<str>, Tombstone>,
    /// In the order of insertion, and so of expiry; a UID that was deleted twice occurs twice.
    order: VecDeque<(Instant, Box<str>)>,
}

#[derive(Debug)]
struct Tombstone {
    /// Resource version of the deletion. Later states are not covered: a watch with a selector also
    /// reports a removed label as a deletion.
    version: u64,
    until: Instant,
}

impl Tombstones {
    pub(super) fn add(&mut self, uid: &str, version: u64, now: Instant) {
        self.expire(now);
        let until = now + MAX_ANSWER_DELAY;
        self.by_uid.insert(uid.into(), Tombstone { version, until });
        self.order.push_back((until, uid.into()));
    }

    /// Whether the object was deleted at `version` or later.
    pub(super) fn covers(&mut self, uid: &str, version: u64, now: Instant) -> bool {
        self.expire(now);
        self.by_uid
            .get(uid)
            .is_some_and(|tombstone| tombstone.version >= version)
    }

    fn expire(&mut self, now: Instant) {
        while let Some((until, uid)) = self.order.pop_front_if(|(until, _)| *until <= now) {
            if self
                .by_uid
                .get(&uid)
                .is_some_and(|tombstone| tombstone.until == until)
            {
                self.by_uid.remove(&uid);
            }
        }
    }
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
        assert!(tombstones.by_uid.is_empty() && tombstones.order.is_empty());
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
