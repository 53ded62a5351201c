//! Measured figures as CSV files, for the charts. A line has what was measured, the row of a table in
//! double quotes, and the value.

use std::collections::BTreeMap;
use std::path::Path;

use crate::error::Error;

/// The cells of a line before its value; the last one is the row of a table.
pub(crate) type Key = Vec<String>;

/// The figures of a file.
pub(crate) struct Figures {
    header: String,
    values: BTreeMap<Key, f64>,
}

impl Figures {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// The file cannot be read, or a line does not have the cells of the first one.
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text).map_err(|line| Error::Figures {
            path: path.to_owned(),
            line,
        })
    }

    /// An error is the line that cannot be parsed.
    fn parse(text: &str) -> Result<Self, String> {
        let (header, lines) = text.split_once('\n').ok_or(text)?;
        let keys = header.matches(',').count();
        let mut values = BTreeMap::new();
        for line in lines.lines() {
            let (cells, value) = line.rsplit_once(',').ok_or(line)?;
            let key = cells.splitn(keys, ',').map(|cell| cell.trim_matches('"'));
            let key: Key = key.map(str::to_owned).collect();
            let value = value.parse().map_err(|_| line)?;
            if key.len() != keys || values.insert(key, value).is_some() {
                return Err(line.to_owned());
            }
        }
        Ok(Self {
            header: header.to_owned(),
            values,
        })
    }

    /// Replaces the figures that have the same cells before the row as one of `new`.
    pub(crate) fn replace(&mut self, new: &BTreeMap<Key, f64>) {
        let load = |key: &Key| key[..key.len() - 1].to_vec();
        let is_measured = |key: &Key| new.keys().any(|new| load(new) == load(key));
        self.values.retain(|key, _| !is_measured(key));
        for (key, value) in new {
            // Four significant digits, one more than the tables show.
            let rounded = format!("{value:.3e}").parse().unwrap_or(*value);
            self.values.insert(key.clone(), rounded);
        }
    }

    /// Writes the file at `path`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write(&self, path: &Path) -> Result<(), Error> {
        Ok(std::fs::write(path, self.text())?)
    }

    fn text(&self) -> String {
        let mut text = format!("{}\n", self.header);
        for (key, value) in &self.values {
            let (row, cells) = key
                .split_last()
                .map_or(("", key.as_slice()), |(row, cells)| (row.as_str(), cells));
            text += &format!("{},\"{row}\",{value}\n", cells.join(","));
        }
        text
    }

    /// The points of a line of a chart, from left to right: of each figure for which `x` returns a place.
    pub(crate) fn points(&self, x: impl Fn(&[&str]) -> Option<f64>) -> Vec<(f64, f64)> {
        let points = self.values.iter().filter_map(|(key, value)| {
            let cells: Vec<_> = key.iter().map(String::as_str).collect();
            Some((x(&cells)?, *value))
        });
        let mut points: Vec<_> = points.collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let key = ["manager", "1000", "CPU per 1000 resources, s"].map(str::to_owned);
        figures.replace(&BTreeMap::from([(key.to_vec(), 1.234_56)]));
        let text = BURSTS.replace("1.25", "1.235");
        let text = text.replace("manager,1000,\"requests per resource\",3.23\n", "");
        assert_eq!(figures.text(), text);
        let points = figures.points(|key| match key {
            ["manager", resources, "CPU per 1000 resources, s"] => resources.parse().ok(),
            _ => None,
        });
        assert_eq!(points, [(1000.0, 1.235), (5000.0, 1.5)]);
    }

    #[test]
    fn a_bad_line_is_an_error() {
        for line in [
            "manager,1",
            "manager,1,\"a\",many",
            "kube-rs,1000,\"CPU per 1000 resources, s\",2",
        ] {
            let error = Figures::parse(&format!("{BURSTS}{line}\n")).err();
            assert_eq!(error.as_deref(), Some(line));
        }
    }
}
