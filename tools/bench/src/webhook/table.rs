//! The figures of one load as a row of a table in Markdown, promises beside them. Measures nothing.

use std::time::Duration;

use super::{BATCH, CONVERT, CPU, P99, PROMISED_CONNECTIONS, Scenario};
use crate::promises::{Load, Promises, row};
use crate::report;

pub(super) const HEAD: &str = "
Each cell: manager / controller-runtime, if measured. CPU is the server's, per call. Memory is the peak over that at rest.

| load | connections | CPU µs | p50 µs | p99 µs | peak MiB | promised |
|---|---:|---:|---:|---:|---:|---|";

/// What one load did to one server.
#[derive(Default)]
pub(super) struct Measured {
    pub(super) cpu: Duration,
    pub(super) latencies: Vec<Duration>,
    /// The most memory over that at rest, in KiB.
    pub(super) peak: u64,
}

impl Measured {
    fn cpu_of_a_call(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.latencies.len() as f64
    }

    /// The time within which that part of the calls was answered, by the nearest rank, in µs.
    fn latency(&self, part: f64) -> f64 {
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() as f64 * part).ceil() as usize;
        let latency = sorted.get(rank.saturating_sub(1));
        latency.copied().unwrap_or_default().as_secs_f64() * 1e6
    }

    fn mebibytes(&self) -> f64 {
        self.peak as f64 / 1024.0
    }

    /// What is recorded of every call.
    pub(super) fn rows(&self) -> [(&'static str, f64); 4] {
        [
            (CPU, self.cpu_of_a_call()),
            ("P50, µs", self.latency(0.5)),
            (P99, self.latency(0.99)),
            ("memory over idle, MiB", self.mebibytes()),
        ]
    }
}

/// One line of the table.
pub(super) fn line(scenario: &Scenario, measured: &[Measured], promises: &mut Promises) -> String {
    let Scenario {
        name,
        objects,
        connections,
        ..
    } = *scenario;
    let each = |show: fn(&Measured) -> f64| {
        let shown: Vec<_> = measured
            .iter()
            .map(|of_one| report::number(show(of_one)))
            .collect();
        shown.join(" / ")
    };
    let mut cells = Vec::new();
    let mut judge = |row: &str, value: f64| {
        let verdict = promises.judge(row, Load::default(), value, None);
        cells.push(format!("{row} {}{}", verdict.promised, verdict.mark));
    };
    let ours = &measured[0];
    match (name, connections) {
        (CONVERT, 1) if objects >= BATCH => {
            judge(
                row::BATCH_OBJECTS,
                f64::from(objects) * 1e6 / ours.cpu_of_a_call(),
            );
            if objects == 500 {
                judge(row::BATCH_MEMORY, ours.mebibytes());
            }
        }
        (CONVERT, PROMISED_CONNECTIONS) => {
            judge(row::CONVERSION_CPU, ours.cpu_of_a_call());
            judge(row::CONVERSION_P99, ours.latency(0.99));
        }
        (_, PROMISED_CONNECTIONS) => judge(row::ADMISSION_CPU, ours.cpu_of_a_call()),
        _ => {}
    }
    format!(
        "| {name} {objects} | {connections} | {} | {} | {} | {} | {} |",
        each(Measured::cpu_of_a_call),
        each(|of_one| of_one.latency(0.5)),
        each(|of_one| of_one.latency(0.99)),
        each(Measured::mebibytes),
        cells.join(", "),
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::webhook::CREATE;

    fn measured(cpu_ms: u64) -> Measured {
        Measured {
            cpu: Duration::from_millis(cpu_ms),
            latencies: (1..=100).map(Duration::from_micros).collect(),
            peak: 2048,
        }
    }

    #[test]
    fn a_row_has_the_cost_of_each_and_marks_what_was_missed() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("promises.yaml");
        let mut promises = Promises::read(&path).unwrap();
        let scenario = Scenario::new(CREATE, 1, PROMISED_CONNECTIONS);
        let row = line(&scenario, &[measured(3), measured(6)], &mut promises);
        assert!(
            row.contains("| 30.0 / 60.0 | 50.0 / 50.0 | 99.0 / 99.0 | 2.00 / 2.00 |"),
            "{row}"
        );
        assert!(
            row.contains("admission, CPU of a call, µs ≤ 18 (missed)"),
            "{row}"
        );
    }
}
