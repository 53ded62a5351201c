//! The figures as tables in Markdown: side by side, and beside what is promised.

use std::fmt::Write as _;
use std::time::Duration;

use super::{Figures, Plan};
use crate::audit::{Request, Requests};
use crate::figures::Fleet;
use crate::promises::{Load, Promises, row};
use crate::report::{self, Table, number};
use crate::usage::Memory;

type Row = (&'static str, fn(&Figures) -> f64);

const CPU: Row = (row::CPU, |it| {
    1000.0 * it.per_resource(it.burst_cpu.all.as_secs_f64())
});
/// The row of what a resource takes.
pub(crate) const MEMORY_PER_RESOURCE: &str = "memory over idle with all, KiB per resource";

const MEMORY: Row = (MEMORY_PER_RESOURCE, |it| {
    it.per_resource(over(&it.idle, it.full.resident))
});
const RESTARTED: Row = (
    "memory over idle restarted with all, KiB per resource",
    |it| it.per_resource(over(&it.idle, it.restarted.resident)),
);

/// What is shown of each number of resources.
const ROWS: [Row; 17] = [
    CPU,
    ("of it in the kernel, s", |it| {
        1000.0 * it.per_resource(it.burst_cpu.kernel.as_secs_f64())
    }),
    ("requests per resource", |it| {
        it.per_resource(count(&it.burst, |it| !it.is_watch()))
    }),
    ("status writes per resource", |it| {
        it.per_resource(count(&it.burst, |it| it.resource.ends_with("/status")))
    }),
    ("all Ready after, s", |it| it.ready_after.as_secs_f64()),
    (row::MEMORY_IDLE, |it| mebibytes(it.idle.resident)),
    (row::MEMORY_FULL, |it| mebibytes(it.full.resident)),
    MEMORY,
    (row::START_CPU, |it| it.start_cpu.all.as_secs_f64()),
    ("at rest after, s", |it| it.start_after.as_secs_f64()),
    ("requests of a start, without watches", |it| {
        count(&it.start, |it| !it.is_watch())
    }),
    (row::MEMORY_RESTARTED, |it| mebibytes(it.restarted.resident)),
    ("peak of it, MiB", |it| mebibytes(it.restarted.peak)),
    RESTARTED,
    ("from one change to its apply, P50, ms", |it| it.change(50)),
    (row::CHANGE_P99, |it| it.change(99)),
    ("CPU per change, until Ready, ms", |it| {
        milliseconds(it.changes_cpu.all) / it.changes.len() as f64
    }),
];

/// The names of what is shown.
pub(crate) fn rows() -> impl Iterator<Item = &'static str> {
    ROWS.into_iter().map(|(what, _)| what)
}

/// One number of resources, for the file of figures.
pub(super) fn records(figures: &Figures) -> Vec<(Fleet, f64)> {
    let resources = figures.resources;
    let records = ROWS.map(|(row, value)| (Fleet { resources, row }, value(figures)));
    records.into()
}

/// All tables.
pub(super) fn tables(plan: &Plan, all: &[Figures], promises: &mut Promises) -> String {
    let mut text = format!(
        "{}, shared by manager and scripted API server; {} pods each, {} changes; load average {}\n\n| what |",
        report::machine(),
        plan.pods,
        plan.changes,
        report::load_average()
    );
    for figures in all {
        let _ = write!(text, " {} resources |", figures.resources);
    }
    let _ = writeln!(text, "\n|---|{}", "---:|".repeat(all.len()));
    for (what, value) in ROWS {
        let _ = write!(text, "| {what} |");
        for figures in all {
            let _ = write!(text, " {} |", number(value(figures)));
        }
        text.push('\n');
    }
    let _ = write!(text, "\n{}", promised(plan, all, promises));
    for figures in all {
        let _ = write!(
            text,
            "\nrequests with {}: {}; of a start: {}\n",
            figures.resources,
            report::listed(&figures.burst),
            report::listed(&figures.start)
        );
    }
    text
}

/// One number of resources on a line: the next takes minutes.
pub(super) fn shortly(figures: &Figures) -> String {
    let cells = ROWS.map(|(what, value)| format!("{what} {}", number(value(figures))));
    format!("bench: {}", cells.join("; "))
}

/// The table of what is promised.
fn promised(plan: &Plan, all: &[Figures], promises: &mut Promises) -> String {
    let mut text = String::new();
    let smallest = all.iter().min_by_key(|it| it.resources);
    let largest = all.iter().max_by_key(|it| it.resources);
    let (Some(smallest), Some(largest)) = (smallest, largest) else {
        return text;
    };
    let load = Load {
        resources: largest.resources,
        pods: plan.pods,
    };
    let mut table = Table::new(promises, load);
    if largest.resources > smallest.resources {
        for (row, (_, value)) in [
            (row::SCALE_CPU, CPU),
            (row::SCALE_MEMORY, MEMORY),
            (row::SCALE_RESTARTED, RESTARTED),
        ] {
            let (small, large) = (value(smallest), value(largest));
            let note = format!("{} / {}", number(large), number(small));
            table.row(row, large / small, note);
        }
    }
    table.row(row::START_CPU, largest.start_cpu.all.as_secs_f64(), "");
    let slowest = largest.changes.last().copied().unwrap_or_default();
    let note = format!("slowest {} ms", number(milliseconds(slowest)));
    table.row(row::CHANGE_P99, largest.change(99), note);
    let _ = writeln!(text, "Of {} resources:\n", largest.resources);
    text + &table.text
}

impl Figures {
    fn per_resource(&self, all: f64) -> f64 {
        all / f64::from(self.resources)
    }

    /// The time within which that many percent of the changes were applied, in ms, by the nearest rank.
    fn change(&self, percent: usize) -> f64 {
        let rank = (self.changes.len() * percent).div_ceil(100);
        let time = self.changes.get(rank.saturating_sub(1));
        time.copied().map_or(f64::NAN, milliseconds)
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn mebibytes(kibibytes: u64) -> f64 {
    kibibytes as f64 / 1024.0
}

fn over(idle: &Memory, resident: u64) -> f64 {
    resident.saturating_sub(idle.resident) as f64
}

fn count(requests: &Requests, counts: impl Fn(&Request) -> bool) -> f64 {
    let counted = requests.iter().filter(|(request, _)| counts(request));
    counted.map(|(_, count)| *count).sum::<u64>() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::Cpu;

    fn figures(resources: u32, memory: u64, changes: std::ops::RangeInclusive<u64>) -> Figures {
        let resident = |resident| Memory {
            resident,
            ..Memory::default()
        };
        let cpu = Cpu {
            all: Duration::from_secs(20),
            kernel: Duration::ZERO,
        };
        Figures {
            resources,
            idle: resident(10_240),
            burst: Requests::new(),
            burst_cpu: cpu,
            ready_after: Duration::ZERO,
            full: resident(10_240 + memory),
            start: Requests::new(),
            start_cpu: cpu,
            start_after: Duration::ZERO,
            restarted: resident(10_240 + memory),
            changes: changes.map(Duration::from_millis).collect(),
            changes_cpu: cpu,
        }
    }

    fn judged(all: &[Figures]) -> (String, bool) {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("promises.yaml");
        let mut promises = Promises::read(&path).unwrap();
        let plan = Plan {
            manager: std::path::PathBuf::new(),
            resources: Vec::new(),
            pods: 1,
            at_a_time: 1,
            changes: 100,
            record: None,
        };
        let text = promised(&plan, all, &mut promises);
        (text, promises.verdict().is_err())
    }

    #[test]
    fn the_most_resources_are_held_against_the_fewest() {
        // Half the CPU and three times the memory of each.
        let all = [
            figures(2000, 60_000, 1..=100),
            figures(1000, 10_000, 1..=200),
        ];
        let (text, is_missed) = judged(&all);
        assert!(text.contains("Of 2000 resources"), "{text}");
        assert!(
            text.contains("fewest |  | ≤ 1.1 | 0.500 (10.0 / 20.0) |"),
            "{text}"
        );
        assert!(
            text.contains("| ≤ 1.1 | 3.00 (30.0 / 10.0) (missed) |"),
            "{text}"
        );
        assert!(
            text.contains("P99, ms |  | ≤ 50 | 99.0 (slowest 100 ms) (missed) |"),
            "{text}"
        );
        assert!(is_missed);
    }

    #[test]
    fn one_number_of_resources_has_no_ratio() {
        let (text, is_missed) = judged(&[figures(2000, 60_000, 1..=40)]);
        assert!(!text.contains("fewest"), "{text}");
        assert!(is_missed, "20 s of CPU for a start: {text}");
    }
}
