//! Figures as tables in Markdown, promises beside them. Decides what counts as what; measures
//! nothing but the binary.

use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::audit::{Request, Requests};
use crate::error::Error;
use crate::manager::Subject;
use crate::promises::{Load, Promises, row};
use crate::run::{Burst, Figures, Plan};
use crate::usage::Memory;

/// What the figures were measured on.
pub(crate) fn machine() -> String {
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{cpus} CPUs, Linux {}", kernel.trim())
}

/// The machine's load average.
pub(crate) fn load_average() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let averages: Vec<_> = load.split(' ').take(3).collect();
    averages.join(" ")
}

/// Sizes of a binary in 10^6 bytes: as it is, and with `gzip -9`.
pub(crate) fn sizes(subject: &Subject) -> Result<[f64; 2], Error> {
    let size = subject.size()?;
    let mut gzip = Command::new("gzip")
        .arg("-9c")
        .arg(&subject.binary)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(Error::Gzip)?;
    let mut zipped = 0;
    if let Some(mut output) = gzip.stdout.take() {
        zipped = std::io::copy(&mut output, &mut std::io::sink())?;
    }
    let status = gzip.wait()?;
    if !status.success() {
        return Err(Error::Gzip(std::io::Error::other(status.to_string())));
    }
    Ok([size as f64 / 1e6, zipped as f64 / 1e6])
}

/// The table of the binary.
pub(crate) fn binary(subject: &Subject, promises: &mut Promises) -> Result<String, Error> {
    let [size, zipped] = sizes(subject)?;
    let mut table = Table::new(promises, Load::default());
    table.row(row::BINARY, size, "");
    table.row(row::BINARY_ZIPPED, zipped, "");
    Ok(table.text)
}

/// A row of all managers, by its name, and how much of it a burst had.
pub(crate) type Figure = (&'static str, fn(&Plan, &Burst) -> f64);

/// Of half of the resources, which nothing is promised of.
const FIRST_STATUS_P50: &str = "from the children to the first status, P50, s";

/// What is measured of every manager.
pub(crate) const FIGURES: [Figure; 14] = [
    (row::REQUESTS, requests),
    (row::READS, |plan, burst| {
        per_resource(plan, count(&burst.creation, Request::is_read))
    }),
    (row::STATUS_WRITES, |_, burst| {
        f64::from(burst.statuses.most_writes)
    }),
    (FIRST_STATUS_P50, |_, burst| {
        burst.statuses.after_children(50).as_secs_f64()
    }),
    (row::STATUS_AFTER_CHILDREN, |_, burst| {
        burst.statuses.after_children(99).as_secs_f64()
    }),
    (row::STATUS_AFTER_CREATION, |_, burst| {
        burst.statuses.after_creation(99).as_secs_f64()
    }),
    (row::ALL_READY, |_, burst| burst.ready_after.as_secs_f64()),
    (row::RECONCILES, |plan, burst| {
        per_resource(plan, burst.reconciles)
    }),
    (row::CPU, |plan, burst| {
        1000.0 * per_resource(plan, burst.creation_cpu.all.as_secs_f64())
    }),
    (row::INSTRUCTIONS, |plan, burst| {
        per_resource(plan, burst.creation_instructions as f64 / 1e6)
    }),
    (row::MEMORY_IDLE, |_, burst| mebibytes(burst.idle.resident)),
    (row::MEMORY_FULL, |_, burst| mebibytes(burst.full.resident)),
    (row::REQUESTS_AT_REST, |_, burst| {
        count(&burst.rest, |it| !it.is_watch() && !it.is_election())
    }),
    (row::CPU_AT_REST, |plan, burst| {
        100.0 * burst.rest_cpu.all.as_secs_f64() / plan.rest.as_secs_f64()
    }),
];

fn requests(plan: &Plan, burst: &Burst) -> f64 {
    per_resource(plan, count(&burst.creation, |it| !it.is_watch()))
}

/// Whether the machine does not count what the row says.
pub(crate) fn is_uncounted(row: &str, measured: &[f64]) -> bool {
    row == row::INSTRUCTIONS && measured.iter().all(|figure| *figure == 0.0)
}

/// The table of one run of our own manager.
pub(crate) fn table(plan: &Plan, figures: &Figures, promises: &mut Promises) -> String {
    let burst = &figures.burst;
    let mut table = Table::new(promises, plan.load);
    for (what, figure) in FIGURES {
        let measured = figure(plan, burst);
        if !is_uncounted(what, &[measured]) {
            table.row(what, measured, note(what, plan, burst));
        }
    }
    table.row(
        row::MEMORY_RESTARTED,
        mebibytes(figures.restarted.resident),
        parts(&figures.restarted),
    );
    let milliseconds =
        |time: Option<&Duration>| time.map_or(f64::NAN, |time| 1000.0 * time.as_secs_f64());
    let times = &figures.handovers;
    let [first, median, last] =
        [times.first(), times.get(times.len() / 2), times.last()].map(milliseconds);
    let note = format!("{first:.0} to {last:.0}, {} trials", times.len());
    table.row(row::HANDOVER, median, note);
    unpromised(&mut table, plan, figures);
    let Load { resources, pods } = plan.load;
    format!(
        "\n{resources} resources with {pods} pods each, {} s of rest\n\n{}\nrequests while \
         creating: {}\nrequests at rest: {}\nrequests of a restart: {}\nrequests of two replicas \
         at rest: {}",
        plan.rest.as_secs(),
        table.text,
        listed(&burst.creation),
        listed(&burst.rest),
        listed(&figures.restart),
        listed(&figures.pair.requests),
    )
}

/// The requests of a small burst, beside what is promised of its size.
pub(crate) fn small(plan: &Plan, burst: &Burst, promises: &mut Promises) -> String {
    let Load { resources, pods } = plan.load;
    let mut table = Table::new(promises, plan.load);
    table.row(row::REQUESTS, requests(plan, burst), "");
    format!(
        "\n{resources} resources with {pods} pods each\n\n{}",
        table.text
    )
}

/// What else is worth knowing of a figure.
fn note(what: &str, plan: &Plan, burst: &Burst) -> String {
    match what {
        row::CPU => {
            let kernel = per_resource(plan, 1000.0 * burst.creation_cpu.kernel.as_secs_f64());
            format!("{kernel:.2} of it in the kernel")
        }
        row::MEMORY_IDLE => parts(&burst.idle),
        row::MEMORY_FULL => parts(&burst.full),
        _ => String::new(),
    }
}

/// Rows for comparison only.
fn unpromised(table: &mut Table<'_>, plan: &Plan, figures: &Figures) {
    let burst = &figures.burst;
    let per_1000 = |seconds: f64| per_resource(plan, 1000.0 * seconds);
    let share = |cpu: &crate::usage::Cpu| 100.0 * cpu.all.as_secs_f64() / plan.rest.as_secs_f64();
    for (what, measured) in [
        (
            "from creation to the first status, P50, s",
            burst.statuses.after_creation(50).as_secs_f64(),
        ),
        ("created after, s", burst.created_after.as_secs_f64()),
        (
            "CPU per 1000 resources of the benchmark's client, s",
            per_1000(burst.yardstick.all.as_secs_f64()),
        ),
        (
            "log per resource, bytes",
            per_resource(plan, burst.logged as f64),
        ),
        ("CPU of a restart, s", figures.restart_cpu.all.as_secs_f64()),
        (
            "CPU at rest, leader of two, % of a core",
            share(&figures.pair.leader_cpu),
        ),
        (
            "CPU at rest, standby, % of a core",
            share(&figures.pair.standby_cpu),
        ),
    ] {
        table.row(what, measured, "");
    }
    for (what, memory) in [
        ("memory of the leader of two, MiB", &figures.pair.leader),
        ("memory of the standby, MiB", &figures.pair.standby),
    ] {
        table.row(what, mebibytes(memory.resident), parts(memory));
    }
}

fn parts(memory: &Memory) -> String {
    format!(
        "{:.1} own, {:.1} file; peak {:.1}",
        mebibytes(memory.anonymous),
        mebibytes(memory.file),
        mebibytes(memory.peak)
    )
}

fn per_resource(plan: &Plan, all: f64) -> f64 {
    all / f64::from(plan.load.resources)
}

fn mebibytes(kibibytes: u64) -> f64 {
    kibibytes as f64 / 1024.0
}

fn count(requests: &Requests, counts: impl Fn(&Request) -> bool) -> f64 {
    let counted = requests.iter().filter(|(request, _)| counts(request));
    // The sum of no f64 is -0.
    counted.map(|(_, count)| *count).sum::<u64>() as f64
}

pub(crate) fn listed(requests: &Requests) -> String {
    let mut list = String::new();
    for (request, count) in requests {
        let Request {
            verb,
            resource,
            code,
        } = request;
        // Writing to a String cannot fail.
        let _ = write!(list, "{count} {verb} {resource} {code}, ");
    }
    match list.strip_suffix(", ") {
        Some(list) => list.to_owned(),
        None => "none".to_owned(),
    }
}

/// Rows of `what | bound | promised | measured`.
pub(crate) struct Table<'a> {
    pub(crate) text: String,
    load: Load,
    promises: &'a mut Promises,
}

impl<'a> Table<'a> {
    pub(crate) fn new(promises: &'a mut Promises, load: Load) -> Self {
        Self {
            text: "| what | bound | promised | measured |\n|---|---:|---:|---:|\n".to_owned(),
            load,
            promises,
        }
    }

    pub(crate) fn row(&mut self, what: &str, measured: f64, note: impl AsRef<str>) {
        let verdict = self.promises.judge(what, self.load, measured, None);
        let note = match note.as_ref() {
            "" => String::new(),
            note => format!(" ({note})"),
        };
        let (promised, mark) = (verdict.promised, verdict.mark);
        let (bound, value) = (
            verdict.bound.map_or_else(String::new, |it| it.to_string()),
            number(measured),
        );
        // Writing to a String cannot fail.
        let _ = writeln!(
            self.text,
            "| {what} | {bound} | {promised} | {value}{note}{mark} |"
        );
    }
}

/// Three significant digits, which is more than most of these are good for.
pub(crate) fn number(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_or_so() {
        let shown: Vec<_> = [0.0, 0.0123, 1.234, 12.34, 1234.5].map(number).into();
        assert_eq!(shown, ["0", "0.012", "1.23", "12.3", "1234"]);
    }

    #[test]
    fn a_row_of_instructions_that_no_machine_counted_is_left_out() {
        assert!(is_uncounted(row::INSTRUCTIONS, &[0.0, 0.0]));
        assert!(!is_uncounted(row::INSTRUCTIONS, &[0.0, 1.5]));
        assert!(!is_uncounted(row::READS, &[0.0, 0.0]));
    }
}
