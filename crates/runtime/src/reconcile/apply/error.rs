//! Why the children of a resource cannot be applied, and the tolerated duration.

use std::time::Duration;

use crate::state::jittered_retry;
use quartet_http::RequestError;
use quartet_workload::{Problem, Reason};

/// How long writes may fail until the resource is degraded.
pub(crate) const PATIENCE_WITH_WRITES: Duration = Duration::from_secs(30);
/// How long the deletion of a child may take until the resource is degraded.
pub(super) const PATIENCE_WITH_DELETION: Duration = Duration::from_secs(60);

/// Why the children cannot be applied.
#[derive(Debug)]
pub(crate) enum ApplyError {
    /// A child cannot be applied now.
    Blocked(Blocker),
    /// A write failed for a transient cause; retried with back-off.
    Failed(RequestError),
    /// The resource has changed since it was read. Neither children nor status are written.
    Stale,
    /// The namespace is being deleted, and the resource with it.
    NamespaceEnding,
    /// The resource is deleted or being deleted, even if the cache does not show it.
    ResourceGone,
}

/// What a child waits for.
#[derive(Debug, Clone)]
pub(crate) struct Blocker {
    /// The cause.
    pub(crate) problem: Problem,
    /// The tolerated duration before the resource is degraded: zero if only somebody else can end it,
    /// [`Duration::MAX`] if it is no problem.
    pub(crate) patience: Duration,
    /// When to try again without a new event.
    pub(crate) retry: Duration,
}

impl Blocker {
    /// An external cause. Retried after 15 s.
    pub(crate) fn external(problem: Problem) -> Self {
        Blocker {
            problem,
            patience: Duration::ZERO,
            retry: jittered_retry(),
        }
    }

    /// The normal course of a rollout.
    pub(crate) fn expected(reason: Reason, message: impl Into<String>, retry: Duration) -> Self {
        Blocker {
            problem: Problem::new(reason, message),
            patience: Duration::MAX,
            retry,
        }
    }

    /// A child is being deleted; its deletion enqueues the resource.
    pub(super) fn deletion(problem: Problem) -> Self {
        Blocker {
            problem,
            patience: PATIENCE_WITH_DELETION,
            retry: PATIENCE_WITH_DELETION,
        }
    }
}

impl From<Blocker> for ApplyError {
    fn from(blocker: Blocker) -> Self {
        ApplyError::Blocked(blocker)
    }
}

impl From<RequestError> for ApplyError {
    fn from(error: RequestError) -> Self {
        ApplyError::Failed(error)
    }
}
