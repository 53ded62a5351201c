//! The output of a migration: progress on standard error, at most one line a second, and one result
//! line per kind on standard output.

use std::io::{self, Write as _};
use std::time::Duration;

use tokio::time::Instant;

/// Minimum interval between two lines of progress.
const EVERY: Duration = Duration::from_secs(1);

/// Maximum number of failed objects that are named.
const NAMED: usize = 20;

/// The progress of one kind.
pub(super) struct Progress {
    name: String,
    /// Estimated number of objects.
    expected: u64,
    done: u64,
    /// Number of objects that were stored in an old version.
    written: u64,
    failed: u64,
    told: Instant,
}

impl Progress {
    /// The progress of the CRD `name`.
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

    /// Records a page: its number of objects, and the estimated number of remaining objects.
    pub(super) fn listed(&mut self, page: u64, remaining: u64) {
        self.expected = self.done + self.failed + page + remaining;
    }

    /// Records finished objects, and how many of them were rewritten.
    pub(super) fn done(&mut self, count: u64, written: u64) {
        self.done += count;
        self.written += written;
        if self.told.elapsed() >= EVERY {
            self.told = Instant::now();
            self.note(&format!("{} of {} objects", self.done, self.expected));
        }
    }

    /// Records an object that cannot be rewritten.
    pub(super) fn failed(&mut self, reason: &str) {
        self.failed += 1;
        match usize::try_from(self.failed) {
            Ok(count) if count <= NAMED => self.note(reason),
            Ok(count) if count == NAMED + 1 => self.note("more objects failed, not named here"),
            _ => {}
        }
    }

    /// The list starts again: resets the number of finished objects, but not of rewritten ones.
    pub(super) fn restarted(&mut self) {
        (self.done, self.failed) = (0, 0);
    }

    /// Number of rewritten objects.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Number of finished objects.
    pub(super) fn count(&self) -> u64 {
        self.done
    }

    /// Number of objects that could not be rewritten.
    pub(super) fn failures(&self) -> u64 {
        self.failed
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
