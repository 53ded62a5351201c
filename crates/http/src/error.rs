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
    /// The error of `action`, a request of a `kube::Api`. Its `Retry-After` is not known.
    pub fn of(action: String, error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Rejected {
                action,
                status,
                retry_after: None,
            },
            source => Self::transport(action, source),
        }
    }

    pub(crate) fn transport(action: String, source: kube::Error) -> Self {
        let source = Box::new(source);
        Self::Transport { action, source }
    }

    /// The answer of the API server, if it answered.
    pub fn status(&self) -> Option<&Status> {
        let Self::Rejected { status, .. } = self else {
            return None;
        };
        Some(status)
    }

    /// The status code of the answer, if the API server answered.
    pub fn code(&self) -> Option<u16> {
        self.status().map(|status| status.code)
    }

    fn has_code(&self, code: u16) -> bool {
        self.code() == Some(code)
    }

    /// How long the API server asks its client to wait before the next request.
    pub fn retry_after(&self) -> Option<Duration> {
        let Self::Rejected { retry_after, .. } = self else {
            return None;
        };
        *retry_after
    }

    /// Whether the object does not exist.
    pub fn is_not_found(&self) -> bool {
        self.has_code(404)
    }

    /// Whether the object exists already, or has changed since it was read.
    pub fn is_conflict(&self) -> bool {
        self.has_code(409)
    }

    /// Whether the permission is missing.
    pub fn is_forbidden(&self) -> bool {
        self.has_code(403)
    }

    /// Whether the process stops or no longer leads, so that no request can write.
    pub fn is_fenced(&self) -> bool {
        matches!(self, Self::Fenced { .. })
    }
}
