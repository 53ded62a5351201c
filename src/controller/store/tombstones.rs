//! Which objects are gone, for a minute: the answer to a write may come in after the watch
//! told of the deletion, and must not bring the object back, since nothing would ever remove
//! it again.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

/// How long the answer to a write may come in after a deletion or a list: longer than the
/// deadline of any call of ours.
pub(in crate::controller) const KEPT_FOR: Duration = Duration::from_secs(60);

/// UIDs of objects that were deleted within the last minute, and the resource version of
/// their deletion.
#[derive(Debug, Default)]
pub(super) struct Tombstones {
    versions: HashMap<Box<str>, u64>,
    /// When each is forgotten, soonest first; may name one that is forgotten already.
    forget: VecDeque<(Instant, Box<str>)>,
}

impl Tombstones {
    pub(super) fn add(&mut self, uid: &str, version: u64, now: Instant) {
        self.expire(now);
        let known = self.versions.entry(uid.into()).or_default();
        *known = version.max(*known);
        self.forget.push_back((now + KEPT_FOR, uid.into()));
    }

    /// The watch shows it again: it was not deleted, only its label was removed for a while.
    pub(super) fn remove(&mut self, uid: &str) {
        self.versions.remove(uid);
    }

    /// Whether the object was deleted at `version` or later.
    pub(super) fn covers(&mut self, uid: &str, version: u64, now: Instant) -> bool {
        self.expire(now);
        self.versions.get(uid).is_some_and(|deleted| *deleted >= version)
    }

    fn expire(&mut self, now: Instant) {
        while self.forget.front().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, uid)) = self.forget.pop_front() {
                self.versions.remove(&uid);
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
        assert!(!tombstones.covers("a", 9, now + KEPT_FOR));
        assert!(tombstones.versions.is_empty() && tombstones.forget.is_empty());
    }
}
