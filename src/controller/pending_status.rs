//! When is a status that differs worth writing? At once when the children have come to rest
//! or something is wrong; while they move, when they have not moved for a moment, since what
//! is told now is wrong a moment later. Pure: the clock comes in.

use std::time::Duration;

use tokio::time::Instant;

use crate::operators::{Observed, Reason, status};

/// A status that is still moving is written when it has not moved for this long.
const QUIET: Duration = Duration::from_millis(500);

/// However much it moves, the status is written after this long.
const LONGEST: Duration = Duration::from_secs(5);

/// While the Deployment controller has not looked at the Deployment there is nothing to tell
/// but that; after this long it is told. Longer than that controller needs for a thousand
/// Deployments that are created at once.
const UNSEEN: Duration = Duration::from_secs(20);

/// A status that differs from the one that is stored.
#[derive(Debug)]
pub(super) struct PendingStatus {
    /// Since when it differs, or the Deployment controller has looked.
    since: Instant,
    moved: Instant,
    seen: Observed,
}

impl PendingStatus {
    /// A status that began to differ `now`.
    pub(super) fn new(now: Instant) -> Self {
        PendingStatus {
            since: now,
            moved: now,
            seen: Observed::default(),
        }
    }

    /// How long the write has to wait yet, given what is observed `now`; `None` if it is due.
    pub(super) fn wait(&mut self, observed: Observed, now: Instant) -> Option<Duration> {
        // The clock in it moves by itself.
        let observed = Observed {
            now: String::new(),
            ..observed
        };
        let is_due = observed.problem.is_some() || status::is_settled(&observed);
        let is_seen = is_worth_telling(&observed);
        if is_seen && !is_worth_telling(&self.seen) {
            self.since = now;
        }
        if observed != self.seen {
            self.seen = observed;
            self.moved = now;
        }
        if is_due {
            return None;
        }
        let due = if is_seen {
            (self.since + LONGEST).min(self.moved + QUIET)
        } else {
            self.since + UNSEEN
        };
        due.checked_duration_since(now)
            .filter(|wait| !wait.is_zero())
    }
}

/// Whether the Deployment controller has looked at the Deployment, or a child is not as it
/// should be.
fn is_worth_telling(observed: &Observed) -> bool {
    let deployment = observed.deployment.as_ref();
    let waits = observed.unconfirmed.as_ref();
    deployment.is_some_and(|deployment| deployment.is_current())
        || waits.is_some_and(|problem| problem.reason != Reason::RollingOut)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::PendingStatus;
    use crate::operators::{Observed, ObservedDeployment, ObservedPod, Problem, Reason};

    fn rollout(ready: i64, wanted: i64) -> Observed {
        let pod = |number| ObservedPod {
            name: format!("pod-{number}"),
            ready: number < ready,
            failure: None,
        };
        Observed {
            deployment: Some(ObservedDeployment {
                generation: 1,
                observed_generation: 1,
                desired: wanted,
                replicas: wanted,
                updated: wanted,
                ready,
                available: ready,
                ..ObservedDeployment::default()
            }),
            pods: (0..wanted).map(pod).collect(),
            now: format!("{ready}"),
            ..Observed::default()
        }
    }

    const MILLISECOND: Duration = Duration::from_millis(1);

    #[test]
    fn children_at_rest_and_trouble_are_told_at_once() {
        let now = Instant::now();
        assert_eq!(PendingStatus::new(now).wait(rollout(3, 3), now), None);
        let problem = Problem {
            reason: Reason::NameConflict,
            message: String::new(),
        };
        let trouble = Observed {
            problem: Some(problem),
            ..Observed::default()
        };
        assert_eq!(PendingStatus::new(now).wait(trouble, now), None);
    }

    #[test]
    fn churn_is_told_when_it_pauses_and_after_five_seconds_at_the_latest() {
        let start = Instant::now();
        let mut pending = PendingStatus::new(start);
        for step in 0..12 {
            let now = start + 400 * step * MILLISECOND;
            let wait = pending.wait(rollout(step.into(), 100), now);
            let expected = (500 * MILLISECOND).min(5000 * MILLISECOND - 400 * step * MILLISECOND);
            assert_eq!(wait, Some(expected), "it moves every 400 ms");
        }
        let quiet = start + 4900 * MILLISECOND;
        assert_eq!(
            pending.wait(rollout(11, 100), quiet),
            None,
            "500 ms of quiet"
        );
        assert_eq!(
            pending.wait(rollout(12, 100), start + 5000 * MILLISECOND),
            None,
            "at the latest"
        );
    }

    #[test]
    fn the_first_status_waits_for_the_childrens_own_but_not_for_ever() {
        let start = Instant::now();
        let mut pending = PendingStatus::new(start);
        let none = Observed::default();
        assert_eq!(
            pending.wait(none.clone(), start),
            Some(20_000 * MILLISECOND)
        );
        let almost = start + 19_999 * MILLISECOND;
        assert_eq!(pending.wait(none.clone(), almost), Some(MILLISECOND));
        assert_eq!(pending.wait(none, start + 20_000 * MILLISECOND), None);
    }

    #[test]
    fn a_rollout_is_given_its_time_from_when_its_controller_first_looked() {
        let start = Instant::now();
        let mut pending = PendingStatus::new(start);
        pending.wait(Observed::default(), start);
        let looked = start + 18_000 * MILLISECOND;
        assert_eq!(pending.wait(rollout(0, 3), looked), Some(500 * MILLISECOND));
        let moved = looked + 400 * MILLISECOND;
        assert_eq!(pending.wait(rollout(1, 3), moved), Some(500 * MILLISECOND));
        assert_eq!(pending.wait(rollout(3, 3), moved), None);
    }
}
