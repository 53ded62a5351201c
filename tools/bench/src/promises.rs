//! What is promised, as data, and whether what was measured keeps it. Measures nothing.

pub(crate) mod row;

use std::path::Path;

use serde::Deserialize;

use crate::{Result, read};

/// All promises, and which of them were missed so far.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Promises {
    /// In percent of the limit.
    tolerance: f64,
    promises: Vec<Promise>,
    #[serde(skip)]
    missed: Vec<String>,
}

/// One of `at_most`, `at_least` and `at_most_peers`, for a row of the tables.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Promise {
    row: String,
    /// How, for readers.
    #[serde(rename = "measured")]
    _measured: String,
    pods: Option<u32>,
    resources: Option<u32>,
    at_most: Option<f64>,
    at_least: Option<f64>,
    #[serde(default)]
    at_most_peers: bool,
    bound: Option<f64>,
    missed: Option<Missed>,
}

/// A miss that is known.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Missed {
    #[serde(rename = "why")]
    _why: String,
    figure: f64,
    /// Of the measurement.
    #[serde(rename = "date")]
    _date: jiff::civil::Date,
}

impl Promise {
    /// Reports whether `measured` is within `limit`, or worse by no more than `tolerance` percent of it.
    /// What is not a number is not.
    fn is_kept(&self, limit: f64, measured: f64, tolerance: f64) -> bool {
        if self.at_least.is_some() {
            measured >= limit * (1.0 - tolerance / 100.0)
        } else {
            measured <= limit * (1.0 + tolerance / 100.0)
        }
    }

    fn text(&self) -> String {
        match (self.at_most, self.at_least) {
            (Some(0.0), _) => "0".to_owned(),
            (Some(most), _) => format!("≤ {most}"),
            (_, Some(least)) => format!("≥ {least}"),
            _ => "≤ both peers".to_owned(),
        }
    }
}

/// What was created: nothing for binaries and webhooks.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Load {
    pub(crate) resources: u32,
    pub(crate) pods: u32,
}

impl Load {
    /// E.g. `1000 resources with no pods`.
    pub(crate) fn heading(self) -> String {
        let pods = match self.pods {
            0 => "no pods".to_owned(),
            1 => "one pod each".to_owned(),
            many => format!("{many} pods each"),
        };
        match self.resources {
            0 => "The binary".to_owned(),
            many => format!("{many} resources with {pods}"),
        }
    }
}

/// A promise and how it was kept, as cells of a table.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Verdict {
    /// E.g. `≤ 3.25`; empty if nothing is promised.
    pub(crate) promised: String,
    /// What the work of the row takes with the least possible work around it.
    pub(crate) bound: Option<f64>,
    /// ` (missed)`, or empty.
    pub(crate) mark: &'static str,
}

impl Promises {
    /// Reads the promises from `path`.
    ///
    /// # Errors
    /// The file cannot be read, or does not have the form of promises.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        serde_saphyr::from_str(&read(path)?)
            .map_err(|error| format!("{}: {error}", path.display()).into())
    }

    /// The number that is promised of `row`, at most or at least, whatever the peers measure.
    pub(crate) fn limit(&self, row: &str, load: Load) -> Option<f64> {
        let promise = self.promise(row, load)?;
        promise.at_most.or(promise.at_least)
    }

    /// The first promise that applies counts.
    fn promise(&self, row: &str, load: Load) -> Option<&Promise> {
        let applies = |promise: &&Promise| {
            promise.row == row
                && promise.pods.is_none_or(|pods| pods == load.pods)
                && promise.resources.is_none_or(|most| load.resources <= most)
        };
        self.promises.iter().find(applies)
    }

    /// Compares `measured` with what is promised of `row`. `peers` is the lowest of the peers,
    /// where there are any: without them nothing is promised that depends on them.
    pub(crate) fn judge(
        &mut self,
        row: &str,
        load: Load,
        measured: f64,
        peers: Option<f64>,
    ) -> Verdict {
        let promise = self.promise(row, load);
        let peers = peers.filter(|_| promise.is_some_and(|promise| promise.at_most_peers));
        let limit = self.limit(row, load).or(peers);
        let (Some(promise), Some(limit)) = (promise, limit) else {
            return Verdict::default();
        };
        let promised = promise.text();
        let known = promise.missed.as_ref().map(|missed| missed.figure);
        let is_near = |limit| promise.is_kept(limit, measured, self.tolerance);
        let failure = (!is_near(limit) && !known.is_some_and(is_near)).then(|| {
            let known = known.map_or_else(String::new, |figure| format!(", known {figure}"));
            let load = match load.resources {
                0 => String::new(),
                _ => format!(" ({})", load.heading()),
            };
            format!("{row}{load}: {measured:.3}, promised {promised}{known}")
        });
        let mark = if promise.is_kept(limit, measured, 0.0) {
            ""
        } else {
            " (missed)"
        };
        let bound = promise.bound;
        self.missed.extend(failure);
        Verdict {
            promised,
            bound,
            mark,
        }
    }

    /// Success if no promise was missed by more than the tolerance, and no known miss became worse by
    /// more than that.
    ///
    /// # Errors
    /// Names the rows.
    pub(crate) fn verdict(self) -> Result<()> {
        if self.missed.is_empty() {
            return Ok(());
        }
        let (tolerance, rows) = (self.tolerance, self.missed.join("\n  "));
        let error = format!(
            "promises of tools/bench/promises.yaml missed by more than {tolerance} %:\n  {rows}"
        );
        Err(error.into())
    }
}

#[cfg(test)]
mod tests;
