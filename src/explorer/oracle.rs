//! What must hold after every plan. The numbers are those of CONTRIBUTING.md, "Faults".

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use modelapi::{ApiServer, Change, ObjectId, Stored};
use serde_json::{Value, json};

use super::compare::{lacking, unfinished_rollout};
use super::life::{NAME, NAMESPACE};
use super::plan::{EventFault, Fault, Plan, View, WriteFault};
use super::run::Outcome;
use crate::operators::{Child, ChildKind, Resource, Settings};

/// Something that must not be.
#[derive(Debug, Clone)]
pub(super) struct Violation {
    pub(super) oracle: &'static str,
    pub(super) what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.oracle, self.what)
    }
}

/// A change by somebody else that the manager may not know of yet when it writes: the time of
/// a request and of an event.
const UNKNOWN: Duration = Duration::from_millis(50);
/// The same where events are held back, or lists are old.
const UNKNOWN_WHEN_HELD: Duration = Duration::from_secs(6);
/// What a plan may cost beyond the run without faults.
const WRITES_PER_FAULT: usize = 8;
/// Attempts, by the back-off, until a list that is old is brought up to date after 3 s, or an
/// event that is held comes after 5 s.
const WRITES_WHILE_STALE: usize = 30;
/// Attempts of all writes within an outage: the back-off begins at 5 ms and doubles up to 60 s.
const WRITES_PER_OUTAGE: usize = 50;

type Objects = BTreeMap<ObjectId, Arc<Value>>;

fn plural(kind: ChildKind) -> &'static str {
    match kind {
        ChildKind::Deployment => "deployments",
        ChildKind::Service => "services",
    }
}

/// What a resource asks for, or why it may not.
fn desired(plan: &Plan, object: &Value) -> Vec<Child> {
    let operator = plan.subject().operator();
    let kind = operator.kind();
    let resource = Resource {
        namespace: NAMESPACE.to_owned(),
        name: NAME.to_owned(),
        uid: object["metadata"]["uid"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
        generation: object["metadata"]["generation"].as_i64().unwrap_or(0),
        api_version: kind.api_version(&kind.hub),
        spec: object["spec"].clone(),
        status: serde_json::from_value(object["status"].clone()).unwrap_or_default(),
        paused: is_paused(object),
    };
    let desired = operator.desired(&resource, &Settings::default());
    desired.expect("the lives ask for what is allowed")
}

fn is_paused(object: &Value) -> bool {
    object["metadata"]["annotations"]["quartet-operator.example.com/paused"] == "true"
}

fn ready(object: &Value) -> Option<&Value> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|it| it["type"] == "Ready")
}

/// Why a child is not as wanted, if it is not.
fn unlike(objects: &dyn Fn(&ObjectId) -> Option<Arc<Value>>, child: &Child) -> Option<String> {
    let id = ObjectId::new(plural(child.kind), NAMESPACE, &child.name);
    let Some(found) = objects(&id) else {
        return Some(format!("{} {} is not there", id.plural, id.name));
    };
    if found["metadata"].get("deletionTimestamp").is_some() {
        return Some(format!("{} {} is being deleted", id.plural, id.name));
    }
    let lacking = lacking(&child.body, &found);
    if let Some((path, what)) = lacking.first() {
        return Some(format!("{} {}: {path}: {what}", id.plural, id.name));
    }
    match child.kind {
        ChildKind::Deployment => unfinished_rollout(&found),
        ChildKind::Service => None,
    }
}

/// Why not all is as the resource asks for, if it is not.
fn unsettled(plan: &Plan, objects: &dyn Fn(&ObjectId) -> Option<Arc<Value>>) -> Option<String> {
    let Some(resource) = objects(&plan.subject().id()) else {
        let left = ["deployments", "services"]
            .into_iter()
            .find(|plural| objects(&ObjectId::new(plural, NAMESPACE, NAME)).is_some());
        return left.map(|plural| format!("the resource is gone and its {plural} is not"));
    };
    if is_paused(&resource) {
        return None;
    }
    let generation = &resource["metadata"]["generation"];
    let is_ready = ready(&resource).is_some_and(|it| it["status"] == "True");
    if !is_ready || resource["status"]["observedGeneration"] != *generation {
        return Some(format!("the status is {}", resource["status"]));
    }
    let desired = desired(plan, &resource);
    if let Some(unlike) = desired.iter().find_map(|child| unlike(objects, child)) {
        return Some(unlike);
    }
    let wants_service = desired.iter().any(|it| it.kind == ChildKind::Service);
    let service = objects(&ObjectId::new("services", NAMESPACE, NAME));
    (service.is_some() && !wants_service).then(|| "a Service that nobody asks for".to_owned())
}

/// Whether all is as asked for.
pub(super) fn is_settled(server: &ApiServer, plan: &Plan) -> bool {
    unsettled(plan, &|id| server.get(id)).is_none()
}

/// What a run without faults came to.
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

/// O2: what is there in the end, but for what differs between two runs.
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

/// Different in every run. The generation of a child counts how often it was written.
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
                    // Their names have the hash of a uid in them.
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

/// Everything that is wrong with a run.
pub(super) fn violations(plan: &Plan, outcome: &Outcome, reference: &Reference) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut add = |oracle: &'static str, what: String| found.push(Violation { oracle, what });
    converged(plan, outcome, &mut add);
    for (key, expected) in &reference.end {
        let now = end_state(outcome, plan);
        if now.get(key) != Some(expected) {
            let null = Value::Null;
            let found = now.get(key).unwrap_or(&null);
            let what = lacking(expected, found);
            add(
                "O2",
                format!("{key} is not as without a fault: {what:?}, {found}"),
            );
        }
    }
    history(plan, outcome, &mut add);
    for asked in &outcome.journal {
        if asked.target.is_write() && !asked.leads {
            add(
                "O4",
                format!(
                    "{:?} by process {} that does not lead",
                    asked.target, asked.process
                ),
            );
        }
    }
    spent(plan, outcome, reference, &mut add);
    for ended in &outcome.ended {
        add("O9", format!("a process ended: {ended}"));
    }
    found
}

type Add<'a> = dyn FnMut(&'static str, String) + 'a;

/// O1: all is as asked for in time, and nothing is asked or written afterwards.
fn converged(plan: &Plan, outcome: &Outcome, add: &mut Add<'_>) {
    let Some(settled) = outcome.settled else {
        let why = unsettled(plan, &|id| outcome.server.get(id)).unwrap_or_default();
        return add("O1", format!("not as asked for in time: {why}"));
    };
    // After an outage, the longest back-off may be under way.
    let calm = match plan.faults.iter().any(is_outage) {
        true => 75,
        false => 15,
    };
    let rest = settled.max(outcome.last_cause) + Duration::from_secs(calm);
    let restless = outcome.journal.iter().filter(|asked| {
        let is_watch = matches!(asked.target.verb, "watch" | "discover")
            || (asked.target.verb == "list" && asked.target.resource != "deployments");
        asked.at > rest && !is_watch
    });
    if let Some(asked) = restless.into_iter().next() {
        add(
            "O1",
            format!(
                "at rest since {rest:?}, at {:?}: {:?}",
                asked.at, asked.target
            ),
        );
    }
}

fn is_outage(fault: &Fault) -> bool {
    matches!(
        fault,
        Fault::Write(_, WriteFault::Outage | WriteFault::Webhook)
    )
}

/// O5: how often something was asked.
fn spent(plan: &Plan, outcome: &Outcome, reference: &Reference, add: &mut Add<'_>) {
    let outages = plan.faults.iter().filter(|fault| is_outage(fault)).count();
    let is_stale = |fault: &&Fault| {
        let held = EventFault::Held;
        matches!(fault, Fault::Restart(_, View::List(_)))
            || matches!(fault, Fault::Event(_, it) if *it == held)
    };
    let stale = plan.faults.iter().filter(is_stale).count();
    let others = plan.faults.len() - outages - stale;
    let most = reference.writes
        + others * WRITES_PER_FAULT
        + stale * WRITES_WHILE_STALE
        + outages * WRITES_PER_OUTAGE;
    if outcome.writes > most {
        let what = format!(
            "{} writes, {} without a fault",
            outcome.writes, reference.writes
        );
        add("O5", what);
    }
}

/// O3, O6, O7 and O10: every write, in order.
fn history(plan: &Plan, outcome: &Outcome, add: &mut Add<'_>) {
    let manager = plan.subject().operator().kind().field_manager;
    let is_held = plan.faults.iter().any(|fault| {
        matches!(
            fault,
            Fault::Event(..) | Fault::Restart(_, View::List(_) | View::Watch(_))
        )
    });
    let unknown = if is_held { UNKNOWN_WHEN_HELD } else { UNKNOWN };
    let id = plan.subject().id();
    let mut objects = Objects::new();
    // By uid: the highest generation that a child was written for.
    let mut applied: BTreeMap<String, i64> = BTreeMap::new();
    for (index, stored) in outcome.log.iter().enumerate() {
        let is_ours = stored.by == manager;
        let is_child = matches!(stored.id.plural.as_str(), "deployments" | "services");
        if is_ours && is_child {
            child_written(outcome, &objects, stored, &mut applied, add);
        }
        if stored.by == "delete" && is_child {
            child_deleted(plan, outcome, index, add);
        }
        if is_ours && stored.id == id && stored.change == Change::Modified {
            status_written(plan, outcome, &objects, index, unknown, add);
        }
        match stored.change {
            Change::Deleted => objects.remove(&stored.id),
            Change::Added | Change::Modified => {
                objects.insert(stored.id.clone(), Arc::clone(&stored.object))
            }
        };
    }
    for plural in ["deployments", "services"] {
        for child in outcome.server.all(plural) {
            let references = child["metadata"]["ownerReferences"].as_array();
            let owner = outcome.server.get(&id);
            let uid = owner.as_ref().map(|owner| &owner["metadata"]["uid"]);
            let references = references.map(Vec::as_slice).unwrap_or_default();
            if !matches!(references, [one] if Some(&one["uid"]) == uid) {
                add("O6", format!("{plural}: its owners are {references:?}"));
            }
        }
    }
}

/// A child is made for a living owner, once, and never for an older generation than before.
fn child_written(
    outcome: &Outcome,
    objects: &Objects,
    stored: &Stored,
    applied: &mut BTreeMap<String, i64>,
    add: &mut Add<'_>,
) {
    let owner = stored.object["metadata"]["ownerReferences"][0]["uid"].as_str();
    let owner = owner.unwrap_or_default().to_owned();
    let plural = &stored.id.plural;
    if stored.change == Change::Added {
        // The end of an owner may not be known for as long as a request takes.
        let died = outcome
            .log
            .iter()
            .find(|it| it.change == Change::Deleted && it.object["metadata"]["uid"] == *owner);
        let age = died.filter(|died| died.revision < stored.revision);
        let is_late = age.is_some_and(|died| stored.at - died.at > UNKNOWN);
        if is_late {
            add(
                "O3",
                format!("{plural} made for the owner {owner}, which is gone"),
            );
        }
    }
    if let Some(before) = objects.get(&stored.id)
        && before["metadata"]["ownerReferences"][0]["uid"] != *owner
    {
        add("O6", format!("{plural} taken from another owner"));
    }
    let stamp = &stored.object["metadata"]["annotations"]["quartet-operator.example.com/applied"];
    let stamp: Value = serde_json::from_str(stamp.as_str().unwrap_or("null")).unwrap_or_default();
    let generation = stamp["generation"].as_i64().unwrap_or(0);
    let highest = applied.entry(format!("{owner} {plural}")).or_default();
    if generation < *highest {
        add(
            "O6",
            format!("{plural} written for generation {generation} after {highest}"),
        );
    }
    *highest = generation.max(*highest);
}

/// Only a Service that nobody asks for is deleted.
fn child_deleted(plan: &Plan, outcome: &Outcome, index: usize, add: &mut Add<'_>) {
    let stored = &outcome.log[index];
    if stored.id.plural != "services" {
        return add("O3", format!("{} deleted", stored.id.plural));
    }
    // The spec as it was at some moment that the manager may not have known to be over.
    let versions = outcome.log[..index].iter().rev();
    let versions = versions.filter(|it| it.id == plan.subject().id());
    let mut next = stored.at;
    for version in versions {
        let asks = version.change != Change::Deleted
            && desired(plan, &version.object)
                .iter()
                .any(|child| child.kind == ChildKind::Service);
        if !asks {
            return;
        }
        next = version.at.min(next);
        if stored.at - next > UNKNOWN {
            break;
        }
    }
    add(
        "O3",
        "a Service deleted that the resource asks for".to_owned(),
    );
}

/// O7 and O10: a status tells what is so.
fn status_written(
    plan: &Plan,
    outcome: &Outcome,
    objects: &Objects,
    index: usize,
    unknown: Duration,
    add: &mut Add<'_>,
) {
    let stored = &outcome.log[index];
    let Some(before) = &stored.before else { return };
    let of = |object: &Value| object["status"]["conditions"].as_array().cloned();
    for condition in of(&stored.object).unwrap_or_default() {
        let earlier = of(before).unwrap_or_default();
        let earlier = earlier
            .into_iter()
            .find(|it| it["type"] == condition["type"]);
        if let Some(earlier) = earlier
            && earlier["status"] == condition["status"]
            && earlier["lastTransitionTime"] != condition["lastTransitionTime"]
        {
            add(
                "O7",
                format!("the time of {} moved without it", condition["type"]),
            );
        }
    }
    let is_ready = ready(&stored.object).is_some_and(|it| it["status"] == "True");
    let observed = &stored.object["status"]["observedGeneration"];
    if !is_ready || is_paused(&stored.object) {
        return;
    }
    if *observed != stored.object["metadata"]["generation"] {
        let what = format!(
            "generation {observed} told of {}",
            stored.object["metadata"]["generation"]
        );
        return add("O7", what);
    }
    let wanted = desired(plan, &stored.object);
    let unlike_at = |objects: &Objects| {
        wanted
            .iter()
            .find_map(|child| unlike(&|id| objects.get(id).cloned(), child))
    };
    let Some(what) = unlike_at(objects) else {
        return;
    };
    // Somebody else's change that is not known yet: take such changes back one by one.
    let mut earlier = objects.clone();
    for change in outcome.log[..index].iter().rev() {
        let is_child = matches!(change.id.plural.as_str(), "deployments" | "services");
        if !is_child {
            continue;
        }
        let is_foreign = change.by != plan.subject().operator().kind().field_manager;
        if !is_foreign || stored.at - change.at > unknown {
            break;
        }
        match &change.before {
            Some(before) => earlier.insert(change.id.clone(), Arc::clone(before)),
            None => earlier.remove(&change.id),
        };
        if unlike_at(&earlier).is_none() {
            return;
        }
    }
    add(
        "O10",
        format!("Ready=True of generation {observed}, but {what}"),
    );
}
