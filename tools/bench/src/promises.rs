//! What is promised, as data, and whether what was measured keeps it. Measures nothing.

use std::path::Path;

use serde::Deserialize;

use crate::error::Error;

/// The rows that something can be promised of.
pub(crate) mod row {
    pub(crate) const BINARY: &str = "binary, MB";
    pub(crate) const BINARY_ZIPPED: &str = "binary with gzip -9, MB";
    pub(crate) const REQUESTS: &str = "requests per resource";
    pub(crate) const READS: &str = "reads per resource";
    pub(crate) const REQUESTS_AT_REST: &str = "requests at rest";
    pub(crate) const STATUS_WRITES: &str = "status writes of one resource, at most";
    pub(crate) const STATUS_AFTER_CHILDREN: &str = "from the children to the first status, P99, s";
    pub(crate) const STATUS_AFTER_CREATION: &str = "from creation to the first status, P99, s";
    pub(crate) const ALL_READY: &str = "all Ready after, s";
    pub(crate) const RECONCILES: &str = "reconciles per resource";
    pub(crate) const CPU: &str = "CPU per 1000 resources, s";
    pub(crate) const INSTRUCTIONS: &str = "user instructions per resource, millions";
    pub(crate) const CPU_AT_REST: &str = "CPU at rest, % of a core";
    pub(crate) const MEMORY_IDLE: &str = "memory idle, MiB";
    pub(crate) const MEMORY_FULL: &str = "memory with all, MiB";
    pub(crate) const MEMORY_RESTARTED: &str = "memory restarted with all, MiB";
    pub(crate) const ADMISSION_CPU: &str = "admission, CPU of a call, µs";
    pub(crate) const CONVERSION_CPU: &str = "conversion of one object, CPU of a call, µs";
    pub(crate) const CONVERSION_P99: &str = "conversion of one object, P99, µs";
    pub(crate) const BATCH_OBJECTS: &str = "conversion of a batch, objects per CPU-second";
    pub(crate) const BATCH_MEMORY: &str = "conversion of 500 objects, memory over idle, MiB";

    pub(crate) const SCALE_CPU: &str = "CPU per resource, most resources to fewest";
    pub(crate) const SCALE_MEMORY: &str = "memory per resource, most resources to fewest";
    pub(crate) const SCALE_RESTARTED: &str =
        "memory per resource restarted, most resources to fewest";
    pub(crate) const START_CPU: &str = "CPU of a start with all, s";
    pub(crate) const CHANGE_P99: &str = "from one change to its apply, P99, ms";

    pub(super) const ALL: [&str; 26] = [
        BINARY,
        BINARY_ZIPPED,
        REQUESTS,
        READS,
        REQUESTS_AT_REST,
        STATUS_WRITES,
        STATUS_AFTER_CHILDREN,
        STATUS_AFTER_CREATION,
        ALL_READY,
        RECONCILES,
        CPU,
        INSTRUCTIONS,
        CPU_AT_REST,
        MEMORY_IDLE,
        MEMORY_FULL,
        MEMORY_RESTARTED,
        ADMISSION_CPU,
        CONVERSION_CPU,
        CONVERSION_P99,
        BATCH_OBJECTS,
        BATCH_MEMORY,
        SCALE_CPU,
        SCALE_MEMORY,
        SCALE_RESTARTED,
        START_CPU,
        CHANGE_P99,
    ];
}

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
    measured: String,
    pods: Option<u32>,
    resources: Option<u32>,
    at_most: Option<f64>,
    at_least: Option<f64>,
    #[serde(default)]
    at_most_peers: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Bound {
    AtMost(f64),
    AtLeast(f64),
    /// The lowest of the peers.
    Peers,
}

#[derive(Debug)]
struct Promise {
    row: String,
    pods: Option<u32>,
    resources: Option<u32>,
    bound: Bound,
}

impl TryFrom<Entry> for Promise {
    type Error = String;

    fn try_from(entry: Entry) -> Result<Self, String> {
        let row = entry.row;
        if !row::ALL.contains(&row.as_str()) {
            let known = row::ALL.join("; ");
            return Err(format!("no table has the row {row:?}; use one of: {known}"));
        }
        if entry.measured.trim().is_empty() {
            return Err(format!("row {row:?}: say in `measured` how it is measured"));
        }
        let bound = match (entry.at_most, entry.at_least, entry.at_most_peers) {
            (Some(most), None, false) => Bound::AtMost(most),
            (None, Some(least), false) => Bound::AtLeast(least),
            (None, None, true) => Bound::Peers,
            _ => {
                return Err(format!(
                    "row {row:?}: give exactly one of at_most, at_least and at_most_peers: true"
                ));
            }
        };
        if let Bound::AtMost(number) | Bound::AtLeast(number) = bound
            && !(number.is_finite() && number >= 0.0)
        {
            return Err(format!(
                "row {row:?}: {number} is no bound; give a number of 0 or more"
            ));
        }
        Ok(Self {
            row,
            pods: entry.pods,
            resources: entry.resources,
            bound,
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
    /// As a part of the bound.
    tolerance: f64,
    promises: Vec<Promise>,
    missed: Vec<String>,
}

/// A promise and how it was kept, as cells of a table.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Verdict {
    /// E.g. `≤ 3.25`; empty if nothing is promised.
    pub(crate) promised: String,
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

    /// The number that is promised of `row`, at most or at least; `peers` as for [`Self::judge`].
    pub(crate) fn bound(&self, row: &str, load: Load, peers: Option<f64>) -> Option<f64> {
        match self.promised(row, load)? {
            Bound::AtMost(bound) | Bound::AtLeast(bound) => Some(bound),
            Bound::Peers => peers,
        }
    }

    fn promised(&self, row: &str, load: Load) -> Option<Bound> {
        let applies = |promise: &&Promise| {
            promise.row == row
                && promise.pods.is_none_or(|pods| pods == load.pods)
                && promise.resources.is_none_or(|most| load.resources <= most)
        };
        Some(self.promises.iter().find(applies)?.bound)
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
        let Some(promised) = self.promised(row, load) else {
            return Verdict::default();
        };
        // What is not a number keeps no promise.
        let most = |bound: f64, tolerance: f64| measured <= bound * (1.0 + tolerance);
        let least = |bound: f64, tolerance: f64| measured >= bound * (1.0 - tolerance);
        let (promised, is_kept, is_near) = match (promised, peers) {
            (Bound::AtMost(bound), _) => (
                at_most(bound),
                most(bound, 0.0),
                most(bound, self.tolerance),
            ),
            (Bound::AtLeast(bound), _) => (
                format!("≥ {bound}"),
                least(bound, 0.0),
                least(bound, self.tolerance),
            ),
            (Bound::Peers, Some(bound)) => (
                "≤ both peers".to_owned(),
                most(bound, 0.0),
                most(bound, self.tolerance),
            ),
            (Bound::Peers, None) => return Verdict::default(),
        };
        if !is_near {
            let of = match load.resources {
                0 => String::new(),
                many => format!(" ({many} resources with {} pods each)", load.pods),
            };
            self.missed
                .push(format!("{row}{of}: {measured:.3}, promised {promised}"));
        }
        Verdict {
            promised,
            mark: if is_kept { "" } else { " (missed)" },
        }
    }

    /// Success if no promise was missed by more than the tolerance.
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

fn at_most(bound: f64) -> String {
    match bound {
        0.0 => "0".to_owned(),
        _ => format!("≤ {bound}"),
    }
}

#[cfg(test)]
mod tests;
