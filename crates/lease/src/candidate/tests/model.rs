//! Model checking of two or three candidates: requests and replies that are slow, lost or late; a watch
//! that is late or silent; processes that pause for any time between any two steps, crash, restart or
//! resign; a deleted lease; clocks that show different times.
//!
//! The invariant of every state: no two processes may write, including one that leads and one whose
//! last write is in progress. From every n-th state, without further faults, a process becomes leader
//! within two lease durations and a retry period.
//!
//! The number of states is finite: states that differ only in the absolute time or in the names of
//! versions are equal.
//!
//! The variants validate the check: each breaks one rule, and must be detected.

mod checks;
mod exploration;
mod fingerprint;
mod steps;
mod writers;

use super::*;

/// One tick of time is a second of these.
const SHORT: Timing = Timing {
    lease_duration: seconds(3),
    renew_deadline: seconds(2),
    retry_period: seconds(1),
};

/// The clock of each process has one of these offsets to the model's time.
const OFFSETS: [u64; 3] = [1000, 998, 1005];

/// A broken rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Broken {
    Nothing,
    /// The API server accepts a write with any version.
    Version,
    /// A write is allowed by the last known role of the process, not by the time.
    Fence,
    /// A renewal counts from its reply.
    CountsFromReply,
    /// A write without a reply counts as successful.
    SilenceIsYes,
    /// The age of a lease is the local time minus the time in its record.
    ComparesClocks,
    /// A deleted lease can be acquired at once.
    DeletedIsFree,
    /// The holder acts for as long as other candidates wait, so that a write may be in progress.
    NoGap,
    /// The lease is released while writes are in progress.
    ReleasesEarly,
    /// Not a rule: a lease is deleted before all processes have seen it. A process that has not seen it
    /// acquires the next one at once, which is not excluded.
    DeletedUnseen,
}

/// The kinds of faults, and their maximum numbers.
#[derive(Debug, Clone, Copy, Hash)]
struct Budget {
    /// Requests or replies that do not arrive in time.
    lost: u8,
    /// Processes that resign.
    resign: u8,
    /// Processes that crash and restart.
    crash: u8,
    /// Deletions of the lease.
    delete: u8,
}

#[derive(Debug, Clone, Copy)]
struct Setting {
    candidates: usize,
    /// Requests arrive at the API server at once; only replies are delayed.
    is_direct: bool,
    budget: Budget,
    broken: Broken,
}

#[derive(Clone, Hash)]
struct Process {
    candidate: Candidate,
    /// Sent, but not at the API server yet.
    request: Option<Request>,
    /// The reply, in transit.
    reply: Option<Reply>,
    /// A request that timed out and may still arrive.
    straggler: Option<Request>,
    /// The time by which allowed writes have ended.
    writes_until: u64,
    is_resigning: bool,
}

#[derive(Clone, Hash)]
struct World {
    time: u64,
    lease: Option<Lease>,
    version: u64,
    /// When the lease was last written, by the clock of its writer.
    written: Moment,
    budget: Budget,
    processes: Vec<Process>,
    incarnation: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Tick,
    Run(usize),
    Arrive(usize),
    ApiResponse(usize),
    GiveUp(usize),
    ArriveLate(usize),
    Watch(usize),
    Resign(usize),
    Crash(usize),
    Delete,
}
