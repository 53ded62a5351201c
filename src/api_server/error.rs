//! Why a request failed, and what that means for its caller.

use std::time::Duration;

use kube::core::Status;

/// Why a request to the API server failed.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The API server answered with an error.
    #[error("cannot {action}: {}", status.message)]
    Rejected {
        /// The verb and the object.
        action: String,
        /// The answer.
        status: Box<Status>,
        /// How long the API server asks its client to wait, at most a minute (RFC 9110 §10.2.3).
        retry_after: Option<Duration>,
    },
    /// No answer in time. The API server may have executed the request.
    #[error("cannot {action}: no answer within {} s", deadline.as_secs())]
    Timeout {
        /// The verb and the object.
        action: String,
        /// The deadline.
        deadline: Duration,
    },
    /// The request could not be sent, or its answer not be read.
    #[error("cannot {action}: {source}")]
    Transport {
        /// The verb and the object.
        action: String,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// The process stops or no longer leads. If the request was sent, its result is unknown.
    #[error("cannot {action}: this process stops or no longer leads")]
    Fenced {
        /// The verb and the object.
        action: String,
    },
}

impl RequestError {
    pub(super) fn transport(action: String, source: kube::Error) -> Self {
        let source = Box::new(source);
        Self::Transport { action, source }
    }

    /// The answer of the API server, if it answered.
    pub(crate) fn status(&self) -> Option<&Status> {
        let Self::Rejected { status, .. } = self else {
            return None;
        };
        Some(status)
    }

    fn has_code(&self, code: u16) -> bool {
        self.status().is_some_and(|status| status.code == code)
    }

    /// How long the API server asks its client to wait before the next request.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let Self::Rejected { retry_after, .. } = self else {
            return None;
        };
        *retry_after
    }

    /// Whether the object does not exist.
    pub(crate) fn is_not_found(&self) -> bool {
        self.has_code(404)
    }

    /// Whether the object exists already, or has changed since it was read.
    pub(crate) fn is_conflict(&self) -> bool {
        self.has_code(409)
    }

    /// Whether the permission is missing.
    pub(crate) fn is_forbidden(&self) -> bool {
        self.has_code(403)
    }

    /// Whether the process stops or no longer leads, so that no request can write.
    pub(crate) fn is_fenced(&self) -> bool {
        matches!(self, Self::Fenced { .. })
    }
}
