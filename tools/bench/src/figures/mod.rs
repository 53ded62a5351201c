//! Measured figures as data, for plots: CSV files to which measurements with different loads add
//! their means. Measures and draws nothing.
//!
//! A cell with a comma stands in double quotes; no cell has a quote.

mod keys;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

pub(crate) use self::keys::{Burst, Fleet, Key, Webhook};
use crate::error::Error;

/// The column behind those of the key.
const VALUE: &str = "value";

/// The figures of a file, sorted by the columns from left to right.
#[derive(Debug, PartialEq)]
pub(crate) struct Records<K>(BTreeMap<K, f64>);

impl<K: Key> Records<K> {
    /// Those of the file at `path`.
    ///
    /// # Errors
    /// It cannot be read, or has a line that is none of these figures.
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text).map_err(|(line, reason)| Error::Figures {
            path: path.to_owned(),
            line,
            reason,
        })
    }

    /// An error has the number of the line.
    pub(crate) fn parse(text: &str) -> Result<Self, (usize, String)> {
        let mut lines = (1..).zip(text.lines());
        let header = Self::header();
        if lines.next().is_none_or(|(_, first)| first != header) {
            return Err((1, format!("the first line is not {header:?}")));
        }
        let mut records = BTreeMap::new();
        for (number, line) in lines {
            let (key, value) = parsed::<K>(line).map_err(|reason| (number, reason))?;
            if records.insert(key, value).is_some() {
                let reason = "a line before it has a value for the same cells".to_owned();
                return Err((number, reason));
            }
        }
        Ok(Self(records))
    }

    fn header() -> String {
        format!("{},{VALUE}", K::COLUMNS.join(","))
    }

    /// Leaves out those that `is_old` tells, and takes in `new`, but for what is not a number.
    pub(crate) fn replace(
        &mut self,
        is_old: impl Fn(&K) -> bool,
        new: impl IntoIterator<Item = (K, f64)>,
    ) {
        self.0.retain(|key, _| !is_old(key));
        let new = new.into_iter().filter(|(_, value)| value.is_finite());
        self.0.extend(new.map(|(key, value)| (key, rounded(value))));
    }

    /// The text of the file.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("{}\n", Self::header());
        for (key, value) in &self.0 {
            let cells = key.cells().into_iter().map(quoted);
            let cells: Vec<_> = cells.chain([value.to_string()]).collect();
            text += &cells.join(",");
            text.push('\n');
        }
        text
    }

    /// All of them, sorted.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, f64)> {
        self.0.iter().map(|(key, value)| (key, *value))
    }

    /// The figure of `key`.
    pub(crate) fn get(&self, key: &K) -> Option<f64> {
        self.0.get(key).copied()
    }
}

/// A file to which a measurement adds its figures.
pub(crate) struct Ledger<K> {
    path: PathBuf,
    keys: PhantomData<K>,
}

impl<K: Key> Ledger<K> {
    /// The one at `path`, which is begun if it is not there.
    ///
    /// # Errors
    /// It cannot be read, or has a line that is none of these figures.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let ledger = Self {
            path: path.to_owned(),
            keys: PhantomData,
        };
        ledger.records()?;
        Ok(ledger)
    }

    /// Replaces in the file as it is now, see [`Records::replace`].
    ///
    /// # Errors
    /// It cannot be read or written any more.
    pub(crate) fn replace(
        &self,
        is_old: impl Fn(&K) -> bool,
        new: impl IntoIterator<Item = (K, f64)>,
    ) -> Result<(), Error> {
        let mut records = self.records()?;
        records.replace(is_old, new);
        Ok(std::fs::write(&self.path, records.text())?)
    }

    fn records(&self) -> Result<Records<K>, Error> {
        match Records::read(&self.path) {
            Err(Error::Read { source, .. }) if source.kind() == ErrorKind::NotFound => {
                Ok(Records(BTreeMap::new()))
            }
            read => read,
        }
    }
}

fn parsed<K: Key>(line: &str) -> Result<(K, f64), String> {
    let cells = split(line)?;
    let columns = K::COLUMNS.len();
    let Some((value, cells)) = cells
        .split_last()
        .filter(|(_, cells)| cells.len() == columns)
    else {
        let (found, expected) = (cells.len(), columns + 1);
        return Err(format!("{found} cells in place of {expected}"));
    };
    let number = value.parse().ok().filter(|it: &f64| it.is_finite());
    let number = number.ok_or_else(|| format!("{VALUE}: {value:?} is no number"))?;
    Ok((K::parse(cells)?, number))
}

fn split(line: &str) -> Result<Vec<&str>, String> {
    let mut cells = Vec::new();
    let mut rest = line;
    loop {
        let (cell, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').ok_or("a quote is not closed")?,
            None => rest.split_at(rest.find(',').unwrap_or(rest.len())),
        };
        cells.push(cell);
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None if after.is_empty() => return Ok(cells),
            None => return Err(format!("{after:?} stands behind a quote")),
        }
    }
}

fn quoted(cell: String) -> String {
    match cell.contains(',') {
        true => format!("\"{cell}\""),
        false => cell,
    }
}

/// Four significant digits, one more than the tables show.
fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests;
