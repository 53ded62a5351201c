//! The oracles over what a plan came to, each held against the undisturbed runs of the same step
//! of the same kind.

use std::collections::BTreeMap;

use faultproxy::{Journal, Target};
use serde_json::Value;

use super::fleet::Fleet;
use super::life::Step;
use super::live::Lived;
use super::plan::{Fault, RETRY_AFTER, Traffic};
use crate::oracle::budget::{self, Costs};
use crate::oracle::end_state::{self, EndState};
use crate::oracle::{Violation, ownership, process, rest, retries, status, violation};
use crate::trusted;
use crate::workload::Children;
use testkit::{DEPLOYMENT, SERVICE};

/// What every resource is called when it is compared with that of another plan.
const NAME: &str = "it";

/// What undisturbed runs of a step come to.
#[derive(Clone)]
pub(crate) struct Reference {
    end_state: EndState,
    costs: Costs,
    pub(crate) traffic: Traffic,
}

impl Reference {
    pub(crate) fn of(lived: &Lived, journal: &Journal) -> Self {
        let (from, until) = (lived.from, lived.rest_from);
        Reference {
            end_state: end_state(lived),
            costs: Costs::of(&of_this(journal, lived)),
            traffic: Traffic::of(journal, &lived.name, from, until),
        }
    }

    /// Takes over what this and another run have in common; returns where they end otherwise.
    pub(crate) fn narrow(&mut self, other: &Reference) -> Vec<Violation> {
        self.traffic = self.traffic.and(&other.traffic);
        end_state::differ(&other.end_state, &self.end_state)
    }
}

/// What is wrong with this plan.
pub(crate) fn of_plan(
    lived: &Lived,
    reference: &Reference,
    journal: &Journal,
    ended: usize,
) -> Vec<Violation> {
    let journal = of_this(journal, lived);
    let mut violations = lived.violations.clone();
    let mut at_rest = journal.clone();
    at_rest.requests.retain(|entry| entry.target.name == NAME);
    violations.extend(rest::asked(&at_rest, lived.rest_from));
    violations.extend(end_state::differ(&end_state(lived), &reference.end_state));
    let costs = Costs::of(&journal);
    violations.extend(budget::destroyed(&costs, &reference.costs));
    // What a watch tells late may be taken for undone once.
    let is_late = matches!(
        lived.plan.fault,
        Fault::Held | Fault::Stale | Fault::Delayed
    );
    let more = ended + usize::from(is_late);
    violations.extend(budget::spent(&costs, &reference.costs, more, &journal));
    // A new resource of that name is another object.
    if lived.plan.step != Step::Replace {
        violations.extend(budget::early(&journal, RETRY_AFTER));
    }
    let uid = lived.stored.resource.iter();
    let living = uid.map(|it| it["metadata"]["uid"].to_string()).collect();
    let children = Children {
        deployments: lived.stored.deployment.iter().cloned().collect(),
        services: lived.stored.service.iter().cloned().collect(),
    };
    violations.extend(ownership::controllers(&living, &children));
    if let Some(resource) = &lived.stored.resource {
        let deployment = lived.stored.deployment.as_ref();
        violations.extend(status::of_resource(resource, deployment));
    }
    if journal.left_out > 0 {
        violations.push(violation("O5", "more requests than fit into the journal"));
    }
    violations
}

/// What is wrong with the manager, or with anything whose plan is in the text.
pub(crate) async fn of_fleet(fleet: &Fleet, journal: &Journal, may_grow: bool) -> Vec<Violation> {
    // Whether it may have ended is noted, and told below.
    fleet.keep_running();
    let mut violations = fleet.statuses.wrong();
    let stranger = fleet.stranger_now().await;
    violations.extend(ownership::changed(&fleet.stranger, &stranger));
    violations.extend(retries::too_many(journal));
    violations.extend(process::judge(&fleet.seen(may_grow)));
    violations
}

/// O10, of everything at once: the log is long, and reading it takes a thread of its own.
pub(crate) async fn ready_too_early() -> Vec<Violation> {
    let environment = devcluster::Environment::from_variables();
    let log = environment.expect("a cluster around the tests").audit_log;
    let checked = tokio::task::spawn_blocking(move || trusted::check(&log));
    let report = checked.await.expect("no panic");
    report.print("plans");
    let found = report.violations.into_iter();
    found.map(|what| violation("O10", what)).collect()
}

/// What concerns one plan until it was at rest, under a name that all plans have; besides it, the
/// lists and watches, which are everybody's.
fn of_this(journal: &Journal, lived: &Lived) -> Journal {
    let prefix = format!("{}-", lived.name);
    let is_stream = |target: &Target| matches!(target.verb, "list" | "watch");
    let mut requests = Vec::new();
    for entry in &journal.requests {
        let is_this = entry.target.name == lived.name;
        if entry.began <= lived.rest_until && (is_this || is_stream(&entry.target)) {
            let mut entry = entry.clone();
            if is_this {
                entry.target.name = NAME.to_owned();
            }
            requests.push(entry);
        }
    }
    let events = journal.events.iter();
    let events = events.filter(|it| it.name == lived.name || it.name.starts_with(&prefix));
    let events = events.cloned().map(|mut event| {
        event.name = event.name.replacen(&lived.name, NAME, 1);
        event
    });
    let events = events.collect();
    Journal {
        requests,
        events,
        left_out: journal.left_out,
    }
}

fn end_state(lived: &Lived) -> EndState {
    let stored = &lived.stored;
    let kind = lived.plan.kind.plural;
    let objects = [
        (kind, &stored.resource),
        (DEPLOYMENT.plural, &stored.deployment),
        (SERVICE.plural, &stored.service),
    ];
    let mut found = BTreeMap::new();
    for (plural, object) in objects {
        if let Some(object) = object {
            found.insert(format!("{plural} {NAME}"), renamed(object, lived));
        }
    }
    EndState::from_objects(found, 0)
}

/// With the name and the NodePorts that all plans have.
fn renamed(object: &Value, lived: &Lived) -> Value {
    let (port, other) = (lived.node_port, lived.node_port + 1);
    let text = object.to_string().replace(&lived.name, NAME);
    let text = text.replace(&port.to_string(), "30000");
    let text = text.replace(&other.to_string(), "30001");
    serde_json::from_str(&text).expect("JSON")
}
