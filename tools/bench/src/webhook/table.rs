//! Webhook figures as a table in Markdown, promises beside them. Measures nothing.

use std::time::Duration;

use super::{BARE, BATCH, Figures, PROMISED_CONNECTIONS, SERVERS, Scenario};
use crate::figures::Webhook;
use crate::promises::{Load, Promises, row};

/// Above the rows.
pub(super) const HEAD: &str = "
Each cell: manager / controller-runtime, if measured / bare server. CPU is the server's, per call; \
a ratio is the median over the rounds. Instructions are in user mode, in thousands. Memory is the peak over that at rest.

| load | connections | CPU µs | to controller-runtime | to bare server | instructions | p50 µs | p90 µs | p99 µs | calls/s | objects per CPU-s | MiB per CPU-s | peak MiB | promised |
|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|
";

/// CPU of one call.
pub(crate) const CPU: &str = "CPU of a call, µs";

/// The time within which all but the slowest hundredth of the calls were answered.
pub(crate) const P99: &str = "P99, µs";

/// Instructions of one call in user mode.
const INSTRUCTIONS: &str = "user instructions of a call, thousands";

/// A row of the file of figures, and how much of it a server had.
type Recorded = (&'static str, fn(&Figures) -> f64);

/// What is recorded of every call.
const RECORDED: [Recorded; 5] = [
    (CPU, Figures::microseconds),
    (INSTRUCTIONS, Figures::instructions),
    ("P50, µs", |figures| figures.latency(0.5)),
    (P99, |figures| figures.latency(0.99)),
    ("memory over idle, MiB", Figures::peak_mebibytes),
];

/// The names of what is recorded.
pub(crate) fn rows() -> impl Iterator<Item = &'static str> {
    RECORDED.into_iter().map(|(what, _)| what)
}

/// One load, for the file of figures: nothing of calls amid handshakes, whose CPU cannot be told apart.
pub(super) fn records(scenario: &Scenario, figures: &[Figures]) -> Vec<(Webhook, f64)> {
    if scenario.handshakes > 0 {
        return Vec::new();
    }
    let mut records = Vec::new();
    for figures in figures {
        for (row, value) in RECORDED {
            if row == INSTRUCTIONS && !figures.has_instructions() {
                continue;
            }
            let key = Webhook {
                server: figures.server,
                call: scenario.call,
                objects: scenario.objects.unwrap_or(1),
                connections: scenario.connections,
                row,
            };
            records.push((key, value(figures)));
        }
    }
    records
}

/// One line of the table. The figures are in the order of the servers.
pub(super) fn line(scenario: &Scenario, figures: &[Figures], promises: &mut Promises) -> String {
    let each = |show: &dyn Fn(&Figures) -> String| {
        let shown: Vec<_> = figures.iter().map(show).collect();
        shown.join(" / ")
    };
    let latency = |part: f64| each(&move |figures| format!("{:.0}", figures.latency(part)));
    let per_cpu_second = |amount: f64| {
        each(&move |figures| match figures.microseconds() {
            0.0 => "–".to_owned(),
            call => format!("{:.0}", amount * 1e6 / call),
        })
    };
    let name = match scenario.handshakes {
        0 => scenario.name(),
        clients => format!(
            "{} amid {clients} clients' handshakes ({} a second)",
            scenario.name(),
            each(&|figures| format!("{:.0}", figures.handshakes_a_second()))
        ),
    };
    // The handshakes' CPU cannot be told from that of the calls.
    let is_pure = scenario.handshakes == 0;
    let cells = [
        name,
        scenario.connections.to_string(),
        when(is_pure, || {
            each(&|figures| format!("{:.1}", figures.microseconds()))
        }),
        when(is_pure, || ratio_to(SERVERS[1], figures)),
        when(is_pure, || ratio_to(BARE, figures)),
        when(
            is_pure && figures.iter().all(Figures::has_instructions),
            || each(&|figures| format!("{:.1}", figures.instructions())),
        ),
        latency(0.5),
        latency(0.9),
        latency(0.99),
        each(&|figures| format!("{:.0}", figures.calls_a_second())),
        match scenario.objects {
            Some(objects) => per_cpu_second(f64::from(objects)),
            None => "–".to_owned(),
        },
        when(is_pure, || {
            per_cpu_second(scenario.body.len() as f64 / f64::from(1 << 20))
        }),
        each(&|figures| format!("{:.1}", figures.peak_mebibytes())),
        match figures.first() {
            Some(ours) => verdict(scenario, ours, promises),
            None => String::new(),
        },
    ];
    format!("| {} |\n", cells.join(" | "))
}

fn when(is_so: bool, text: impl FnOnce() -> String) -> String {
    match is_so {
        true => text(),
        false => "–".to_owned(),
    }
}

/// What is promised of this load, and what of it was missed.
fn verdict(scenario: &Scenario, ours: &Figures, promises: &mut Promises) -> String {
    let cpu = ours.microseconds();
    let (p99, peak) = (ours.latency(0.99), ours.peak_mebibytes());
    let rows = match (scenario.objects, scenario.connections) {
        _ if scenario.handshakes > 0 => Vec::new(),
        (None, PROMISED_CONNECTIONS) => vec![(row::ADMISSION_CPU, "CPU", cpu)],
        (Some(1), PROMISED_CONNECTIONS) => vec![
            (row::CONVERSION_CPU, "CPU", cpu),
            (row::CONVERSION_P99, "p99", p99),
        ],
        (Some(objects @ BATCH..), 1) => {
            let each_second = f64::from(objects) * 1e6 / cpu;
            let mut rows = vec![(row::BATCH_OBJECTS, "objects per CPU-s", each_second)];
            if objects == 500 {
                rows.push((row::BATCH_MEMORY, "MiB", peak));
            }
            rows
        }
        _ => Vec::new(),
    };
    let told = rows.into_iter().map(|(row, what, measured)| {
        let verdict = promises.judge(row, Load::default(), measured, None);
        match verdict.promised.as_str() {
            "" => String::new(),
            promised => {
                let bound = verdict
                    .bound
                    .map_or_else(String::new, |bound| format!(", bound {bound}"));
                format!("{what} {promised}{bound}{}", verdict.mark)
            }
        }
    });
    told.filter(|it| !it.is_empty())
        .collect::<Vec<_>>()
        .join(", ")
}

/// The median over the rounds of what a call costs ours, in units of what it costs `server`; a dash if
/// that was not measured.
fn ratio_to(server: &str, figures: &[Figures]) -> String {
    let theirs = figures.iter().find(|figures| figures.server == server);
    let (Some(ours), Some(theirs)) = (figures.first(), theirs) else {
        return "–".to_owned();
    };
    let pairs = ours.turns.iter().zip(&theirs.turns);
    let mut ratios: Vec<f64> = pairs
        .map(|(ours, theirs)| ours.microseconds() / theirs.microseconds())
        .filter(|ratio| ratio.is_finite())
        .collect();
    ratios.sort_by(f64::total_cmp);
    let median = ratios.get(ratios.len() / 2);
    median.map_or_else(|| "–".to_owned(), |median| format!("{median:.2}"))
}

/// The value below which `part` of `sorted` lies, by the nearest rank.
fn quantile(sorted: &[Duration], part: f64) -> Duration {
    let rank = (sorted.len() as f64 * part).ceil() as usize;
    let index = rank.saturating_sub(1);
    sorted.get(index).copied().unwrap_or_default()
}

impl super::Turn {
    /// CPU of one call.
    fn microseconds(&self) -> f64 {
        self.cpu.all.as_secs_f64() * 1e6 / self.load.latencies.len() as f64
    }
}

impl Figures {
    fn sum(&self, of: impl Fn(&super::Turn) -> f64) -> f64 {
        self.turns.iter().map(of).sum()
    }

    fn calls(&self) -> f64 {
        self.sum(|turn| turn.load.latencies.len() as f64)
    }

    fn elapsed(&self) -> f64 {
        self.sum(|turn| turn.load.elapsed.as_secs_f64())
    }

    /// CPU of one call.
    fn microseconds(&self) -> f64 {
        self.sum(|turn| turn.cpu.all.as_secs_f64()) * 1e6 / self.calls()
    }

    /// Instructions of one call in user mode, in thousands.
    fn instructions(&self) -> f64 {
        self.sum(|turn| turn.instructions as f64) / 1e3 / self.calls()
    }

    /// Whether the machine counts instructions.
    fn has_instructions(&self) -> bool {
        self.instructions() > 0.0
    }

    fn calls_a_second(&self) -> f64 {
        self.calls() / self.elapsed()
    }

    fn handshakes_a_second(&self) -> f64 {
        self.sum(|turn| turn.handshakes as f64) / self.elapsed()
    }

    /// The time within which that part of the calls was answered, in µs.
    fn latency(&self, part: f64) -> f64 {
        quantile(&self.sorted_latencies(), part).as_secs_f64() * 1e6
    }

    fn peak_mebibytes(&self) -> f64 {
        self.peak as f64 / 1024.0
    }

    fn sorted_latencies(&self) -> Vec<Duration> {
        let turns = self.turns.iter();
        let mut all: Vec<_> = turns
            .flat_map(|turn| turn.load.latencies.iter().copied())
            .collect();
        all.sort_unstable();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::super::Turn;
    use super::super::client::Load;
    use super::*;
    use crate::usage::Cpu;

    fn figures(server: &'static str, cpu_ms: u64, calls: u64) -> Figures {
        let load = Load {
            elapsed: Duration::from_secs(1),
            latencies: (1..=calls).map(Duration::from_micros).collect(),
        };
        let cpu = Cpu {
            all: Duration::from_millis(cpu_ms),
            kernel: Duration::ZERO,
        };
        Figures {
            server,
            turns: vec![Turn {
                load,
                cpu,
                instructions: 500_000 * cpu_ms,
                handshakes: 0,
            }],
            peak: 2048,
        }
    }

    fn scenario() -> Scenario {
        Scenario {
            call: super::super::CREATE,
            path: "/a",
            bare_path: "/b",
            body: vec![0; 1 << 20],
            objects: None,
            connections: 4,
            handshakes: 0,
        }
    }

    fn promises() -> Promises {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("promises.yaml");
        Promises::read(&path).unwrap()
    }

    #[test]
    fn a_quantile_is_the_nearest_rank() {
        let all = figures(BARE, 0, 200).sorted_latencies();
        assert_eq!(quantile(&all, 0.5), Duration::from_micros(100));
        assert_eq!(quantile(&all, 0.99), Duration::from_micros(198));
        assert_eq!(quantile(&all[..1], 0.99), Duration::from_micros(1));
        assert_eq!(quantile(&[], 0.5), Duration::ZERO);
    }

    #[test]
    fn instructions_that_no_machine_counted_are_left_out() {
        let mut scenario = scenario();
        let mut both = [figures(SERVERS[0], 3, 100), figures(BARE, 1, 100)];
        let rows = |scenario: &Scenario, both: &[Figures]| {
            let records = records(scenario, both).into_iter();
            records.map(|(key, _)| key.row).collect::<Vec<_>>()
        };
        assert!(rows(&scenario, &both).contains(&INSTRUCTIONS));
        for figures in &mut both {
            figures.turns[0].instructions = 0;
        }
        assert!(!rows(&scenario, &both).contains(&INSTRUCTIONS));
        scenario.objects = Some(1);
        let row = line(&scenario, &both, &mut promises());
        assert!(
            row.contains("| 30.0 / 10.0 | – | 3.00 | – | 50 / 50 |"),
            "{row}"
        );
    }

    #[test]
    fn a_row_has_the_cost_of_each_and_marks_what_was_missed() {
        let all = [(SERVERS[0], 3), (SERVERS[1], 6), (BARE, 1)];
        let all = all.map(|(server, cpu_ms)| figures(server, cpu_ms, 100));
        let row = line(&scenario(), &all, &mut promises());
        for cells in [
            "| 30.0 / 60.0 / 10.0 | 0.50 | 3.00 | 15.0 / 30.0 / 5.0 | 50 / 50 / 50 |",
            "| 100 / 100 / 100 | – | 33333 / 16667 / 100000 |",
        ] {
            assert!(row.contains(cells), "{cells}: {row}");
        }
        assert!(row.contains("CPU ≤ 18, bound 13 (missed)"), "{row}");
        let cells = row.matches('|').count();
        assert_eq!(cells, HEAD.lines().last().unwrap().matches('|').count());
    }
}
