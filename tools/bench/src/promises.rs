//! What is promised, as data, and whether what was measured keeps it. Measures nothing.

pub(crate) mod row;

use std::path::Path;

use serde::Deserialize;

use crate::error::Error;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    tolerance: f64,
    promises: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
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

#[derive(Debug, Clone, Copy, PartialEq)]
enum Limit {
    AtMost(f64),
    AtLeast(f64),
    /// The lowest of the peers.
    Peers,
}

impl Limit {
    /// Whether `measured` is within the limit, or worse by no more than `tolerance`, a part of it. What
    /// is not a number is not.
    fn is_kept(self, measured: f64, peers: Option<f64>, tolerance: f64) -> bool {
        match (self, peers) {
            (Self::AtMost(most), _) | (Self::Peers, Some(most)) => {
                measured <= most * (1.0 + tolerance)
            }
            (Self::AtLeast(least), _) => measured >= least * (1.0 - tolerance),
            (Self::Peers, None) => true,
        }
    }

    /// The same limit with the number `figure`.
    fn at(self, figure: f64) -> Self {
        match self {
            Self::AtLeast(_) => Self::AtLeast(figure),
            Self::AtMost(_) | Self::Peers => Self::AtMost(figure),
        }
    }
}

impl std::fmt::Display for Limit {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AtMost(0.0) => formatter.write_str("0"),
            Self::AtMost(most) => write!(formatter, "≤ {most}"),
            Self::AtLeast(least) => write!(formatter, "≥ {least}"),
            Self::Peers => formatter.write_str("≤ both peers"),
        }
    }
}

impl Entry {
    /// What is promised.
    ///
    /// # Errors
    /// What the entry says is no promise.
    fn limit(&self) -> Result<Limit, String> {
        match (self.at_most, self.at_least, self.at_most_peers) {
            (Some(most), None, false) if most >= 0.0 => Ok(Limit::AtMost(most)),
            (None, Some(least), false) if least >= 0.0 => Ok(Limit::AtLeast(least)),
            (None, None, true) => Ok(Limit::Peers),
            _ => Err("give exactly one of at_most, at_least and at_most_peers: true".to_owned()),
        }
    }

    /// The figure of a miss that is known.
    fn known(&self, limit: Limit) -> Result<Option<f64>, String> {
        match &self.missed {
            Some(missed) if limit == Limit::Peers || limit.is_kept(missed.figure, None, 0.0) => {
                Err(format!(
                    "{} keeps the promise; remove `missed`",
                    missed.figure
                ))
            }
            missed => Ok(missed.as_ref().map(|missed| missed.figure)),
        }
    }
}

#[derive(Debug)]
struct Promise {
    row: String,
    pods: Option<u32>,
    resources: Option<u32>,
    limit: Limit,
    bound: Option<f64>,
    /// The figure of a miss that is known.
    known: Option<f64>,
}

impl TryFrom<Entry> for Promise {
    type Error = String;

    fn try_from(entry: Entry) -> Result<Self, String> {
        let of_row = |error| format!("row {:?}: {error}", entry.row);
        let limit = entry.limit().map_err(of_row)?;
        let known = entry.known(limit).map_err(of_row)?;
        Ok(Self {
            row: entry.row,
            pods: entry.pods,
            resources: entry.resources,
            limit,
            bound: entry.bound,
            known,
        })
    }
}

/// What was created: nothing for binaries and webhooks.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Load {
    pub(crate) resources: u32,
    pub(crate) pods: u32,
}

/// All promises, and which of them were missed so far.
#[derive(Debug)]
pub(crate) struct Promises {
    /// As a part of the limit.
    tolerance: f64,
    promises: Vec<Promise>,
    missed: Vec<String>,
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
    /// The file cannot be read, or says something that cannot be.
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text).map_err(|reason| Error::Promises {
            path: path.to_owned(),
            reason,
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let document: Document = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
        let tolerance = document.tolerance;
        if !(0.0..=100.0).contains(&tolerance) {
            return Err(format!(
                "tolerance is {tolerance}; give percent from 0 to 100"
            ));
        }
        let promises = document.promises.into_iter().map(Promise::try_from);
        Ok(Self {
            tolerance: tolerance / 100.0,
            promises: promises.collect::<Result<_, _>>()?,
            missed: Vec::new(),
        })
    }

    /// The number that is promised of `row`, at most or at least, whatever the peers measure.
    pub(crate) fn limit(&self, row: &str, load: Load) -> Option<f64> {
        match self.promise(row, load)?.limit {
            Limit::AtMost(limit) | Limit::AtLeast(limit) => Some(limit),
            Limit::Peers => None,
        }
    }

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
        let Some(&Promise {
            limit,
            bound,
            known,
            ..
        }) = self.promise(row, load)
        else {
            return Verdict::default();
        };
        if limit == Limit::Peers && peers.is_none() {
            return Verdict::default();
        }
        let is_near = |limit: Limit| limit.is_kept(measured, peers, self.tolerance);
        if !is_near(limit) && !known.is_some_and(|figure| is_near(limit.at(figure))) {
            let of = match load.resources {
                0 => String::new(),
                many => format!(" ({many} resources with {} pods each)", load.pods),
            };
            let known = known.map_or_else(String::new, |figure| format!(", known {figure}"));
            self.missed
                .push(format!("{row}{of}: {measured:.3}, promised {limit}{known}"));
        }
        Verdict {
            promised: limit.to_string(),
            bound,
            mark: match limit.is_kept(measured, peers, 0.0) {
                true => "",
                false => " (missed)",
            },
        }
    }

    /// Success if no promise was missed by more than the tolerance, and no known miss became worse by
    /// more than that.
    ///
    /// # Errors
    /// [`Error::Missed`] names the rows.
    pub(crate) fn verdict(self) -> Result<(), Error> {
        if self.missed.is_empty() {
            return Ok(());
        }
        Err(Error::Missed {
            tolerance: self.tolerance * 100.0,
            rows: self.missed.join("\n  "),
        })
    }
}

#[cfg(test)]
mod tests;
