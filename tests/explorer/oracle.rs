//! The invariants after every plan. The numbers are those of CONTRIBUTING.md, "Faults".

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use modelapi::Change;
use serde_json::{Value, json};

mod history;
mod webhooks;

use super::compare::lacking;
use super::plan::{Fault, Plan, View, WriteFault};
use super::run::Outcome;
use super::settled::{condition, unsettled};
use super::violation::{Add, Violation};
use super::wire::Asked;

/// Allowed cost of a plan, in addition to the run without faults.
const WRITES_PER_FAULT: usize = 8;
/// Attempts with back-off until an outdated list is updated after 3 s, or a delayed event arrives after
/// 5 s.
const WRITES_WHILE_STALE: usize = 30;
/// Attempts of all writes within an outage: the back-off starts at 5 ms and doubles up to 60 s.
const WRITES_PER_OUTAGE: usize = 50;

/// From a write to its answer.
const REQUEST: Duration = Duration::from_millis(2);

/// The result of a run without faults.
#[derive(Debug)]
pub(super) struct Reference {
    pub(super) end: BTreeMap<String, Value>,
    pub(super) writes: usize,
    pub(super) events: usize,
}

impl Reference {
    pub(super) fn of(outcome: &Outcome, plan: &Plan) -> Self {
        Reference {
            end: end_state(outcome, plan),
            writes: outcome.writes,
            events: outcome.events,
        }
    }
}

/// O2: the final objects, without parts that differ between two runs.
fn end_state(outcome: &Outcome, plan: &Plan) -> BTreeMap<String, Value> {
    let kind = plan.subject().operator().kind();
    let mut state = BTreeMap::new();
    for plural in [kind.plural, "deployments", "services"] {
        for object in outcome.server.all(plural) {
            let mut object = (*object).clone();
            mask(&mut object, plural == kind.plural);
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            state.insert(format!("{plural} {name}"), object);
        }
    }
    state
}

/// Different in every run. The generation of a child counts its writes.
const MASKED: [&str; 8] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "observedGeneration",
    "lastTransitionTime",
    "time",
    "quartet-operator.example.com/applied",
];

fn mask(value: &mut Value, is_resource: bool) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let is_exact =
                    is_resource && matches!(name.as_str(), "generation" | "observedGeneration");
                match name.as_str() {
                    "managedFields" => *member = Value::Null,
                    // Their names contain the hash of a uid.
                    "nodes" => *member = json!(member.as_array().map(Vec::len)),
                    _ if MASKED.contains(&name.as_str()) && !member.is_object() && !is_exact => {
                        *member = json!("masked");
                    }
                    _ => mask(member, is_resource),
                }
            }
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|item| mask(item, is_resource));
            items.sort_by_key(|item| item["type"].as_str().map(str::to_owned));
        }
        _ => {}
    }
}

/// All violations of a run.
pub(super) fn violations(plan: &Plan, outcome: &Outcome, reference: &Reference) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut add = |oracle: &'static str, what: String| found.push(Violation { oracle, what });
    converged(plan, outcome, &mut add);
    let now = end_state(outcome, plan);
    let keys: BTreeSet<_> = now.keys().chain(reference.end.keys()).collect();
    for key in keys {
        let of = |state: &BTreeMap<String, Value>| state.get(key).cloned().unwrap_or_default();
        let (found, expected) = (of(&now), of(&reference.end));
        if found != expected {
            let lacking = lacking(&expected, &found);
            let what = format!("{key} is not as without a fault: {lacking:?}, {found}");
            add("O2", what);
        }
    }
    history::history(plan, outcome, &mut add);
    for asked in &outcome.journal {
        if asked.target.is_write() && !asked.leads {
            let (target, process) = (&asked.target, asked.process);
            let what = format!("{target:?} by process {process} that does not lead");
            add("O4", what);
        }
    }
    spent(plan, outcome, reference, &mut add);
    early(plan, outcome, &mut add);
    webhooks::calls(plan, outcome, &mut add);
    for ended in &outcome.ended {
        add("O9", format!("a process ended: {ended}"));
    }
    found
}

/// O1: the desired state is reached in time, and there are no requests and writes afterwards.
fn converged(plan: &Plan, outcome: &Outcome, add: &mut Add<'_>) {
    let Some(settled) = outcome.settled else {
        let why = unsettled(plan, &|id| outcome.server.get(id)).unwrap_or_default();
        let what = format!("the desired state was not reached in time: {why}");
        return add("O1", what);
    };
    // After an outage, the longest back-off may be running.
    let calm = if plan.faults.iter().any(is_outage) {
        75
    } else {
        15
    };
    let rest = settled.max(outcome.last_cause) + Duration::from_secs(calm);
    let restless = outcome.journal.iter().filter(|asked| {
        let is_watch = matches!(asked.target.verb, "watch" | "discover")
            || (asked.target.verb == "list" && asked.target.resource != "deployments");
        asked.at > rest && !is_watch
    });
    if let Some(asked) = restless.into_iter().next() {
        let (at, target) = (asked.at, &asked.target);
        let what = format!("at rest since {rest:?}, at {at:?}: {target:?}");
        add("O1", what);
    }
}

fn is_outage(fault: &Fault) -> bool {
    use WriteFault::{Outage, Webhook};
    matches!(fault, Fault::Write(_, Outage | Webhook))
}

/// O5: the number of repetitions of a request.
fn spent(plan: &Plan, outcome: &Outcome, reference: &Reference, add: &mut Add<'_>) {
    let outages = plan.faults.iter().filter(|fault| is_outage(fault)).count();
    // Until a watch is restarted or continues, the cache is outdated, too.
    let is_stale =
        |fault: &&Fault| matches!(fault, Fault::Restart(_, View::List(..)) | Fault::Event(..));
    let stale = plan.faults.iter().filter(is_stale).count();
    let others = plan.faults.len() - outages - stale;
    let most = reference.writes
        + others * WRITES_PER_FAULT
        + stale * WRITES_WHILE_STALE
        + outages * WRITES_PER_OUTAGE;
    if outcome.writes > most {
        let (writes, usual) = (outcome.writes, reference.writes);
        let what = format!("{writes} writes, {usual} without a fault");
        add("O5", what);
    }
}

/// O5: after a 429, the process writes nothing to that object before the `Retry-After` has passed, except
/// that the resource is degraded. A resource, its status and its children, which have its name, count as
/// one object; a new resource of that name is another.
fn early(plan: &Plan, outcome: &Outcome, add: &mut Add<'_>) {
    let id = plan.subject().id();
    let of_resource = || outcome.log.iter().filter(|stored| stored.id == id);
    let is_degraded = |asked: &Asked| {
        let answered = asked.at..=asked.at + REQUEST;
        let mut stored = of_resource().filter(|it| answered.contains(&it.at));
        asked.target.resource.ends_with("/status")
            && stored.any(|it| {
                condition(&it.object, "Degraded").is_some_and(|it| it["status"] == "True")
            })
    };
    for (index, refused) in outcome.journal.iter().enumerate() {
        let Some(until) = refused.held_until else {
            continue;
        };
        let is_early = |asked: &&Asked| {
            let mut created = of_resource().filter(|it| it.change == Change::Added);
            asked.process == refused.process
                && asked.target.is_write()
                && asked.target.name == refused.target.name
                && asked.at < until
                && !created.any(|it| it.at > refused.at && it.at <= asked.at)
                && !is_degraded(asked)
        };
        for asked in outcome.journal[index + 1..].iter().filter(is_early) {
            add(
                "O5",
                format!(
                    "at {:?} {} of {}, although the Retry-After of {} ends at {until:?}",
                    asked.at, asked.target.verb, asked.target.resource, refused.target.resource
                ),
            );
        }
    }
}
