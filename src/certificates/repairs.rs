//! Limits how often a caBundle is restored that another writer keeps overwriting: once a minute, so that
//! two controllers that disagree do not keep the API server busy. The first write of a bundle is not
//! limited. A replica infers the repairs of other replicas from the generations that it sees. No clock,
//! no I/O.

use std::time::Duration;

use tokio::time::Instant;

/// The shortest time between two repairs of one object.
pub(super) const REPAIR_INTERVAL: Duration = Duration::from_secs(60);

/// The bundle of each object, current or overwritten.
#[derive(Debug)]
pub(super) struct Repairs {
    objects: Vec<Option<InPlace>>,
}

#[derive(Debug, Clone)]
struct InPlace {
    bundle: String,
    /// The object's `metadata.generation` with it.
    generation: i64,
    /// When a replica last restored it.
    repaired: Option<Instant>,
}

impl Repairs {
    /// For this number of objects, without a known state.
    pub(super) fn new(objects: usize) -> Self {
        Self {
            objects: vec![None; objects],
        }
    }

    /// `bundle` was found in an object. If the object changed twice since it was last seen with it, then
    /// probably by a writer that overwrote it and by another replica that restored it.
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

    /// `bundle` was not written, because of a conflict. If it was a repair, the conflict is probably with
    /// the repair of another replica. It counts, so that the limit holds for all replicas together.
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
