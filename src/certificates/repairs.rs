//! Limits how often a caBundle is restored that another writer keeps overwriting: once a minute, so that
//! two controllers that disagree do not keep the API server busy. The first write of a bundle is not
//! limited. A replica infers the repairs of other replicas from the generations that it sees. No clock,
//! no I/O.

use std::time::Duration;

use tokio::time::Instant;

/// The shortest time between two repairs of one object.
pub(super) const REPAIR_INTERVAL: Duration = Duration::from_secs(60);

/// The last bundle of one object, current or overwritten.
#[derive(Debug, Default)]
pub(super) struct Repairs(Option<Bundle>);

#[derive(Debug)]
struct Bundle {
    text: String,
    /// The object's `metadata.generation` with it.
    generation: i64,
    /// When a replica last restored it.
    repaired: Option<Instant>,
}

impl Repairs {
    /// `bundle` was found in the object. If the object changed twice since it was last seen with it,
    /// then probably by a writer that overwrote it and by another replica that restored it.
    pub(super) fn found(&mut self, bundle: &str, generation: i64, now: Instant) {
        let last = self.last(bundle);
        let mut repaired = last.as_ref().and_then(|last| last.repaired);
        if last.is_some_and(|last| generation >= last.generation.saturating_add(2)) {
            repaired = Some(now);
        }
        self.0 = Some(Bundle {
            text: bundle.to_owned(),
            generation,
            repaired,
        });
    }

    /// How long to wait before `bundle` may be written into the object, which has another.
    pub(super) fn wait(&mut self, bundle: &str, now: Instant) -> Duration {
        let repaired = self.last(bundle).and_then(|last| last.repaired);
        repaired.map_or(Duration::ZERO, |at| (at + REPAIR_INTERVAL) - now)
    }

    /// `bundle` was written; returns whether that was a repair.
    pub(super) fn wrote(&mut self, bundle: &str, generation: i64, now: Instant) -> bool {
        let is_repair = self.last(bundle).is_some();
        self.conflicted(bundle, now);
        self.found(bundle, generation, now);
        is_repair
    }

    /// `bundle` was not written, because of a conflict. If it was a repair, the conflict is probably with
    /// the repair of another replica. It counts, so that the limit holds for all replicas together.
    pub(super) fn conflicted(&mut self, bundle: &str, now: Instant) {
        if let Some(last) = self.last(bundle) {
            last.repaired = Some(now);
        }
    }

    fn last(&mut self, bundle: &str) -> Option<&mut Bundle> {
        self.0.as_mut().filter(|last| last.text == bundle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_bundle_and_its_first_repair_wait_for_nothing_the_next_one_for_a_minute() {
        let start = Instant::now();
        let mut repairs = Repairs::default();
        assert_eq!(repairs.wait("a", start), Duration::ZERO);
        assert!(!repairs.wrote("a", 2, start), "the first write");
        assert_eq!(repairs.wait("a", start), Duration::ZERO);
        assert!(repairs.wrote("a", 4, start), "the first repair");
        assert_eq!(repairs.wait("a", start), REPAIR_INTERVAL);
        let later = start + REPAIR_INTERVAL;
        repairs.found("a", 4, later);
        assert_eq!(repairs.wait("a", start), REPAIR_INTERVAL);
        assert_eq!(repairs.wait("b", start), Duration::ZERO);
        assert_eq!(Repairs::default().wait("a", start), Duration::ZERO);
        assert_eq!(repairs.wait("a", later), Duration::ZERO);
        assert!(repairs.wrote("a", 6, later));
        assert_eq!(repairs.wait("a", later), REPAIR_INTERVAL);
    }

    #[test]
    fn what_was_found_in_place_is_repaired_when_it_goes() {
        let start = Instant::now();
        let mut repairs = Repairs::default();
        repairs.found("a", 1, start);
        assert!(repairs.wrote("a", 3, start));
    }

    #[test]
    fn another_replicas_repair_counts_but_a_first_write_is_tried_again() {
        let start = Instant::now();
        for conflict in [true, false] {
            let mut repairs = Repairs::default();
            repairs.conflicted("a", start);
            assert_eq!(repairs.wait("a", start), Duration::ZERO);
            repairs.found("a", 2, start);
            repairs.found("a", 3, start);
            assert_eq!(
                repairs.wait("a", start),
                Duration::ZERO,
                "one change is none"
            );
            match conflict {
                true => repairs.conflicted("a", start),
                false => repairs.found("a", 5, start),
            }
            assert_eq!(repairs.wait("a", start), REPAIR_INTERVAL);
        }
    }
}
