//! The part of a document that a command writes: what is between two lines of its own.

use std::path::{Path, PathBuf};

use crate::error::Error;

const BEGIN: &str = "<!-- Written by `make bench-peer`: begin -->";
const END: &str = "<!-- Written by `make bench-peer`: end -->";

/// A document that has both lines.
pub(super) struct Document {
    path: PathBuf,
}

impl Document {
    /// The one at `path`.
    ///
    /// # Errors
    /// It cannot be read, or has no place for a table.
    pub(super) fn read(path: &Path) -> Result<Self, Error> {
        let document = Self {
            path: path.to_owned(),
        };
        document.with("")?;
        Ok(document)
    }

    /// Replaces what is between the lines; the rest is as it is now.
    ///
    /// # Errors
    /// It cannot be read or written, or has no place for a table any more.
    pub(super) fn write(&self, table: &str) -> Result<(), Error> {
        let text = self.with(table)?;
        Ok(std::fs::write(&self.path, text)?)
    }

    fn with(&self, table: &str) -> Result<String, Error> {
        let text = std::fs::read_to_string(&self.path).map_err(|source| Error::Read {
            path: self.path.clone(),
            source,
        })?;
        replaced(&text, table).ok_or_else(|| Error::NoPlace {
            path: self.path.clone(),
            begin: BEGIN,
            end: END,
        })
    }
}

fn replaced(text: &str, table: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    let table = table.trim();
    Some(format!("{before}{BEGIN}\n\n{table}\n\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_lines_is_replaced() {
        let text = format!("# A\n\n{BEGIN}\nold\n{END}\n\n## B\n");
        let new = replaced(&text, "| new |\n").unwrap();
        assert_eq!(new, format!("# A\n\n{BEGIN}\n\n| new |\n\n{END}\n\n## B\n"));
        assert_eq!(replaced(&new, "| new |"), Some(new.clone()));
    }

    #[test]
    fn a_document_without_both_lines_has_no_place() {
        for text in [
            "# A\n".to_owned(),
            format!("{BEGIN}\n"),
            format!("{END}\n{BEGIN}\n"),
        ] {
            assert_eq!(replaced(&text, "| new |"), None, "{text}");
        }
    }
}
