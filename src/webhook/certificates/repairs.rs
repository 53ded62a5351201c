//! How often a caBundle that somebody else keeps overwriting is put back: at most once a
//! minute, or two controllers of different opinion would keep the API server busy. A bundle
//! that has not been written before is no repair and waits for nothing. No clock, no I/O.

use std::time::Duration;

use tokio::time::Instant;

/// The shortest time between two writes of the same bundle into one object.
pub(super) const REPAIR_INTERVAL: Duration = Duration::from_secs(60);

/// What was last written into each object.
#[derive(Debug)]
pub(super) struct Repairs {
    written: Vec<Option<(String, Instant)>>,
}

impl Repairs {
    /// For so many objects, into none of which anything has been written.
    pub(super) fn new(objects: usize) -> Self {
        Self {
            written: vec![None; objects],
        }
    }

    /// How long to wait before `bundle` may be written into an object that has another.
    pub(super) fn wait(&self, object: usize, bundle: &str, now: Instant) -> Duration {
        self.last(object, bundle)
            .map_or(Duration::ZERO, |last| (last + REPAIR_INTERVAL) - now)
    }

    /// `bundle` was written; whether that was a repair.
    pub(super) fn wrote(&mut self, object: usize, bundle: &str, now: Instant) -> bool {
        let repair = self.last(object, bundle).is_some();
        self.note(object, bundle, now);
        repair
    }

    /// `bundle` was not written, since somebody else changed the object. If it was to be a
    /// repair, that was probably another replica's, and counts as ours: so the minute holds
    /// for all replicas together.
    pub(super) fn met_another(&mut self, object: usize, bundle: &str, now: Instant) {
        if self.last(object, bundle).is_some() {
            self.note(object, bundle, now);
        }
    }

    fn last(&self, object: usize, bundle: &str) -> Option<Instant> {
        let (written, at) = self.written.get(object)?.as_ref()?;
        (written == bundle).then_some(*at)
    }

    fn note(&mut self, object: usize, bundle: &str, now: Instant) {
        if let Some(written) = self.written.get_mut(object) {
            *written = Some((bundle.to_owned(), now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_bundle_is_written_at_once_and_the_same_one_again_after_a_minute() {
        let start = Instant::now();
        let mut repairs = Repairs::new(2);
        assert_eq!(repairs.wait(0, "a", start), Duration::ZERO);
        assert!(!repairs.wrote(0, "a", start));
        assert_eq!(repairs.wait(0, "a", start), REPAIR_INTERVAL);
        assert_eq!(repairs.wait(0, "b", start), Duration::ZERO);
        assert_eq!(repairs.wait(1, "a", start), Duration::ZERO);
        let later = start + REPAIR_INTERVAL;
        assert_eq!(repairs.wait(0, "a", later), Duration::ZERO);
        assert!(repairs.wrote(0, "a", later));
        assert_eq!(repairs.wait(0, "a", later), REPAIR_INTERVAL);
    }

    #[test]
    fn another_replicas_repair_counts_but_a_first_write_is_tried_again() {
        let start = Instant::now();
        let mut repairs = Repairs::new(1);
        repairs.met_another(0, "a", start);
        assert_eq!(repairs.wait(0, "a", start), Duration::ZERO);
        repairs.wrote(0, "a", start);
        let later = start + REPAIR_INTERVAL;
        repairs.met_another(0, "a", later);
        assert_eq!(repairs.wait(0, "a", later), REPAIR_INTERVAL);
    }
}
