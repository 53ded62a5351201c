//! Twins of the controllers with one bug each, to test the oracles. A bug is enabled for one thread;
//! the checks for it are compiled only in tests.

use std::cell::Cell;

/// A bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Twin {
    /// A failed write does not prevent Ready.
    StatusAhead,
    /// A child is applied without uid and version as preconditions.
    ApplyWithoutUid,
    /// Deleted objects are not remembered.
    NoTombstones,
    /// The cache stores the answer to a write even if it is older.
    CacheRolledBack,
    /// The deletion of a child enqueues nothing.
    LostWakeup,
    /// A process that does not lead writes.
    SecondWriter,
    /// A failure is retried at once.
    UnboundedRetry,
    /// The owner of a missing child is not read before the child is created.
    ChildOfDeadOwner,
    /// A status is written although it is up to date.
    WriteAtRest,
    /// A write replaces a status that was not seen.
    BlindStatus,
    /// What was applied to a child is read once, and never again.
    ReadOnce,
    /// The first list of resources enqueues nothing.
    FirstListIgnored,
    /// A failed reconcile waits for the next event.
    NoRetry,
    /// `Retry-After` is ignored.
    NoRetryAfter,
    /// An informer stops at an error of its watch.
    NoRewatch,
    /// An informer stops at an event that is not newer than the one before.
    StrictOrder,
    /// An error ends the process.
    EndsAtError,
    /// A webhook answers with another uid.
    OtherUid,
    /// The first lists of children are taken for the current state.
    FirstListTrusted,
    /// A spec of the same generation is taken for the same spec.
    GenerationOnly,
}

/// Their names in `docs/testing.md`.
pub(super) const TWINS: [(Twin, &str); 20] = [
    (Twin::StatusAhead, "status ahead of the children"),
    (Twin::ApplyWithoutUid, "apply without uid"),
    (Twin::NoTombstones, "no tombstones"),
    (Twin::CacheRolledBack, "cache rolled back"),
    (Twin::LostWakeup, "lost wake-up"),
    (Twin::SecondWriter, "second writer"),
    (Twin::UnboundedRetry, "unbounded retry"),
    (Twin::ChildOfDeadOwner, "child of a dead owner"),
    (Twin::WriteAtRest, "write at rest"),
    (Twin::BlindStatus, "blind status"),
    (Twin::ReadOnce, "read once"),
    (Twin::FirstListIgnored, "first list ignored"),
    (Twin::NoRetry, "no retry"),
    (Twin::NoRetryAfter, "no Retry-After"),
    (Twin::NoRewatch, "no new watch"),
    (Twin::StrictOrder, "strict order"),
    (Twin::EndsAtError, "end at an error"),
    (Twin::OtherUid, "other uid"),
    (Twin::FirstListTrusted, "first list trusted"),
    (Twin::GenerationOnly, "generation only"),
];

thread_local! {
    static BUG: Cell<Option<Twin>> = const { Cell::new(None) };
}

/// Whether this thread runs this twin.
pub(crate) fn is(twin: Twin) -> bool {
    BUG.get() == Some(twin)
}

/// Runs `what` as this twin.
pub(super) fn as_twin<T>(twin: Twin, what: impl FnOnce() -> T) -> T {
    with(Some(twin), what)
}

/// Runs `what` without a bug, on any thread.
pub(super) fn as_product<T>(what: impl FnOnce() -> T) -> T {
    with(None, what)
}

fn with<T>(bug: Option<Twin>, what: impl FnOnce() -> T) -> T {
    let before = BUG.replace(bug);
    let result = what();
    BUG.set(before);
    result
}
