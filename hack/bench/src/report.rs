//! Figures as tables in Markdown, targets beside them. Decides what counts as what; measures
//! nothing.

use std::fmt::Write as _;
use std::fs;

use crate::audit::{Request, Requests, Statuses};
use crate::fleet::Fleet;
use crate::run::{Figures, Plan};
use crate::usage::Memory;

/// What the figures were measured on.
pub(crate) fn machine(manager_bytes: u64) -> String {
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!(
        "manager: {:.2} MB; machine: {cpus} CPUs, Linux {}",
        manager_bytes as f64 / 1e6,
        kernel.trim()
    )
}

/// The table of one run.
pub(crate) fn table(plan: &Plan, figures: &Figures) -> String {
    let Plan {
        resources, pods, ..
    } = plan;
    let mut table = Table::default();
    requests(&mut table, plan, &figures.creation);
    statuses(&mut table, &figures.statuses);
    processor(&mut table, plan, figures);
    memory(&mut table, plan, figures);
    table.row(
        "created after",
        None,
        figures.created_after.as_secs_f64(),
        "s",
    );
    table.row(
        "all Ready after",
        None,
        figures.ready_after.as_secs_f64(),
        "s",
    );
    format!(
        "\n{resources} resources with {pods} pods each\n\n{}\nrequests while creating: {}\n\
         requests at rest: {}\nrequests of a restart: {}\nrequests of two replicas at rest: {}",
        table.0,
        listed(&figures.creation),
        listed(&figures.rest),
        listed(&figures.restart),
        listed(&figures.pair.requests),
    )
}

/// What users are told, and how soon.
fn statuses(table: &mut Table, statuses: &Statuses) {
    let all = &statuses.first_after;
    let percentile = |percent: usize| {
        let last = all.len().saturating_sub(1);
        all.get(last * percent / 100)
            .map_or(0.0, |it| it.as_secs_f64())
    };
    let what = "from its children to the first status, P50";
    table.row(what, None, percentile(50), "s");
    let what = "from its children to the first status, P99";
    table.row(what, Some(5.0), percentile(99), "s");
    let what = "status writes of one resource, at most";
    table.row(what, Some(2.0), f64::from(statuses.most_writes), "");
}

fn requests(table: &mut Table, plan: &Plan, creation: &Requests) {
    let resources = f64::from(plan.resources);
    let services = f64::from(Fleet::services(plan.resources));
    let is_service = |request: &Request| request.resource == "services";
    let is_read = |request: &Request| matches!(request.verb.as_str(), "get" | "list");
    let target = match plan.pods {
        0 => Some(2.5),
        1 => Some(3.2),
        _ => None,
    };
    let others = count(creation, |it| !it.is_watch() && !is_service(it));
    table.row(
        "requests per resource, its Service apart",
        target,
        others / resources,
        "",
    );
    let for_services = count(creation, |it| !it.is_watch() && is_service(it));
    table.row(
        "requests per Service",
        Some(1.0),
        for_services / services,
        "",
    );
    table.row("reads", Some(0.0), count(creation, is_read), "");
}

fn processor(table: &mut Table, plan: &Plan, figures: &Figures) {
    let thousands = f64::from(plan.resources) / 1000.0;
    let target = match plan.pods {
        0 => Some(1.0),
        1 => Some(1.5),
        _ => None,
    };
    let creation = figures.creation_cpu.all.as_secs_f64() / thousands;
    let kernel = figures.creation_cpu.kernel.as_secs_f64() / thousands;
    table.row(
        "CPU per 1000 resources created",
        target,
        creation,
        &format!("s, {kernel:.2} of it in the kernel"),
    );
    let yardstick = figures.yardstick.all.as_secs_f64() / thousands;
    table.row(
        "the same of the benchmark's client, which creates and watches them",
        None,
        yardstick,
        "s",
    );
    let logged = figures.logged as f64 / f64::from(plan.resources);
    table.row("log per resource created", None, logged, "bytes");
    if !plan.rest.is_zero() {
        let seconds = plan.rest.as_secs();
        let asked = count(&figures.rest, |it| !it.is_watch());
        table.row(
            &format!("requests in {seconds} s of rest, watches apart"),
            Some(0.0),
            asked,
            "",
        );
        for (who, target, cpu) in [
            ("", Some(0.05), &figures.rest_cpu),
            (", leader of two", None, &figures.pair.leader_cpu),
            (", standby", None, &figures.pair.standby_cpu),
        ] {
            let share = 100.0 * cpu.all.as_secs_f64() / plan.rest.as_secs_f64();
            table.row(
                &format!("CPU at rest, of one core{who}"),
                target,
                share,
                "%",
            );
        }
    }
    table.row(
        "CPU of a restart",
        None,
        figures.restart_cpu.all.as_secs_f64(),
        "s",
    );
}

fn memory(table: &mut Table, plan: &Plan, figures: &Figures) {
    let full = match plan.resources {
        ..=1000 => Some(14.0),
        10_000 => Some(40.0),
        _ => None,
    };
    for (when, target, memory) in [
        ("idle", Some(10.0), &figures.idle),
        ("with all", full, &figures.full),
        ("restarted with all", full, &figures.restarted),
        ("leader of two, with all", None, &figures.pair.leader),
        ("standby, with all", None, &figures.pair.standby),
    ] {
        let Memory {
            resident,
            peak,
            anonymous,
            file,
        } = *memory;
        let mebibytes = |kibibytes: u64| kibibytes as f64 / 1024.0;
        table.row(
            &format!("memory (RSS), {when}"),
            target,
            mebibytes(resident),
            &format!(
                "MiB: {:.1} own, {:.1} file; peak {:.1}",
                mebibytes(anonymous),
                mebibytes(file),
                mebibytes(peak)
            ),
        );
    }
}

fn count(requests: &Requests, counts: impl Fn(&Request) -> bool) -> f64 {
    let counted = requests.iter().filter(|(request, _)| counts(request));
    counted.map(|(_, count)| *count as f64).sum()
}

fn listed(requests: &Requests) -> String {
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

/// Rows of `what | target | measured`.
struct Table(String);

impl Default for Table {
    fn default() -> Self {
        Self("| what | target | measured |\n|---|---:|---:|\n".to_owned())
    }
}

impl Table {
    fn row(&mut self, what: &str, target: Option<f64>, measured: f64, unit: &str) {
        let limit = match target {
            None => String::new(),
            Some(0.0) => "0".to_owned(),
            Some(target) => format!("≤ {target}"),
        };
        let missed = target.is_some_and(|target| measured > target);
        let mark = if missed { " (missed)" } else { "" };
        let value = [number(measured).as_str(), unit].join(" ");
        let value = value.trim();
        let _ = writeln!(self.0, "| {what} | {limit} | {value}{mark} |");
    }
}

/// Three significant digits, which is more than most of these are good for.
fn number(value: f64) -> String {
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
    fn a_missed_target_is_marked() {
        let mut table = Table::default();
        table.row("kept", Some(1.5), 1.5, "s");
        table.row("missed", Some(0.0), 1.0, "");
        assert!(table.0.contains("| kept | ≤ 1.5 | 1.50 s |"), "{}", table.0);
        assert!(
            table.0.contains("| missed | 0 | 1.00 (missed) |"),
            "{}",
            table.0
        );
    }

    #[test]
    fn numbers_have_three_digits_or_so() {
        let shown: Vec<_> = [0.0, 0.0123, 1.234, 12.34, 1234.5].map(number).into();
        assert_eq!(shown, ["0", "0.012", "1.23", "12.3", "1234"]);
    }
}
