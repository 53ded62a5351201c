//! How often a caBundle that somebody else keeps overwriting is put back: at most once a
//! minute, or two controllers of different opinion would keep the API server busy. A bundle
//! that has not been in place before is no repair and waits for nothing. A replica knows of
//! another's repairs from what it sees, once it has seen the bundle in place. No clock, no I/O.

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
    /// The object's `metadata.generation` with it.
    generation: i64,
    /// When it last had to be put back, by whichever replica.
    repaired: Option<Instant>,
}

impl Repairs {
    /// For so many objects, of which nothing is known.
    pub(super) fn new(objects: usize) -> Self {
        Self {
            objects: vec![None; objects],
        }
    }

    /// `bundle` was found in an object. If the object was changed twice since it was last
    /// seen with it, then probably by somebody who overwrote it and by another replica that
    /// put it back.
    pub(super) fn found(&mut self, object: usize, bundle: &str, generation: i64, now: Instant) {
        match self.last(object, bundle) {
            Some(last) => {
                if generation >= last.generation.saturating_add(2) {
                    last.repaired = Some(now);
                }
                last.generation = generation;
            }
            None => {
                if let Some(entry) = self.objects.get_mut(object) {
                    *entry = Some(InPlace {
                        bundle: bundle.to_owned(),
                        generation,
                        repaired: None,
                    });
                }
            }
        }
    }

    /// How long to wait before `bundle` may be written into an object that has another.
    pub(super) fn wait(&mut self, object: usize, bundle: &str, now: Instant) -> Duration {
        let repaired = self.last(object, bundle).and_then(|last| last.repaired);
        repaired.map_or(Duration::ZERO, |at| (at + REPAIR_INTERVAL) - now)
    }

    /// `bundle` was written; whether that was a repair.
    pub(super) fn wrote(
        &mut self,
        object: usize,
        bundle: &str,
        generation: i64,
        now: Instant,
    ) -> bool {
        let repair = self.last(object, bundle).is_some();
        self.met_another(object, bundle, now);
        self.found(object, bundle, generation, now);
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
        assert!(!repairs.wrote(0, "a", 2, start), "the first write");
        assert_eq!(repairs.wait(0, "a", start), Duration::ZERO);
        assert!(repairs.wrote(0, "a", 4, start), "the first repair");
        assert_eq!(repairs.wait(0, "a", start), REPAIR_INTERVAL);
        let later = start + REPAIR_INTERVAL;
        repairs.found(0, "a", 4, later);
        assert_eq!(repairs.wait(0, "a", start), REPAIR_INTERVAL);
        assert_eq!(repairs.wait(0, "b", start), Duration::ZERO);
        assert_eq!(repairs.wait(1, "a", start), Duration::ZERO);
        assert_eq!(repairs.wait(0, "a", later), Duration::ZERO);
        assert!(repairs.wrote(0, "a", 6, later));
        assert_eq!(repairs.wait(0, "a", later), REPAIR_INTERVAL);
    }

    #[test]
    fn what_was_found_in_place_is_repaired_when_it_goes() {
        let start = Instant::now();
        let mut repairs = Repairs::new(1);
        repairs.found(0, "a", 1, start);
        assert!(repairs.wrote(0, "a", 3, start));
    }

    #[test]
    fn another_replicas_repair_counts_but_a_first_write_is_tried_again() {
        let start = Instant::now();
        for conflict in [true, false] {
            let mut repairs = Repairs::new(1);
            repairs.met_another(0, "a", start);
            assert_eq!(repairs.wait(0, "a", start), Duration::ZERO);
            repairs.found(0, "a", 2, start);
            repairs.found(0, "a", 3, start);
            assert_eq!(
                repairs.wait(0, "a", start),
                Duration::ZERO,
                "one change is none"
            );
            match conflict {
                true => repairs.met_another(0, "a", start),
                false => repairs.found(0, "a", 5, start),
            }
            assert_eq!(repairs.wait(0, "a", start), REPAIR_INTERVAL);
        }
    }
}
