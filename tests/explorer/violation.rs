//! What an oracle reports.

use std::fmt;

/// A violation of an invariant.
#[derive(Debug, Clone)]
pub(super) struct Violation {
    pub(super) oracle: &'static str,
    pub(super) what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.oracle, self.what)
    }
}

/// Adds a violation: the oracle, and what it found.
pub(super) type Add<'a> = dyn FnMut(&'static str, String) + 'a;
