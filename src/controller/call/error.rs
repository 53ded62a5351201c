//! Why a request failed, and what that means for its caller.

use std::time::Duration;

use kube::core::Status as ApiStatus;

use super::DEADLINE;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// The API server answered with an error.
    #[error("{action}: {}", refusal.message)]
    Refused {
        /// What was being done to which object.
        action: String,
        /// The answer.
        refusal: Box<ApiStatus>,
        /// How long the API server asks us to stay away.
        retry_after: Option<Duration>,
    },
    /// No answer within [`DEADLINE`].
    #[error("{action}: no answer within {} s", DEADLINE.as_secs())]
    Timeout {
        /// What was being done to which object.
        action: String,
    },
    /// The request could not be made, or its answer not be read.
    #[error("{action}: {source}")]
    Transport {
        /// What was being done to which object.
        action: String,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// Leadership is lost. If the request was sent, its result is unknown.
    #[error("{action}: this process may not write any more")]
    Fenced {
        /// What was being done to which object.
        action: String,
    },
}

impl CallError {
    /// The API server's answer, if there was one.
    pub(crate) fn refusal(&self) -> Option<&ApiStatus> {
        match self {
            CallError::Refused { refusal, .. } => Some(refusal),
            _ => None,
        }
    }

    /// How long the API server asks us to wait before the next request (RFC 9110, 10.2.3); at
    /// most [`LONGEST_ASKED`](super::LONGEST_ASKED).
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            CallError::Refused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Whether the object does not exist.
    pub(crate) fn is_not_found(&self) -> bool {
        self.refusal().is_some_and(|refusal| refusal.code == 404)
    }

    /// Whether leadership is lost, so that no call can write.
    pub(crate) fn is_fenced(&self) -> bool {
        matches!(self, CallError::Fenced { .. })
    }

    /// Whether the API server may have executed the request.
    pub(crate) fn is_ambiguous(&self) -> bool {
        self.refusal().is_none_or(|refusal| refusal.code >= 500)
    }

    /// Whether the permission is missing.
    pub(crate) fn is_forbidden(&self) -> bool {
        self.refusal().is_some_and(|refusal| refusal.code == 403)
    }

    /// Whether a `test` operation of a JSON patch failed.
    pub(crate) fn is_failed_test(&self) -> bool {
        self.refusal()
            .is_some_and(|refusal| refusal.code == 422 && refusal.message.contains("testing path"))
    }
}
