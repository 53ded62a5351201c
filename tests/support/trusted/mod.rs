//! Checks every status with `Ready=True`: when it was written, each child was stored as the
//! resource's generation in that status desires, was not being deleted, and its rollout was
//! complete. Reads an API server's audit log, which has every version of resources and children
//! (`tools/devcluster/config/audit-policy.yaml`); sends no requests.
//!
//! The log is ordered by the etcd revision in each response. A manager cannot see another client's
//! write that happens while it writes the status: such a write counts as a *race* and not as a
//! violation if it is at most [`RACE`] older. Races are reported.
#![allow(dead_code)] // each test binary uses a part

mod compare;
mod history;

mod wanted;

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use self::history::{History, StatusWrite, Version};
use self::wanted::Wanted;

/// The longest time between another client's write and a status that ignores it.
pub(crate) const RACE: Duration = Duration::from_secs(2);

/// The findings in a log.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Statuses with `Ready=True` by managers, which are compared with the children.
    pub(crate) checked: usize,
    /// Comparisons that failed only because of another client's write within [`RACE`].
    pub(crate) races: Vec<String>,
    /// Comparisons in which the API server or admission changed the applied values.
    pub(crate) rewritten: Vec<String>,
    /// Statuses for which the log lacks the generation's spec, or a child's state.
    pub(crate) unknown: Vec<String>,
    /// The violations.
    pub(crate) violations: Vec<String>,
}

impl Report {
    /// Prints the counts and their details.
    pub(crate) fn print(&self, of_what: &str) {
        for (what, list) in [
            ("race", &self.races),
            ("rewritten", &self.rewritten),
            ("unknown", &self.unknown),
            ("VIOLATION", &self.violations),
        ] {
            for one in list {
                println!("{what}: {one}");
            }
        }
        println!(
            "trusted status, {of_what}: {} with Ready=True compared with the children, {} violations, \
             {} races, {} rewritten, {} unknown",
            self.checked,
            self.violations.len(),
            self.races.len(),
            self.rewritten.len(),
            self.unknown.len(),
        );
    }
}

/// Checks a whole log.
pub(crate) fn check(log: &Path) -> Report {
    let mut history = History::open(log);
    history.read(|_| true);
    let mut report = Report::default();
    for write in history.status_writes().filter(|write| write.is_ready) {
        report.checked += 1;
        check_write(&history, write, &mut report);
    }
    report
}

/// Compares one `Ready=True` with the children.
fn check_write(history: &History, write: &StatusWrite, report: &mut Report) {
    let what = format!(
        "{} {} Ready=True for generation {} at revision {} ({})",
        write.key, write.uid, write.observed, write.revision, write.received
    );
    // The annotations are part of the desired state, and changing them does not increment the
    // generation.
    let specs = history.specs(write);
    let Some(newest) = specs.first() else {
        report
            .unknown
            .push(format!("{what}: no such generation in the log"));
        return;
    };
    let mut found = compare_with(history, write, newest);
    if matches!(found, Finding::Wrong(_)) {
        let older = specs.iter().skip(1);
        let is_race = older
            .map(|spec| compare_with(history, write, spec))
            .any(|finding| !matches!(finding, Finding::Wrong(_)));
        if is_race {
            found = Finding::Race("its annotations changed just before".to_owned());
        }
    }
    match found {
        Finding::Right => {}
        Finding::Race(why) => report.races.push(format!("{what}: {why}")),
        Finding::Rewritten(why) => report.rewritten.push(format!("{what}: {why}")),
        Finding::Unknown(why) => report.unknown.push(format!("{what}: {why}")),
        Finding::Wrong(why) => report.violations.push(format!("{what}: {why}")),
    }
}

/// The result of a comparison, ordered by severity.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Finding {
    Right,
    Rewritten(String),
    Race(String),
    Unknown(String),
    Wrong(String),
}

fn compare_with(history: &History, write: &StatusWrite, spec: &Value) -> Finding {
    let wanted = match wanted::children(write, spec, history) {
        Ok(wanted) => wanted,
        Err(refused) => return Finding::Wrong(format!("the spec is rejected: {refused}")),
    };
    let findings = wanted.iter().map(|child| compare(history, write, child));
    findings.max().unwrap_or(Finding::Right)
}

fn compare(history: &History, write: &StatusWrite, wanted: &Wanted) -> Finding {
    let past = history.past(&wanted.key, write);
    let problems = problems_of(past.first().copied(), wanted);
    if problems.is_empty() {
        return Finding::Right;
    }
    let what = format!("{}: {}", wanted.key, problems.join("; "));
    if let Some(version) = past.first()
        && is_rewritten(history, version, wanted)
    {
        return Finding::Rewritten(what);
    }
    if history.is_uncertain(&wanted.key, write) {
        return Finding::Unknown(format!("{what} (a write before had no answer)"));
    }
    // Earlier versions, as long as another client wrote the later one.
    for (index, version) in past.iter().enumerate() {
        let is_late = version.answered >= earlier(write.received, RACE);
        if version.is_managers || !is_late {
            break;
        }
        if problems_of(past.get(index + 1).copied(), wanted).is_empty() {
            return Finding::Race(format!("{what}, by {} just before", version.by));
        }
    }
    Finding::Wrong(what)
}

/// Returns the problems of this version of a child; `None` means that it does not exist.
fn problems_of(version: Option<&Version>, wanted: &Wanted) -> Vec<String> {
    let Some(version) = version.filter(|version| !version.is_gone) else {
        return vec!["there is none".to_owned()];
    };
    let object = version.object();
    let mut problems = Vec::new();
    if !object["metadata"]["deletionTimestamp"].is_null() {
        problems.push("it is being deleted".to_owned());
    }
    problems.extend(wanted.lacking_in(&object));
    if wanted.key.plural == "deployments" {
        problems.extend(compare::unfinished_rollout(&object));
    }
    problems
}

/// Reports whether the last apply by a manager had every missing value and the response did not:
/// the API server rounds, and admission may change anything.
fn is_rewritten(history: &History, version: &Version, wanted: &Wanted) -> bool {
    let object = version.object();
    if version.is_gone
        || !object["metadata"]["deletionTimestamp"].is_null()
        || wanted.key.plural == "deployments" && compare::unfinished_rollout(&object).is_some()
    {
        return false;
    }
    let Some(apply) = history.last_apply(&wanted.key, version) else {
        return false;
    };
    let lacking = wanted.lacking_in(&object);
    wanted.lacking_in(&apply.request_object()).is_empty()
        && lacking == wanted.lacking_in(&apply.object())
}

fn earlier(time: Timestamp, by: Duration) -> Timestamp {
    time.checked_sub(by).unwrap_or(Timestamp::MIN)
}

/// Returns every version in the log of the children of this kind in a namespace, by name, in the
/// order in which they were stored.
pub(crate) fn versions(log: &Path, namespace: &str, plural: &str) -> Vec<(String, Value)> {
    let mut history = History::open(log);
    history.read(|line| line.contains(namespace));
    let children = history.objects();
    let of_kind = children.filter(|(key, _)| key.namespace == namespace && key.plural == plural);
    let mut versions: Vec<_> = of_kind
        .flat_map(|(key, versions)| versions.iter().map(|version| (key.name.clone(), version)))
        .filter(|(_, version)| !version.is_gone)
        .collect();
    versions.sort_by_key(|(_, version)| version.revision);
    let versions = versions.into_iter();
    versions
        .map(|(name, version)| (name, version.object()))
        .collect()
}

/// Reports whether this version of a Deployment is in a rollout.
pub(crate) fn is_rolling(deployment: &Value) -> bool {
    compare::unfinished_rollout(deployment).is_some()
}
