//! Decides when a changed status is written. At once if no rollout is in progress, or if there is a
//! problem. During a rollout, a written status is soon outdated: changed conditions are written when
//! the rollout pauses, after one second if its controller is behind, after four seconds at the latest,
//! or at once in a burst; changed counts are written later. The pause grows with the number of waiting
//! resources, so that a burst costs at most two writes per resource. Pure; the clock is an argument. See
//! decision 0005.

use std::time::Duration;

use tokio::time::Instant;

use crate::api::Status;
use crate::operators::{Observed, ObservedWorkload, Reason, status};

/// How the wanted status differs from the stored one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Difference {
    /// The stored status is of an earlier generation, or a condition differs.
    Conditions,
    /// Only counts, messages, times and the step of a rollout differ.
    CountsOnly,
}

impl Difference {
    /// How `wanted` differs from `stored`.
    pub(crate) fn by(stored: &Status, wanted: &Status) -> Self {
        let is_same = stored.observed_generation == wanted.observed_generation
            && stored.conditions.len() == wanted.conditions.len()
            && wanted.conditions.iter().all(|condition| {
                status::condition(stored, &condition.type_).is_some_and(|stored| {
                    stored.status == condition.status
                        && (stored.reason == condition.reason
                            || is_rollout(&stored.reason) && is_rollout(&condition.reason))
                })
            });
        match is_same {
            true => Difference::CountsOnly,
            false => Difference::Conditions,
        }
    }

    /// How long the observation must be unchanged before the status is written, while `waiting` other
    /// resources of the kind have a pending status.
    fn quiet(self, waiting: u32) -> Duration {
        match self {
            Difference::Conditions => QUIET,
            Difference::CountsOnly => (REFRESH_PER_WAITING * waiting).max(REFRESH_QUIET),
        }
    }

    /// Maximum delay of the write.
    fn longest(self, waiting: u32) -> Duration {
        match self {
            Difference::Conditions => LONGEST,
            Difference::CountsOnly => self.quiet(waiting).max(REFRESH_LONGEST),
        }
    }
}

/// Whether the reason is a step of a rollout without a problem.
pub(crate) fn is_rollout(reason: &str) -> bool {
    [Reason::RollingOut, Reason::MinimumReplicasUnavailable]
        .iter()
        .any(|step| step.as_str() == reason)
}

/// Changed conditions are written after this time without changes.
const QUIET: Duration = Duration::from_millis(500);

/// Maximum delay of changed conditions: within 5 s of the creation of the children, including the delay
/// of a busy queue.
const LONGEST: Duration = Duration::from_secs(4);

/// While more resources of the kind than this wait, their workloads' controllers are behind, too: changed
/// conditions are written at once, in most cases by the reconcile that applies the children.
const BURST: u32 = 25;

/// The other resources of the kind that wait.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Others {
    /// With a pending status.
    pub(crate) pending: u32,
    /// Ready in the work queue.
    pub(crate) queued: u32,
}

impl Others {
    /// Whether these are more than 25.
    pub(crate) fn is_burst(self) -> bool {
        self.pending.saturating_add(self.queued) > BURST
    }
}

/// A status is written without a report of the workload's controller after this time: it is behind.
const UNOBSERVED: Duration = Duration::from_secs(1);

/// Changed counts are written after this time without changes, as in a stuck rollout.
const REFRESH_QUIET: Duration = Duration::from_secs(10);

/// Maximum delay of changed counts.
const REFRESH_LONGEST: Duration = Duration::from_secs(30);

/// Limits the writes of counts to five a second, so that they do not delay first statuses.
const REFRESH_PER_WAITING: Duration = Duration::from_millis(200);

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

    /// The delay of the write, given the time `now`, the observed state, whether the children are at
    /// rest, the difference, and the other resources that wait; `None` if it is due.
    pub(crate) fn wait(
        &mut self,
        observed: Observed,
        is_at_rest: bool,
        difference: Difference,
        others: Others,
        now: Instant,
    ) -> Option<Duration> {
        // `now` differs in every observation.
        let observed = Observed {
            now: String::new(),
            ..observed
        };
        let is_due = observed.problem.is_some() || is_at_rest;
        if observed != self.seen {
            self.seen = observed;
            self.moved = now;
        }
        let is_reportable = is_reportable(&self.seen);
        let is_burst = others.is_burst() && difference == Difference::Conditions;
        if is_due || is_burst && !is_reportable {
            return None;
        }
        let latest = self.since + difference.longest(others.pending);
        let due = latest.min(match is_reportable {
            true => self.moved + difference.quiet(others.pending),
            false if difference == Difference::Conditions => self.since + UNOBSERVED,
            false => latest,
        });
        due.checked_duration_since(now)
            .filter(|wait| !wait.is_zero())
    }
}

/// Whether the workload's controller has observed it, or a child has a problem.
fn is_reportable(observed: &Observed) -> bool {
    let workload = observed.workload.as_ref();
    let unconfirmed = observed.unconfirmed.as_ref();
    workload.is_some_and(ObservedWorkload::is_current)
        || unconfirmed.is_some_and(|problem| problem.reason != Reason::RollingOut)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use tokio::time::Instant;

    use super::{Difference, Others, StatusDebounce};
    use crate::api::Status;
    use crate::operators::{Observed, ObservedPod, ObservedWorkload, Problem, Reason};

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

    fn others(pending: u32) -> Others {
        Others { pending, queued: 0 }
    }

    const MILLISECOND: Duration = Duration::from_millis(1);
    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn children_at_rest_and_problems_are_written_at_once() {
        let now = Instant::now();
        let problem = Problem {
            reason: Reason::NameConflict,
            message: String::new(),
        };
        let trouble = Observed {
            problem: Some(problem),
            ..Observed::default()
        };
        for observed in [rollout(3, 3), trouble] {
            for difference in [Difference::Conditions, Difference::CountsOnly] {
                let wait = StatusDebounce::new(now).wait(
                    observed.clone(),
                    observed.problem.is_none(),
                    difference,
                    others(5000),
                    now,
                );
                assert_eq!(wait, None);
            }
        }
    }

    #[test]
    fn changes_are_written_in_a_pause_or_after_four_seconds() {
        let start = Instant::now();
        let mut pending = StatusDebounce::new(start);
        for step in 0..10 {
            let now = start + 400 * step * MILLISECOND;
            let wait = pending.wait(
                rollout(step.into(), 100),
                false,
                Difference::Conditions,
                others(0),
                now,
            );
            let expected = (500 * MILLISECOND).min(4000 * MILLISECOND - 400 * step * MILLISECOND);
            assert_eq!(wait, Some(expected), "it moves every 400 ms");
        }
        let mut at = |ready, since| {
            pending.wait(
                rollout(ready, 100),
                false,
                Difference::Conditions,
                others(0),
                start + since,
            )
        };
        assert_eq!(at(9, 3600 * MILLISECOND), Some(400 * MILLISECOND));
        assert_eq!(at(10, 4 * SECOND), None, "at the latest");
    }

    #[test]
    fn the_first_status_waits_a_second_for_the_deployment_controller() {
        let start = Instant::now();
        let mut pending = StatusDebounce::new(start);
        let mut at = |observed, since| {
            pending.wait(
                observed,
                false,
                Difference::Conditions,
                others(0),
                start + since,
            )
        };
        let none = Observed::default();
        assert_eq!(at(none.clone(), Duration::ZERO), Some(SECOND));
        assert_eq!(
            at(rollout(0, 3), 700 * MILLISECOND),
            Some(500 * MILLISECOND)
        );
        assert_eq!(at(none.clone(), 900 * MILLISECOND), Some(100 * MILLISECOND));
        assert_eq!(at(none, SECOND), None);
    }

    #[test]
    fn in_a_burst_the_first_status_waits_for_nothing() {
        let now = Instant::now();
        let first = |observed, difference, waiting| {
            let queued = waiting / 2;
            let others = Others {
                pending: waiting - queued,
                queued,
            };
            StatusDebounce::new(now).wait(observed, false, difference, others, now)
        };
        let none = Observed::default();
        let conditions = Difference::Conditions;
        assert_eq!(first(none.clone(), conditions, 25), Some(SECOND));
        assert_eq!(first(none.clone(), conditions, 26), None);
        let counts = first(none, Difference::CountsOnly, 26);
        assert_eq!(counts, Some(30 * SECOND), "no refresh");
        let observed = rollout(0, 3);
        let wait = first(observed, conditions, 26);
        assert_eq!(wait, Some(500 * MILLISECOND), "it may be ready soon");
    }

    #[test]
    fn counts_alone_are_written_when_a_rollout_is_stuck_and_five_a_second_at_most() {
        let start = Instant::now();
        for (waiting, quiet, longest) in [(0, 10, 30), (100, 20, 30), (1000, 200, 200)] {
            let mut pending = StatusDebounce::new(start);
            let mut at = |ready, since| {
                pending.wait(
                    rollout(ready, 100),
                    false,
                    Difference::CountsOnly,
                    others(waiting),
                    start + since,
                )
            };
            assert_eq!(at(1, Duration::ZERO), Some(quiet * SECOND));
            assert_eq!(
                at(2, SECOND),
                Some((quiet * SECOND).min((longest - 1) * SECOND))
            );
            assert_eq!(at(2, (quiet + 1) * SECOND), None, "stuck");
            assert_eq!(at(3, longest * SECOND), None, "at the latest");
        }
    }

    #[test]
    fn the_conditions_are_of_this_generation_whatever_the_step_of_the_rollout() {
        let of = |generation: i64, status: &str, reason: &str, message: &str| -> Status {
            let condition = json!({"type": "Ready", "status": status, "reason": reason,
                "message": message, "lastTransitionTime": ""});
            let status = json!({"observedGeneration": generation, "conditions": [condition]});
            serde_json::from_value(status).expect("a status")
        };
        let stored = of(1, "False", "RollingOut", "one");
        for (wanted, difference) in [
            (
                of(1, "False", "RollingOut", "other"),
                Difference::CountsOnly,
            ),
            (
                of(1, "False", "MinimumReplicasUnavailable", ""),
                Difference::CountsOnly,
            ),
            (of(2, "False", "RollingOut", "one"), Difference::Conditions),
            (
                of(1, "True", "RolloutComplete", "one"),
                Difference::Conditions,
            ),
            (
                of(1, "False", "ImagePullBackOff", "one"),
                Difference::Conditions,
            ),
        ] {
            assert_eq!(Difference::by(&stored, &wanted), difference, "{wanted:?}");
        }
        assert_eq!(
            Difference::by(&Status::default(), &stored),
            Difference::Conditions
        );
    }
}
