//! What figures are of: bursts, fleets and webhooks.

use crate::manager::NAMES;
use crate::{report, scale, webhook};

/// What a figure is of: the cells of a line before its value.
pub(crate) trait Key: Copy + Ord {
    /// The names of the columns.
    const COLUMNS: &'static [&'static str];

    /// The key of a line that has as many cells as there are columns.
    ///
    /// # Errors
    /// What is wrong with a cell.
    fn parse(cells: &[&str]) -> Result<Self, String>;

    /// The opposite.
    fn cells(&self) -> Vec<String>;
}

/// A row of `bench peer`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Burst {
    pub(crate) manager: &'static str,
    pub(crate) resources: u32,
    pub(crate) pods: u32,
    pub(crate) row: &'static str,
}

impl Key for Burst {
    const COLUMNS: &'static [&'static str] = &["manager", "resources", "pods", "row"];

    fn parse(cells: &[&str]) -> Result<Self, String> {
        let mut cells = Cells::of::<Self>(cells);
        Ok(Self {
            manager: cells.name(NAMES)?,
            resources: cells.number()?,
            pods: cells.number()?,
            row: cells.name(report::FIGURES.map(|(row, _)| row))?,
        })
    }

    fn cells(&self) -> Vec<String> {
        vec![
            self.manager.to_owned(),
            self.resources.to_string(),
            self.pods.to_string(),
            self.row.to_owned(),
        ]
    }
}

/// A row of `bench scale`, with a pod for each resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fleet {
    pub(crate) resources: u32,
    pub(crate) row: &'static str,
}

impl Key for Fleet {
    const COLUMNS: &'static [&'static str] = &["resources", "row"];

    fn parse(cells: &[&str]) -> Result<Self, String> {
        let mut cells = Cells::of::<Self>(cells);
        Ok(Self {
            resources: cells.number()?,
            row: cells.name(scale::rows())?,
        })
    }

    fn cells(&self) -> Vec<String> {
        vec![self.resources.to_string(), self.row.to_owned()]
    }
}

/// A figure of `bench webhook`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Webhook {
    pub(crate) server: &'static str,
    pub(crate) call: &'static str,
    /// In one call.
    pub(crate) objects: u32,
    pub(crate) connections: u32,
    pub(crate) row: &'static str,
}

impl Webhook {
    /// What is measured at a time.
    pub(crate) fn load(&self) -> (&'static str, u32, u32) {
        (self.call, self.objects, self.connections)
    }
}

impl Key for Webhook {
    const COLUMNS: &'static [&'static str] = &["server", "call", "objects", "connections", "row"];

    fn parse(cells: &[&str]) -> Result<Self, String> {
        let mut cells = Cells::of::<Self>(cells);
        Ok(Self {
            server: cells.name(webhook::SERVERS)?,
            call: cells.name(webhook::CALLS)?,
            objects: cells.number()?,
            connections: cells.number()?,
            row: cells.name(webhook::rows())?,
        })
    }

    fn cells(&self) -> Vec<String> {
        vec![
            self.server.to_owned(),
            self.call.to_owned(),
            self.objects.to_string(),
            self.connections.to_string(),
            self.row.to_owned(),
        ]
    }
}

/// The cells of a line with their columns, from left to right.
struct Cells<'a>(std::vec::IntoIter<(&'static str, &'a str)>);

impl<'a> Cells<'a> {
    fn of<K: Key>(cells: &[&'a str]) -> Self {
        let columns = K::COLUMNS.iter().copied();
        let cells: Vec<_> = columns.zip(cells.iter().copied()).collect();
        Self(cells.into_iter())
    }

    fn next(&mut self) -> Result<(&'static str, &'a str), String> {
        self.0.next().ok_or_else(|| "a cell is missing".to_owned())
    }

    fn number(&mut self) -> Result<u32, String> {
        let (column, cell) = self.next()?;
        let number = cell.parse().ok().filter(|it| *it > 0 || column == "pods");
        number.ok_or_else(|| format!("{column}: {cell:?} is not a whole number in its range"))
    }

    /// One of `known`, so that nothing is recorded that no plot can find.
    fn name(
        &mut self,
        known: impl IntoIterator<Item = &'static str>,
    ) -> Result<&'static str, String> {
        let (column, cell) = self.next()?;
        let known: Vec<_> = known.into_iter().collect();
        let found = known.iter().copied().find(|it| *it == cell);
        found.ok_or_else(|| format!("{column}: {cell:?} is none of: {}", known.join("; ")))
    }
}
