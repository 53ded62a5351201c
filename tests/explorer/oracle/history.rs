//! Invariants of all writes, in order: O3, O6, O7 and O10.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use modelapi::{Change, Stored};
use serde_json::{Value, json};

use super::super::plan::{Fault, Outdated, Plan, View};
use super::super::run::Outcome;
use super::super::settled::{Objects, desired, is_paused, ready, resource, unlike};
use super::super::violation::Add;
use quartet_applied::stamp::{Hash, Stamp, hash_of_spec};
use quartet_operator::kinds::BRAND;
use quartet_workload::SERVICE;

/// How old a change of another writer may be that the manager has not seen when it writes: the time of
/// a request and of an event.
const UNKNOWN: Duration = Duration::from_millis(50);
/// The same with delayed events or outdated lists.
const UNKNOWN_WHEN_HELD: Duration = Duration::from_secs(6);

/// Checks O3, O6, O7 and O10 for every write, in order.
pub(super) fn history(plan: &Plan, outcome: &Outcome, add: &mut Add<'_>) {
    let manager = plan.subject().operator().kind().field_manager;
    let is_held = plan.faults.iter().any(|fault| {
        matches!(
            fault,
            Fault::Event(..) | Fault::Restart(_, View::List(..) | View::Watch(_))
        )
    });
    let unknown = if is_held { UNKNOWN_WHEN_HELD } else { UNKNOWN };
    let id = plan.subject().id();
    let mut objects = Objects::new();
    let mut applied = Applied::default();
    for (index, stored) in outcome.log.iter().enumerate() {
        let is_ours = stored.by == manager;
        let is_child = matches!(stored.id.plural.as_str(), "deployments" | "services");
        if is_ours && is_child {
            // An outdated list does not extend the time: the resource is read first.
            let is_event = |fault: &Fault| matches!(fault, Fault::Event(..));
            let unknown = if plan.faults.iter().any(is_event) {
                UNKNOWN_WHEN_HELD
            } else {
                UNKNOWN
            };
            let stored = (stored, unknown);
            child_written(plan, outcome, &objects, stored, &mut applied, add);
        }
        if stored.by == "delete" && is_child {
            child_deleted(plan, outcome, index, add);
        }
        if is_ours && stored.id == id && stored.change == Change::Modified {
            status_written(plan, outcome, &objects, index, unknown, add);
        }
        if stored.id == id && stored.change != Change::Deleted {
            let spec = hash_of_spec(&resource(plan, &stored.object).spec);
            let uid = stored.object["metadata"]["uid"].to_string();
            applied.specs.push((uid, spec));
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

/// The specs for which children were written.
#[derive(Default)]
struct Applied {
    /// Uid and spec of each state of the resource, in order.
    specs: Vec<(String, Hash)>,
    /// By owner and type of the child: the latest applied generation, and the latest state with the spec that
    /// was applied.
    latest: BTreeMap<String, (i64, usize)>,
}

/// A child is created for a living owner, once, and never for an older generation or spec than before.
fn child_written(
    plan: &Plan,
    outcome: &Outcome,
    objects: &Objects,
    (stored, unknown): (&Stored, Duration),
    applied: &mut Applied,
    add: &mut Add<'_>,
) {
    let owner = stored.object["metadata"]["ownerReferences"][0]["uid"].as_str();
    let owner = owner.unwrap_or_default().to_owned();
    let plural = &stored.id.plural;
    if stored.change == Change::Added {
        // The deletion of an owner may be unknown for the time of a request.
        let died = outcome
            .log
            .iter()
            .find(|it| it.change == Change::Deleted && it.object["metadata"]["uid"] == *owner);
        let age = died.filter(|died| died.revision < stored.revision);
        let is_late = age.is_some_and(|died| stored.at - died.at > unknown);
        if is_late {
            let what = format!("{plural} created for the owner {owner}, which is deleted");
            add("O3", what);
        }
    }
    if let Some(before) = objects.get(&stored.id)
        && before["metadata"]["ownerReferences"][0]["uid"] != *owner
    {
        let before = &before["metadata"]["ownerReferences"][0]["uid"];
        let lives = |it: &Arc<Value>| it["metadata"]["uid"] == *before;
        // There is no apply that only creates: a manager that has not heard of the child of a deleted resource
        // may give it to the next resource of the same name.
        if !is_outdated(plan) || objects.values().any(lives) {
            add("O6", format!("{plural} taken from another owner"));
        }
    }
    let Some(stamp) = Stamp::of(&stored.object, BRAND.applied) else {
        return add("O6", format!("{plural} written without a stamp"));
    };
    let of_spec = (json!(owner).to_string(), stamp.spec);
    let state = applied.specs.iter().rposition(|it| *it == of_spec);
    let Some(state) = state else {
        return add("O6", format!("{plural} written for a spec that never was"));
    };
    let highest = applied.latest.entry(format!("{owner} {plural}"));
    let (generation, highest) = highest.or_default();
    if stamp.generation < *generation || state < *highest {
        let written = format!("generation {}, state {state}", stamp.generation);
        let what = format!("{plural} written for {written} after {generation}, {highest}");
        add("O6", what);
    }
    (*generation, *highest) = (stamp.generation.max(*generation), state.max(*highest));
}

/// Whether the first lists of children are outdated, but not that of the resources.
fn is_outdated(plan: &Plan) -> bool {
    plan.faults
        .iter()
        .any(|it| matches!(it, Fault::Restart(_, View::List(Outdated::Children, _))))
}

/// Only a Service that the spec does not want is deleted.
fn child_deleted(plan: &Plan, outcome: &Outcome, index: usize, add: &mut Add<'_>) {
    let stored = &outcome.log[index];
    if stored.id.plural != "services" {
        return add("O3", format!("{} deleted", stored.id.plural));
    }
    // All specs in the time for which the manager may have an outdated one.
    let versions = outcome.log[..index].iter().rev();
    let versions = versions.filter(|it| it.id == plan.subject().id());
    let mut next = stored.at;
    for version in versions {
        let asks = version.change != Change::Deleted
            && desired(plan, &version.object)
                .iter()
                .any(|child| child.kind == SERVICE);
        if !asks {
            return;
        }
        next = version.at.min(next);
        if stored.at - next > UNKNOWN {
            break;
        }
    }
    let what = "a Service deleted that the resource asks for";
    add("O3", what.to_owned());
}

/// O7 and O10: a status reports the actual state.
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
            let what = format!("the time of {} moved without it", condition["type"]);
            add("O7", what);
        }
    }
    let is_ready = ready(&stored.object).is_some_and(|it| it["status"] == "True");
    let observed = &stored.object["status"]["observedGeneration"];
    if !is_ready || is_paused(&stored.object) {
        return;
    }
    let latest = &stored.object["metadata"]["generation"];
    if observed != latest {
        let what = format!("generation {observed} told of {latest}");
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
    // Recent changes of other writers may be unknown: revert them one by one.
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
    let what = format!("Ready=True of generation {observed}, but {what}");
    add("O10", what);
}
