//! Why a request failed, and what that means for its caller.

use std::time::Duration;

use kube::core::Status;

/// Maximum `Retry-After` that is respected, in seconds. API servers ask for one or two.
const MAX_RETRY_AFTER: u32 = 60;

/// Why a request to the API server failed, e.g. `cannot read the CRD a: it is forbidden`.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action}: {cause}")]
pub struct RequestError {
    /// The verb and the object.
    pub action: String,
    /// What happened.
    #[source]
    pub cause: Cause,
}

/// What happened to a request.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// The API server answered with an error. Its details have the `Retry-After`.
    #[error("{}", .0.message)]
    Rejected(Box<Status>),
    /// No response within this time. The API server may have executed the request.
    #[error("no answer within {} s", .0.as_secs())]
    Timeout(Duration),
    /// The request could not be sent, or its response not be read.
    #[error(transparent)]
    Transport(kube::Error),
    /// The process stops or no longer leads. If the request was sent, its result is unknown.
    #[error("this process stops or no longer leads")]
    Fenced,
}

impl RequestError {
    /// The error of `action`, a request of kube's client.
    pub fn of(action: String, error: kube::Error) -> Self {
        let cause = match error {
            kube::Error::Api(status) => Cause::Rejected(status),
            error => Cause::Transport(error),
        };
        Self { action, cause }
    }

    /// The answer of the API server, if it answered.
    pub fn status(&self) -> Option<&Status> {
        match &self.cause {
            Cause::Rejected(status) => Some(status),
            _ => None,
        }
    }

    /// The status code of the answer, if the API server answered.
    pub fn code(&self) -> Option<u16> {
        self.status().map(|status| status.code)
    }

    /// How long the API server asks its client to wait before the next request, at most a minute.
    pub fn retry_after(&self) -> Option<Duration> {
        let seconds = self.status()?.details.as_ref()?.retry_after_seconds;
        let seconds = seconds.min(MAX_RETRY_AFTER);
        (seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }

    /// Whether the object does not exist.
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// Whether the object exists already, or has changed since it was read.
    pub fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }

    /// Whether the permission is missing.
    pub fn is_forbidden(&self) -> bool {
        self.code() == Some(403)
    }

    /// Whether the process stops or no longer leads, so that no request can write.
    pub fn is_fenced(&self) -> bool {
        matches!(self.cause, Cause::Fenced)
    }
}
