//! Decides when a changed status is written. At once if the children are at rest, or if there is a
//! problem. During a rollout, a written status is soon outdated: it is written when nothing observed has
//! changed for half a second, after four seconds at the latest. Pure; the clock is an argument. See
//! decision 0005.

use std::time::Duration;

use tokio::time::Instant;

use quartet_workload::Observed;

/// The status is written after this time without changes.
const QUIET: Duration = Duration::from_millis(500);

/// Maximum delay of the write: within 5 s of the creation of the children, including the delay of a busy
/// queue.
const LONGEST: Duration = Duration::from_secs(4);

/// A status that differs from the stored one.
#[derive(Debug)]
pub(crate) struct StatusDebounce {
    /// Since when it differs.
    since: Instant,
    moved: Instant,
    seen: Observed,
}

impl StatusDebounce {
    /// A status that differs since `now`.
    pub(crate) fn new(now: Instant) -> Self {
        StatusDebounce {
            since: now,
            moved: now,
            seen: Observed::default(),
        }
    }

    /// The delay of the write, given the time `now`, the observed state, and whether the children are at
    /// rest; `None` if it is due.
    pub(crate) fn wait(
        &mut self,
        observed: Observed,
        is_at_rest: bool,
        now: Instant,
    ) -> Option<Duration> {
        if is_at_rest || observed.problem.is_some() {
            return None;
        }
        // `now` differs in every observation.
        let observed = Observed {
            now: String::new(),
            ..observed
        };
        if observed != self.seen {
            self.seen = observed;
            self.moved = now;
        }
        let due = (self.since + LONGEST).min(self.moved + QUIET);
        let wait = due.saturating_duration_since(now);
        (!wait.is_zero()).then_some(wait)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::StatusDebounce;
    use quartet_workload::{Observed, ObservedPod, ObservedWorkload, Problem, Reason};

    fn rollout(ready: i64, wanted: i64) -> Observed {
        let pod = |number| ObservedPod {
            name: format!("pod-{number}"),
            ready: number < ready,
            failure: None,
        };
        Observed {
            workload: Some(ObservedWorkload {
                generation: 1,
                observed_generation: 1,
                desired: wanted,
                replicas: wanted,
                updated: wanted,
                ready,
                available: ready,
                ..ObservedWorkload::default()
            }),
            pods: (0..wanted).map(pod).collect(),
            now: format!("{ready}"),
            ..Observed::default()
        }
    }

    const MILLISECOND: Duration = Duration::from_millis(1);
    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn children_at_rest_and_problems_are_written_at_once() {
        let now = Instant::now();
        let trouble = Observed {
            problem: Some(Problem::new(Reason::NameConflict, "")),
            ..Observed::default()
        };
        for (observed, is_at_rest) in [(rollout(3, 3), true), (trouble, false)] {
            let wait = StatusDebounce::new(now).wait(observed, is_at_rest, now);
            assert_eq!(wait, None);
        }
    }

    #[test]
    fn changes_are_written_in_a_pause_or_after_four_seconds() {
        let start = Instant::now();
        let mut pending = StatusDebounce::new(start);
        for step in 0..10 {
            let now = start + 400 * step * MILLISECOND;
            let wait = pending.wait(rollout(step.into(), 100), false, now);
            let expected = (500 * MILLISECOND).min(4000 * MILLISECOND - 400 * step * MILLISECOND);
            assert_eq!(wait, Some(expected), "it moves every 400 ms");
        }
        let mut at = |ready, since| pending.wait(rollout(ready, 100), false, start + since);
        assert_eq!(at(9, 3600 * MILLISECOND), Some(400 * MILLISECOND));
        assert_eq!(at(10, 4 * SECOND), None, "at the latest");
    }

    #[test]
    fn an_unchanged_observation_is_written_after_half_a_second() {
        let start = Instant::now();
        let mut pending = StatusDebounce::new(start);
        let mut at = |since| pending.wait(Observed::default(), false, start + since);
        assert_eq!(at(Duration::ZERO), Some(500 * MILLISECOND));
        assert_eq!(at(499 * MILLISECOND), Some(MILLISECOND));
        assert_eq!(at(500 * MILLISECOND), None);
    }
}
