//! O9: the process ends when it has to and with the code that says so, does not panic, and
//! is afterwards as large as before.

use std::fs;

use super::{Violation, violation};
use crate::rig::Rig;

/// What a process holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Process {
    id: u32,
    files: usize,
    threads: usize,
    resident_kib: u64,
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

/// Files more than at rest before: connections that lie idle for a while.
const MORE_FILES: usize = 5;

/// Resident memory more than at rest before, in KiB, besides a tenth: what a debug build's
/// first errors bring in of code and symbols.
const MORE_KIB: u64 = 6 * 1024;

pub(crate) fn unwell(rig: &mut Rig) -> Vec<Violation> {
    let mut violations = Vec::new();
    let log = format!("{}{}", rig.logs, rig.stage.log());
    if let Some(line) = log.lines().find(|line| line.contains("panicked")) {
        violations.push(violation("O9", line));
    }
    for (code, is_planned) in &rig.ends {
        // Killed, or 1 for a lost lease.
        if !is_planned || !matches!(code, None | Some(1)) {
            violations.push(violation(
                "O9",
                format!("a manager ended unasked: {code:?}\n{log}"),
            ));
        }
    }
    if !rig.stage.manager().runs() {
        violations.push(violation("O9", format!("the manager has ended:\n{log}")));
        return violations;
    }
    let now = Process::of(rig.stage.manager().id());
    let Some(before) = rig.baseline else {
        return violations;
    };
    if now.files > before.files + MORE_FILES || now.threads > before.threads + MORE_FILES {
        violations.push(violation("O9", format!("grown: {before:?}, then {now:?}")));
    }
    let may_grow = rig.allows_growth || before.id != now.id;
    if !may_grow && now.resident_kib > before.resident_kib * 11 / 10 + MORE_KIB {
        violations.push(violation("O9", format!("grown: {before:?}, then {now:?}")));
    }
    violations
}
