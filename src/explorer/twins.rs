//! Twins of the controllers with one bug each, which show that the oracles bite. A bug is
//! switched on for one thread; the places that ask for it are compiled for tests only.

use std::cell::Cell;

/// A bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Twin {
    /// A write that failed is no reason not to be ready.
    StatusAhead,
    /// A child is applied whatever its uid and version.
    ApplyWithoutUid,
    /// What is gone is not remembered.
    NoTombstones,
    /// The cache takes the answer to a write for news, however late it comes.
    CacheRolledBack,
    /// The end of a child wakes nobody.
    LostWakeup,
    /// Who does not lead writes.
    SecondWriter,
    /// A failure is tried again at once.
    UnboundedRetry,
    /// Nobody asks whether the owner of a missing child is alive.
    ChildOfDeadOwner,
    /// A status is written although it is as wanted.
    WriteAtRest,
    /// A status replaces one that was not seen.
    BlindStatus,
}

/// Their names in `docs/testing.md`.
pub(super) const TWINS: [(Twin, &str); 10] = [
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

/// Runs `what` as the product, whatever this thread is.
pub(super) fn as_product<T>(what: impl FnOnce() -> T) -> T {
    with(None, what)
}

fn with<T>(bug: Option<Twin>, what: impl FnOnce() -> T) -> T {
    let before = BUG.replace(bug);
    let result = what();
    BUG.set(before);
    result
}
