//! The output of a migration: progress on standard error, at most one line a second, and one result
//! line per kind on standard output.

use std::io::{self, Write as _};
use std::time::Duration;

use tokio::time::Instant;

/// Minimum interval between two lines of progress.
const EVERY: Duration = Duration::from_secs(1);

/// Maximum number of failed objects that are named.
const NAMED: u64 = 20;

/// The progress of one kind.
pub(super) struct Progress {
    name: String,
    /// Estimated number of objects.
    expected: u64,
    /// Number of finished objects.
    pub(super) done: u64,
    /// Number of objects that were stored in an old version.
    pub(super) written: u64,
    /// Number of objects that could not be rewritten.
    pub(super) failed: u64,
    last_line: Instant,
}

impl Progress {
    /// The progress of the CRD `name`.
    pub(super) fn of(name: String) -> Self {
        let (expected, done, written, failed) = (0, 0, 0, 0);
        Self {
            name,
            expected,
            done,
            written,
            failed,
            last_line: Instant::now(),
        }
    }

    /// Records a page: its number of objects, and the estimated number of remaining objects.
    pub(super) fn listed(&mut self, page: u64, remaining: u64) {
        self.expected = self.done + self.failed + page + remaining;
    }

    /// Records finished objects, and how many of them were rewritten.
    pub(super) fn done(&mut self, count: u64, written: u64) {
        self.done += count;
        self.written += written;
        if self.last_line.elapsed() >= EVERY {
            self.last_line = Instant::now();
            self.note(&format!("{} of {} objects", self.done, self.expected));
        }
    }

    /// Records an object that cannot be rewritten.
    pub(super) fn failed(&mut self, reason: &str) {
        self.failed += 1;
        if self.failed <= NAMED {
            self.note(reason);
        } else if self.failed == NAMED + 1 {
            self.note("more objects failed, not named here");
        }
    }

    /// The list starts again: resets the number of finished objects, but not of rewritten ones.
    pub(super) fn restarted(&mut self) {
        (self.done, self.failed) = (0, 0);
    }

    /// Writes a line to standard error.
    pub(super) fn note(&self, text: &str) {
        // A closed standard error does not stop the migration.
        let _ = writeln!(io::stderr(), "{}: {text}", self.name);
    }

    /// Writes the result line.
    pub(super) fn result(&self, text: &str) {
        let _ = writeln!(io::stdout(), "{}: {text}", self.name);
    }
}
