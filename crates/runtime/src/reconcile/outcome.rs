//! The result of a reconcile: what the status reports, and when to reconcile again.

use std::time::Duration;

use super::apply::error::{ApplyError, PATIENCE_WITH_WRITES};
use super::apply::wanted::Ensured;
use super::reconciler::{Reconciler, STALE_RETRY};
use crate::state::jittered_retry;
use quartet_http::RequestError;
use quartet_workload::{Problem, Reason, Resource, status};

/// When to reconcile the resource again without a new event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// After the next event.
    AwaitChange,
    /// After this time.
    RequeueAfter(Duration),
    /// Not before this time, the API server's `Retry-After`. No request was sent.
    Held(Duration),
}

/// A reconcile failed and is retried with back-off.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub(crate) struct Failure {
    /// The cause.
    #[source]
    pub(crate) error: RequestError,
    /// Maximum delay of the retry, regardless of the back-off.
    pub(crate) requeue_after: Option<Duration>,
}

impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Self {
        Failure {
            error,
            requeue_after: None,
        }
    }
}

/// The result of applying the children, as the status reports it.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// The problem that makes the resource degraded.
    pub(super) problem: Option<Problem>,
    /// Why the children are not confirmed, if the cause is transient.
    pub(super) unconfirmed: Option<Problem>,
    /// The cause of a retry with back-off.
    pub(super) failure: Option<RequestError>,
    /// When to reconcile again without a new event.
    pub(super) requeue_after: Option<Duration>,
}

impl Outcome {
    pub(super) fn problem(problem: Problem) -> Self {
        Outcome {
            problem: Some(problem),
            ..Outcome::default()
        }
    }

    /// The result of the reconcile after the write of the status, which returns when to reconcile again.
    pub(super) fn into_result(
        self,
        written: Result<Option<Duration>, RequestError>,
    ) -> Result<Action, Failure> {
        let requeue_after = self.requeue_after;
        let earliest = |status| [requeue_after, status].into_iter().flatten().min();
        match (self.failure, written) {
            // Of two errors, the one after which the next request must wait longer.
            (Some(failure), Err(error))
                if error.is_fenced() || error.retry_after() > failure.retry_after() =>
            {
                Err(Failure {
                    error,
                    requeue_after,
                })
            }
            (Some(error), written) => Err(Failure {
                error,
                requeue_after: earliest(written.ok().flatten()),
            }),
            (None, Err(error)) => Err(error.into()),
            (None, Ok(status)) => {
                let delay = earliest(status);
                Ok(delay.map_or(Action::AwaitChange, Action::RequeueAfter))
            }
        }
    }
}

impl Reconciler {
    /// The result of applying the children; `Err` if no status is written. `stripped` is an error of the
    /// resource itself, and concerns no child: it is told if nothing else is wrong and it lasts.
    pub(super) fn outcome(
        &self,
        resource: &Resource,
        ensured: Result<Ensured, ApplyError>,
        stripped: Option<RequestError>,
    ) -> Result<Outcome, Action> {
        let mut patience = None;
        let mut outcome = match ensured {
            Ok(ensured) if self.is_confirmed(resource, &ensured.expected) => Outcome {
                unconfirmed: ensured.unconfirmed,
                requeue_after: ensured.requeue_after,
                ..Outcome::default()
            },
            Ok(ensured) => Outcome {
                unconfirmed: ensured
                    .unconfirmed
                    .or_else(|| Some(Problem::new(Reason::RollingOut, status::CHILDREN_MISSING))),
                // An event usually enqueues it earlier.
                requeue_after: Some(jittered_retry()),
                ..Outcome::default()
            },
            Err(ApplyError::Blocked(problem, wait)) => Outcome {
                requeue_after: Some(wait),
                ..Outcome::problem(problem)
            },
            Err(ApplyError::Pending {
                problem,
                patience: tolerated,
                requeue_after,
            }) => {
                patience = tolerated;
                Outcome {
                    unconfirmed: Some(problem),
                    requeue_after: Some(requeue_after),
                    ..Outcome::default()
                }
            }
            Err(ApplyError::Failed(error)) => {
                patience = Some(PATIENCE_WITH_WRITES);
                Outcome {
                    unconfirmed: Some(Problem::new(Reason::ApplyFailed, error.to_string())),
                    failure: Some(error),
                    ..Outcome::default()
                }
            }
            Err(ApplyError::Stale) => return Err(Action::RequeueAfter(STALE_RETRY)),
            Err(ApplyError::ResourceGone) => return Err(Action::RequeueAfter(jittered_retry())),
            Err(ApplyError::NamespaceEnding) => return Err(Action::AwaitChange),
        };
        let mut late = None;
        if outcome.failure.is_none() {
            if let (Some(error), None, None) = (&stripped, &outcome.problem, &outcome.unconfirmed) {
                late = Some(Problem::new(Reason::ApplyFailed, error.to_string()));
                patience = Some(PATIENCE_WITH_WRITES);
            }
            outcome.failure = stripped;
        }
        let reason = late.as_ref().or(outcome.unconfirmed.as_ref());
        let reason = reason.map(|problem| problem.reason);
        let lasted = self.states.unconfirmed(resource, reason);
        if let Some(patience) = patience {
            // An earlier leader may have reported it already.
            let degraded = status::condition(&resource.status, status::DEGRADED);
            let was_degraded = degraded.is_some_and(|it| {
                it.status == "True" && reason.is_some_and(|reason| it.reason == reason.as_str())
            });
            let left = patience.saturating_sub(lasted);
            if left.is_zero() || was_degraded {
                outcome.problem = late.or_else(|| outcome.unconfirmed.take());
            } else {
                outcome.requeue_after = outcome.requeue_after.into_iter().chain([left]).min();
            }
        }
        Ok(outcome)
    }
}
