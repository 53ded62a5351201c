//! Why the children of a resource cannot be applied, and the tolerated duration.

use std::time::Duration;

use super::wanted::Wanted;
use crate::state::{Blocker, jittered_retry};
use quartet_http::RequestError;
use quartet_workload::{Problem, Reason};

/// How long writes may fail until the resource is degraded.
pub(crate) const PATIENCE_WITH_WRITES: Duration = Duration::from_secs(30);
/// How long the deletion of a child may take until the resource is degraded.
const PATIENCE_WITH_DELETION: Duration = Duration::from_secs(60);

/// Why the children cannot be applied.
#[derive(Debug)]
pub(crate) enum ApplyError {
    /// Blocked by an external cause; retried after this time.
    Blocked(Problem, Duration),
    /// Waits for something that usually resolves by itself.
    Pending {
        /// The cause.
        problem: Problem,
        /// The tolerated duration before the resource is degraded.
        patience: Option<Duration>,
        /// When to reconcile again without a new event.
        requeue_after: Duration,
    },
    /// A write failed for a transient cause; retried with back-off.
    Failed(RequestError),
    /// The resource has changed since it was read. Neither children nor status are written.
    Stale,
    /// The namespace is being deleted, and the resource with it.
    NamespaceEnding,
    /// The resource is deleted or being deleted, even if the cache does not show it.
    ResourceGone,
}

impl ApplyError {
    /// What blocks the child. No request is to be sent for it before the returned time has passed.
    pub(super) fn blocker(&self) -> Option<(Blocker, Duration)> {
        match self {
            ApplyError::Blocked(problem, wait) => Some((Blocker::Problem(problem.clone()), *wait)),
            ApplyError::Pending {
                problem,
                requeue_after,
                ..
            } => match problem.reason {
                Reason::RollingOut => Some((Blocker::Rollout, *requeue_after)),
                Reason::ApplyFailed => Some((Blocker::Failing(problem.clone()), *requeue_after)),
                _ => None,
            },
            _ => None,
        }
    }
}

impl From<RequestError> for ApplyError {
    fn from(error: RequestError) -> Self {
        ApplyError::Failed(error)
    }
}

/// A child is being deleted; its deletion enqueues the resource.
pub(super) fn pending_deletion(problem: Problem) -> ApplyError {
    ApplyError::Pending {
        problem,
        patience: Some(PATIENCE_WITH_DELETION),
        requeue_after: PATIENCE_WITH_DELETION,
    }
}

/// A webhook or policy changes a field of the child without which its watch does not show it.
pub(super) fn lost_on_admission(wanted: Wanted<'_>, field: &str) -> ApplyError {
    let (kind, name) = (wanted.child.kind.kind, &wanted.child.name);
    let message = format!(
        "{kind} {name}: a mutating admission webhook or policy changes {field}, without which this \
         operator does not see the {kind}; make it leave that field"
    );
    ApplyError::Blocked(
        Problem::new(Reason::FieldConflict, message),
        jittered_retry(),
    )
}

/// A write fails for a cause that usually ends: the API server does not know the namespace or resource type,
/// possibly not yet, or cannot answer.
pub(super) fn failing(problem: Problem, requeue_after: Duration) -> ApplyError {
    ApplyError::Pending {
        problem,
        patience: Some(PATIENCE_WITH_WRITES),
        requeue_after,
    }
}

/// The Service of an older operator is not changed until the Deployment is rolled out, which enqueues
/// the resource.
pub(super) fn pending_rollout(wanted: Wanted<'_>, requeue_after: Duration) -> ApplyError {
    let name = &wanted.child.name;
    let message = format!("Service {name} is adopted when the Deployment is rolled out");
    ApplyError::Pending {
        problem: Problem::new(Reason::RollingOut, message),
        patience: None,
        requeue_after,
    }
}
