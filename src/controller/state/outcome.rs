//! The result of a reconcile: what the status reports, and when to reconcile again.

use std::time::Duration;

use crate::api_server::RequestError;
use crate::operators::Problem;

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
    pub(crate) look_again: Option<Duration>,
}

impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Self {
        Failure {
            error,
            look_again: None,
        }
    }
}

/// The result of applying the children, as the status reports it.
#[derive(Debug, Default)]
pub(in crate::controller) struct Outcome {
    /// The problem that makes the resource degraded.
    pub(in crate::controller) problem: Option<Problem>,
    /// Why the children are not confirmed, if the cause is transient.
    pub(in crate::controller) unconfirmed: Option<Problem>,
    /// The cause of a retry with back-off.
    pub(in crate::controller) failure: Option<RequestError>,
    /// When to reconcile again without a new event.
    pub(in crate::controller) look_again: Option<Duration>,
}

impl Outcome {
    pub(in crate::controller) fn problem(problem: Problem) -> Self {
        Outcome {
            problem: Some(problem),
            ..Outcome::default()
        }
    }
}
