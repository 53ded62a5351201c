//! O9: the process ends when it has to and with the code that says so, does not panic, and
//! is afterwards as large as before.

use std::fs;

use super::{Violation, violation};
use crate::rig::Rig;

/// What a process holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Process {
    pub(crate) id: u32,
    pub(crate) files: usize,
    pub(crate) threads: usize,
    pub(crate) resident_kib: u64,
}

impl Process {
    pub(crate) fn of(id: u32) -> Self {
        let count =
            |what: &str| fs::read_dir(format!("/proc/{id}/{what}")).map_or(0, Iterator::count);
        let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let resident = resident.and_then(|text| text.trim().trim_end_matches(" kB").parse().ok());
        Process {
            id,
            files: count("fd"),
            threads: count("task"),
            resident_kib: resident.unwrap_or_default(),
        }
    }
}

/// Files more than at rest before: connections that lie idle. After an API server came back, a reconcile
/// and a discovery of each of the four kinds and the writer of Events may have called at once.
const MORE_FILES: usize = 9;

/// Threads more than at rest before, which end after some idle seconds.
const MORE_THREADS: usize = 5;

/// Resident memory more than at rest before, in KiB, besides a tenth: what a debug build's
/// first errors bring in of code and symbols.
const MORE_KIB: u64 = 6 * 1024;

/// What became of the managers of a scenario.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    /// What all of them have written.
    pub(crate) log: String,
    /// Those that ended, and whether that was to be.
    pub(crate) ends: Vec<(Option<i32>, bool)>,
    /// The one that runs now; none if none does.
    pub(crate) now: Option<Process>,
    /// At rest before the fault.
    pub(crate) before: Option<Process>,
    /// It may have grown by what the fault made it hold.
    pub(crate) may_grow: bool,
}

pub(crate) fn unwell(rig: &mut Rig) -> Vec<Violation> {
    let manager = rig.stage.manager();
    let now = manager.runs().then(|| Process::of(manager.id()));
    judge(&Seen {
        log: format!("{}{}", rig.logs, rig.stage.log()),
        ends: rig.ends.clone(),
        now,
        before: rig.baseline,
        may_grow: rig.allows_growth,
    })
}

pub(crate) fn judge(seen: &Seen) -> Vec<Violation> {
    let mut violations = Vec::new();
    let log = &seen.log;
    if let Some(line) = log.lines().find(|line| line.contains("panicked")) {
        violations.push(violation("O9", line));
    }
    for (code, is_planned) in &seen.ends {
        // Killed, or 1 for a lost lease.
        if !is_planned || !matches!(code, None | Some(1)) {
            violations.push(violation(
                "O9",
                format!("a manager ended unasked: {code:?}\n{log}"),
            ));
        }
    }
    let Some(now) = seen.now else {
        violations.push(violation("O9", format!("the manager has ended:\n{log}")));
        return violations;
    };
    let Some(before) = seen.before else {
        return violations;
    };
    let has_more =
        now.files > before.files + MORE_FILES || now.threads > before.threads + MORE_THREADS;
    let may_grow = seen.may_grow || before.id != now.id;
    let is_larger = now.resident_kib > before.resident_kib * 11 / 10 + MORE_KIB;
    if has_more || (!may_grow && is_larger) {
        violations.push(violation("O9", format!("grown: {before:?}, then {now:?}")));
    }
    violations
}
