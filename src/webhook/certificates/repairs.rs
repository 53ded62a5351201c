//! How often a caBundle that somebody else keeps overwriting is put back: at most once a
//! minute, or two controllers of different opinion would keep the API server busy. A bundle
//! that has not been in place before is no repair and waits for nothing. No clock, no I/O.

use std::time::Duration;

use tokio::time::Instant;

/// The shortest time between two repairs of one object.
pub(super) const REPAIR_INTERVAL: Duration = Duration::from_secs(60);

/// What is in place in each object, or was until somebody overwrote it.
#[derive(Debug)]
pub(super) struct Repairs {
    objects: Vec<Option<InPlace>>,
}

#[derive(Debug, Clone)]
struct InPlace {
    bundle: String,
    /// When it last had to be put back.
    repaired: Option<Instant>,
}

impl Repairs {
    /// For so many objects, of which nothing is known.
    pub(super) fn new(objects: usize) -> Self {
        Self {
            objects: vec![None; objects],
        }
    }

    /// `bundle` is in an object.
    pub(super) fn in_place(&mut self, object: usize, bundle: &str) {
        if self.last(object, bundle).is_none()
            && let Some(entry) = self.objects.get_mut(object)
        {
            *entry = Some(InPlace {
                bundle: bundle.to_owned(),
                repaired: None,
            });
        }
    }

    /// How long to wait before `bundle` may be written into an object that has another.
    pub(super) fn wait(&mut self, object: usize, bundle: &str, now: Instant) -> Duration {
        let repaired = self.last(object, bundle).and_then(|last| last.repaired);
        repaired.map_or(Duration::ZERO, |at| (at + REPAIR_INTERVAL) - now)
    }

    /// `bundle` was written; whether that was a repair.
    pub(super) fn wrote(&mut self, object: usize, bundle: &str, now: Instant) -> bool {
        let repair = self.last(object, bundle).is_some();
        self.met_another(object, bundle, now);
        self.in_place(object, bundle);
        repair
    }

    /// `bundle` was not written, since somebody else changed the object. If it was to be a
    /// repair, that was probably another replica's, and counts as ours, so that the minute
    /// holds for all replicas together.
    pub(super) fn met_another(&mut self, object: usize, bundle: &str, now: Instant) {
        if let Some(last) = self.last(object, bundle) {
            last.repaired = Some(now);
        }
    }

    /// The entry of an object, if it is about this bundle.
    fn last(&mut self, object: usize, bundle: &str) -> Option<&mut InPlace> {
        let last = self.objects.get_mut(object)?.as_mut()?;
        (last.bundle == bundle).then_some(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_bundle_and_its_first_repair_wait_for_nothing_the_next_one_for_a_minute() {
        let start = Instant::now();
        let mut repairs = Repairs::new(2);
        assert_eq!(repairs.wait(0, "a", start), Duration::ZERO);
        assert!(!repairs.wrote(0, "a", start), "the first write");
        assert_eq!(repairs.wait(0, "a", start), Duration::ZERO);
        assert!(repairs.wrote(0, "a", start), "the first repair");
        assert_eq!(repairs.wait(0, "a", start), REPAIR_INTERVAL);
        repairs.in_place(0, "a");
        assert_eq!(repairs.wait(0, "a", start), REPAIR_INTERVAL);
        assert_eq!(repairs.wait(0, "b", start), Duration::ZERO);
        assert_eq!(repairs.wait(1, "a", start), Duration::ZERO);
        let later = start + REPAIR_INTERVAL;
        assert_eq!(repairs.wait(0, "a", later), Duration::ZERO);
        assert!(repairs.wrote(0, "a", later));
        assert_eq!(repairs.wait(0, "a", later), REPAIR_INTERVAL);
    }

    #[test]
    fn what_was_found_in_place_is_repaired_when_it_goes() {
        let start = Instant::now();
        let mut repairs = Repairs::new(1);
        repairs.in_place(0, "a");
        assert!(repairs.wrote(0, "a", start));
    }

    #[test]
    fn another_replicas_repair_counts_but_a_first_write_is_tried_again() {
        let start = Instant::now();
        let mut repairs = Repairs::new(1);
        repairs.met_another(0, "a", start);
        assert_eq!(repairs.wait(0, "a", start), Duration::ZERO);
        repairs.in_place(0, "a");
        repairs.met_another(0, "a", start);
        assert_eq!(repairs.wait(0, "a", start), REPAIR_INTERVAL);
    }
}
