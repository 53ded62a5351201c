//! The result of a reconcile: what the status reports, and when to reconcile again.

use std::ops::ControlFlow;
use std::time::Duration;

use super::apply::error::{ApplyError, Blocker, PATIENCE_WITH_WRITES};
use super::apply::wanted::Ensured;
use super::{Reconciler, STALE_RETRY};
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
    /// After this time, which the API server asked for; the back-off goes on.
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

impl Reconciler {
    /// The result of applying the children; [`ControlFlow::Break`] if no status is written.
    pub(super) fn outcome(
        &self,
        resource: &Resource,
        ensured: Result<Ensured, ApplyError>,
    ) -> ControlFlow<Action, Outcome> {
        let mut outcome = Outcome::default();
        let blocker = match ensured {
            Ok(ensured) => {
                outcome.requeue_after = ensured.requeue_after;
                let is_confirmed = self.is_confirmed(resource, &ensured.expected);
                // An event usually enqueues it earlier.
                let missing = || {
                    let message = status::CHILDREN_MISSING;
                    Blocker::expected(Reason::RollingOut, message, jittered_retry())
                };
                let blocker = ensured.blocker;
                blocker.or_else(|| (!is_confirmed).then(missing))
            }
            Err(ApplyError::Blocked(blocker)) => Some(blocker),
            Err(ApplyError::Failed(error)) => {
                let blocker = Blocker {
                    problem: Problem::new(Reason::ApplyFailed, error.to_string()),
                    patience: PATIENCE_WITH_WRITES,
                    // By the back-off.
                    retry: Duration::MAX,
                };
                outcome.failure = Some(error);
                Some(blocker)
            }
            Err(ApplyError::Stale) => return ControlFlow::Break(Action::RequeueAfter(STALE_RETRY)),
            Err(ApplyError::ResourceGone) => {
                return ControlFlow::Break(Action::RequeueAfter(jittered_retry()));
            }
            Err(ApplyError::NamespaceEnding) => return ControlFlow::Break(Action::AwaitChange),
        };
        let reason = blocker.as_ref().map(|it| it.problem.reason);
        let lasted = self.state(resource).unconfirmed(reason);
        if let Some(blocker) = blocker {
            let left = blocker.patience.saturating_sub(lasted);
            let mut wait = blocker.retry;
            // An earlier leader may have reported it already.
            if left.is_zero() || told_problem(resource) == Some(blocker.problem.reason.as_str()) {
                outcome.problem = Some(blocker.problem);
            } else {
                outcome.unconfirmed = Some(blocker.problem);
                wait = wait.min(left);
            }
            let requeue_after = outcome.requeue_after.into_iter().chain([wait]);
            outcome.requeue_after = requeue_after.min();
        }
        ControlFlow::Continue(outcome)
    }
}

/// The reason for which the stored status says that this generation is degraded.
pub(super) fn told_problem(resource: &Resource) -> Option<&str> {
    let degraded = status::condition(&resource.status, status::DEGRADED)?;
    let is_current = degraded.observed_generation == Some(resource.generation);
    (is_current && degraded.status == "True").then_some(&degraded.reason)
}
