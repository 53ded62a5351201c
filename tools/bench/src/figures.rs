//! Measured figures as CSV files, for the charts. A line has the load that was measured, in some cells, the
//! row of a table in double quotes, and the value.

use std::collections::BTreeMap;
use std::path::Path;

use crate::table::{self, Rows};
use crate::{Result, read};

/// The figures of a file.
pub(crate) struct Figures {
    header: String,
    /// By load and row.
    values: BTreeMap<(String, String), f64>,
}

impl Figures {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// The file cannot be read, or a line is not as described, or is a duplicate.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        Self::parse(&read(path)?).map_err(|error| format!("{}: {error}", path.display()).into())
    }

    fn parse(text: &str) -> std::result::Result<Self, String> {
        let mut lines = text.lines();
        let mut figures = Self {
            header: lines.next().unwrap_or_default().to_owned(),
            values: BTreeMap::new(),
        };
        for line in lines {
            let parts = line.split_once(",\"").and_then(|(load, rest)| {
                let (row, value) = rest.rsplit_once("\",")?;
                Some((load.to_owned(), row.to_owned(), value.parse().ok()?))
            });
            let (load, row, value) = parts.ok_or(format!("no figure: {line:?}"))?;
            if figures.values.insert((load, row), value).is_some() {
                return Err(format!("a duplicate: {line:?}"));
            }
        }
        Ok(figures)
    }

    /// Replaces the figures of `load` by the means of the turns.
    pub(crate) fn replace(&mut self, load: &str, turns: &[Rows]) {
        self.values.retain(|(old, _), _| old != load);
        for &(row, _) in turns.iter().next().into_iter().flatten() {
            let mean = table::mean(&table::values(turns, row));
            // Four significant digits, one more than the tables show.
            let rounded = format!("{mean:.3e}").parse().unwrap_or(mean);
            self.values
                .insert((load.to_owned(), row.to_owned()), rounded);
        }
    }

    /// Writes the file at `path`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        Ok(std::fs::write(path, self.text())?)
    }

    fn text(&self) -> String {
        let mut text = format!("{}\n", self.header);
        for ((load, row), value) in &self.values {
            text += &format!("{load},\"{row}\",{value}\n");
        }
        text
    }

    /// The points of a line of a chart, from left to right: the figures of `row` for loads like this one, in
    /// which a cell is `x`.
    pub(crate) fn points(&self, row: &str, load: &str) -> Vec<(f64, f64)> {
        let like: Vec<_> = load.split(',').collect();
        let mut points = Vec::new();
        for ((load, of), value) in &self.values {
            let cells: Vec<_> = load.split(',').collect();
            let place = like.iter().position(|cell| *cell == "x");
            let x = place.and_then(|place| cells.get(place)?.parse().ok());
            let is_like = |(like, cell): (&&str, &&str)| *like == "x" || like == cell;
            if of == row && cells.len() == like.len() && like.iter().zip(&cells).all(is_like) {
                points.extend(x.map(|x: f64| (x, *value)));
            }
        }
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::promises::row;

    const BURSTS: &str = "manager,resources,row,value
kube-rs,1000,\"CPU per 1000 resources, s\",1.1
manager,1000,\"CPU per 1000 resources, s\",1.25
manager,1000,\"requests per resource\",3.23
manager,5000,\"CPU per 1000 resources, s\",1.5
";

    #[test]
    fn the_figures_of_a_load_are_replaced() {
        let mut figures = Figures::parse(BURSTS).unwrap();
        assert_eq!(figures.text(), BURSTS);
        let turns = [1.2, 1.269_12].map(|cpu| vec![(row::CPU, cpu)]);
        figures.replace("manager,1000", &turns);
        let text = BURSTS.replace("1.25", "1.235");
        let text = text.replace("manager,1000,\"requests per resource\",3.23\n", "");
        assert_eq!(figures.text(), text);
        let points = figures.points(row::CPU, "manager,x");
        assert_eq!(points, [(1000.0, 1.235), (5000.0, 1.5)]);
    }
}
