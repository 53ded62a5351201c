//! What a person reads while a migration runs: progress on standard error, at most a line a
//! second, and one line of result for each kind on standard output.

use std::io::{self, Write as _};
use std::time::Duration;

use tokio::time::Instant;

/// How often it is told how far the work has come.
const EVERY: Duration = Duration::from_secs(1);

/// How many objects that could not be rewritten are named.
const NAMED: usize = 20;

/// How far the work on one kind has come.
pub(super) struct Progress {
    name: String,
    /// About how many objects there are.
    expected: u64,
    done: u64,
    /// Those of them that were not stored in the new version yet.
    written: u64,
    failed: u64,
    told: Instant,
}

impl Progress {
    /// Of the CRD called `name`.
    pub(super) fn of(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            expected: 0,
            done: 0,
            written: 0,
            failed: 0,
            told: Instant::now(),
        }
    }

    /// A page came in: of so many objects, with about so many to follow.
    pub(super) fn listed(&mut self, page: u64, remaining: u64) {
        self.expected = self.done + self.failed + page + remaining;
    }

    /// So many objects more are done with, of which so many were stored anew.
    pub(super) fn done(&mut self, count: u64, written: u64) {
        self.done += count;
        self.written += written;
        if self.told.elapsed() >= EVERY {
            self.told = Instant::now();
            self.note(&format!("{} of {} objects", self.done, self.expected));
        }
    }

    /// One object cannot be rewritten.
    pub(super) fn failed(&mut self, reason: &str) {
        self.failed += 1;
        match usize::try_from(self.failed) {
            Ok(count) if count <= NAMED => self.note(reason),
            Ok(count) if count == NAMED + 1 => self.note("more objects failed, not named here"),
            _ => {}
        }
    }

    /// The list starts anew, and with it the count of its objects; what was written, was.
    pub(super) fn restarted(&mut self) {
        (self.done, self.failed) = (0, 0);
    }

    /// Objects that were stored anew.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Objects that are done with.
    pub(super) fn count(&self) -> u64 {
        self.done
    }

    /// Objects that could not be rewritten.
    pub(super) fn failures(&self) -> u64 {
        self.failed
    }

    /// A line on standard error.
    pub(super) fn note(&self, text: &str) {
        // A reader that has gone away is no reason to stop half-way.
        let _ = writeln!(io::stderr(), "{}: {text}", self.name);
    }

    /// The line of result.
    pub(super) fn result(&self, text: &str) {
        let _ = writeln!(io::stdout(), "{}: {text}", self.name);
    }
}
