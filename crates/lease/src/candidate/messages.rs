//! Requests of a candidate, their replies, and the next action. Data only.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Moment;

/// The lease as the API server holds it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Lease {
    /// Its resourceVersion. It grows with each change, across deletions too.
    pub(crate) version: u64,
    /// The part that its holder writes.
    pub(crate) record: Record,
}

/// The part of a lease that its holder writes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Record {
    /// Empty if the lease was released.
    pub(crate) holder: Arc<str>,
    /// Duration of the lease; zero if it is missing or not positive.
    pub(crate) duration: Duration,
    /// Number of changes of the holder.
    pub(crate) transitions: i32,
    /// Time of the renewal by the holder's clock, in microseconds since 1970; 0 if it is missing. It is compared
    /// only with its earlier values.
    pub(crate) renewed: i64,
}

/// A request to the API server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Request {
    /// Read the lease, not from a cache.
    Read,
    /// Create a lease that this process holds.
    Create {
        /// `leaseTransitions` of the new lease.
        transitions: i32,
    },
    /// Change the lease, if it has this version.
    Replace {
        /// The version that is replaced.
        version: u64,
        /// The change.
        change: Change,
    },
}

/// A change of the lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Change {
    /// This process becomes the holder.
    Take {
        /// `leaseTransitions` from now on.
        transitions: i32,
    },
    /// This process stays the holder.
    Renew,
    /// The lease has no holder.
    Release,
}

/// The reply to a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Reply {
    /// It succeeded; the lease as it is now.
    Lease(Lease),
    /// There is no lease.
    Absent,
    /// It failed, or its result is unknown.
    Failed,
}

/// The next action.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Next {
    /// Send this request, and report its reply or failure.
    Send(Request),
    /// Wait until this time, or until an input.
    Wait(Moment),
    /// The candidate has ended and does not hold the lease.
    Done,
    /// Stop at once: this process has lost the leadership.
    Lost(Loss),
}

/// This process has lost the leadership and must exit.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Loss {
    /// The renew deadline passed.
    #[error("leader election lost: the lease could not be renewed in time")]
    NotRenewed,
    /// Another process holds the lease.
    #[error("leader election lost: the lease is held by {0}")]
    Taken(Arc<str>),
    /// Another process cleared the holder.
    #[error("leader election lost: another process cleared the holder of the lease")]
    Cleared,
}
