//! What a candidate of the election sends, what comes of it, and what it is told to do. Data only.

use std::sync::Arc;
use std::time::Duration;

use crate::manager::election::clock::Moment;

/// The lease as the API server holds it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::manager::election) struct Lease {
    /// Its resourceVersion: greater after each change, also over a deletion.
    pub(in crate::manager::election) version: u64,
    /// What its holder wrote.
    pub(in crate::manager::election) record: Record,
}

/// What the holder of a lease wrote.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::manager::election) struct Record {
    /// Empty when it was given up.
    pub(in crate::manager::election) holder: Arc<str>,
    /// For how long it holds; `None` if that is missing or not positive.
    pub(in crate::manager::election) duration: Option<Duration>,
    /// How often it has changed hands.
    pub(in crate::manager::election) transitions: i32,
    /// When it was renewed, by the holder's clock: compared with what it was before, and with
    /// nothing else.
    pub(in crate::manager::election) renewed: i64,
}

/// What to ask of the API server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::manager::election) enum Request {
    /// The lease as it is now, not from a cache.
    Read,
    /// A new lease, held by this process.
    Create { transitions: i32 },
    /// A change of the lease that has this version and no other.
    Replace { version: u64, change: Change },
}

/// A change of the lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::manager::election) enum Change {
    /// From now on it is held by this process.
    Take { transitions: i32 },
    /// It is still held by this process.
    Renew,
    /// It is held by nobody.
    Release,
}

/// What came of a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::manager::election) enum Reply {
    /// It succeeded; the lease as it is now.
    Lease(Lease),
    /// There is no lease.
    Absent,
    /// It failed, or nobody knows.
    Failed,
}

/// What to do now.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::manager::election) enum Next {
    /// Send this, and tell of the reply or of its absence.
    Send(Request),
    /// Nothing before this moment, unless something comes in.
    Wait(Moment),
    /// Nothing any more; the lease is not held.
    Done,
    /// Stop at once: this process led and may not lead any more.
    Lost(Loss),
}

/// Why this process may not lead any more.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub(in crate::manager::election) enum Loss {
    /// The renew deadline passed.
    #[error("the lease could not be renewed in time")]
    NotRenewed,
    /// Somebody else holds the lease.
    #[error("the lease is held by {0}")]
    Taken(Arc<str>),
    /// Somebody else gave it up.
    #[error("somebody else cleared the holder of the lease")]
    Cleared,
}
