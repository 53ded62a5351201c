//! An error together with its causes, as it is logged. Nothing else.

use std::fmt;

/// An error with its causes, on one line.
pub(super) struct Explained<'a>(pub(super) &'a dyn std::error::Error);

impl fmt::Display for Explained<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(formatter, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}
