//! O9: the process exits only when it must, with the right code, does not panic, and is afterwards as
//! large as before.

use std::fs;

use super::{Violation, violation};
use crate::fixture::Fixture;

/// What a process uses.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Process {
    pub(super) id: u32,
    pub(super) files: usize,
    pub(super) threads: usize,
    pub(super) resident_kib: u64,
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

/// More files than before: idle connections. After an API server came back, a reconcile and a discovery
/// of each of the four kinds and the writer of Events may have called at once.
const MORE_FILES: usize = 9;

/// More threads than before, which end after some idle seconds.
const MORE_THREADS: usize = 5;

/// More resident memory than before, in KiB, besides a tenth: code and symbols that the first errors of a
/// debug build load.
const MORE_KIB: u64 = 6 * 1024;

pub(super) fn unwell(fixture: &mut Fixture) -> Vec<Violation> {
    let log = format!("{}{}", fixture.logs, fixture.env.log());
    let mut violations = exited(&log, &fixture.exits);
    let manager = fixture.env.manager();
    if manager.runs() {
        violations.extend(grown(&fixture.baseline, &Process::of(manager.id())))
    } else {
        violations.push(violation("O9", format!("the manager exited:\n{log}")))
    }
    violations
}

/// A panic, or an exit that was not expected.
pub(super) fn exited(log: &str, exits: &[(Option<i32>, bool)]) -> Vec<Violation> {
    let panics = log.lines().filter(|line| line.contains("panicked"));
    let panics = panics.map(|line| violation("O9", line));
    // Killed, or 1 for a lost lease.
    let unexpected = exits
        .iter()
        .filter(|(code, is_expected)| !is_expected || !matches!(code, None | Some(1)));
    let unexpected = unexpected.map(|it| violation("O9", format!("exit {it:?}\n{log}")));
    panics.chain(unexpected).collect()
}

pub(super) fn grown(before: &Process, now: &Process) -> Option<Violation> {
    let has_more =
        now.files > before.files + MORE_FILES || now.threads > before.threads + MORE_THREADS;
    let is_larger =
        before.id == now.id && now.resident_kib > before.resident_kib * 11 / 10 + MORE_KIB;
    (has_more || is_larger).then(|| violation("O9", format!("grown: {before:?}, then {now:?}")))
}
