//! What must hold after every scenario, whatever its fault was. The numbers are those of the
//! oracles in CONTRIBUTING.md, "Faults". An oracle returns what is wrong and does not panic,
//! so that one violation hides no other.

pub(crate) mod budget;
pub(crate) mod end_state;
pub(crate) mod ownership;
pub(crate) mod process;
pub(crate) mod rest;
pub(crate) mod retries;
pub(crate) mod status;
#[cfg(test)]
mod tests;
pub(crate) mod writers;

use std::collections::BTreeMap;
use std::time::Duration;

use faultproxy::{Entry, Journal, Target};
use serde_json::Value;

use crate::rig::Rig;
use crate::trusted;
use crate::workload::Children;
use testkit::{DEPLOYMENT, ELASTIC_WEB, HELLO_WORLD, MEMCACHED, NGINX, SERVICE, TestEnv};

/// Something that must not be.
#[derive(Debug, Clone)]
pub(crate) struct Violation {
    /// O1 to O10.
    pub(crate) oracle: &'static str,
    pub(crate) what: String,
}

pub(crate) fn violation(oracle: &'static str, what: impl Into<String>) -> Violation {
    Violation {
        oracle,
        what: what.into(),
    }
}

/// What an undisturbed run of the same workload comes to.
#[derive(Debug, Clone)]
pub(crate) struct Reference {
    pub(crate) end_state: end_state::EndState,
    pub(crate) costs: budget::Costs,
}

impl Reference {
    /// Of a rig at rest.
    pub(crate) async fn of(rig: &Rig) -> Self {
        Reference {
            end_state: end_state::EndState::of(&rig.stage, rig.node_port).await,
            costs: budget::Costs::of(&rig.proxy.journal()),
        }
    }
}

/// Every object that concerns the operators, by plural and name.
async fn stored(stage: &TestEnv) -> BTreeMap<String, Value> {
    let mut objects = BTreeMap::new();
    for kind in [
        MEMCACHED,
        NGINX,
        ELASTIC_WEB,
        HELLO_WORLD,
        DEPLOYMENT,
        SERVICE,
    ] {
        for object in stage.list(kind).await {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            objects.insert(format!("{} {name}", kind.plural), object);
        }
    }
    objects
}

/// Every oracle. Takes `hold` and a moment.
pub(crate) async fn check(rig: &mut Rig, reference: &Reference, hold: Duration) -> Vec<Violation> {
    let mut violations = Vec::new();
    if rig.converged.is_none() {
        violations.push(violation("O1", "not as asked for in time"));
    }
    violations.extend(rest::holds(rig, hold).await);
    let journal = rig.proxy.journal();
    if journal.left_out > 0 {
        violations.push(violation(
            "O5",
            format!("{} more than fit", journal.left_out),
        ));
    }
    let children = Children::of(&rig.stage).await;
    let costs = budget::Costs::of(&journal);
    violations.extend(end_state::differences(rig, reference).await);
    violations.extend(budget::destroyed(&costs, &reference.costs));
    if rig.elects {
        violations.extend(writers::overlaps(&journal));
    }
    violations.extend(budget::spent(
        &costs,
        &reference.costs,
        rig.ends.len() + rig.allowance,
        &journal,
    ));
    violations.extend(retries::too_many(&journal));
    violations.extend(ownership::wrong(rig, &children).await);
    violations.extend(status::untrue(rig, &children).await);
    violations.extend(ready_too_early(rig).await);
    violations.extend(process::unwell(rig));
    violations
}

/// O10: when a status said `Ready=True`, the children were stored as its generation asks.
async fn ready_too_early(rig: &Rig) -> Vec<Violation> {
    let log = match &rig.private {
        Some(private) => private.cluster.audit_log(),
        None => rig.stage.audit_log().to_owned(),
    };
    let namespace = rig.stage.namespace.clone();
    // Seconds for the log of a whole run, in which the proxies of the other scenarios must go on.
    let checking = tokio::task::spawn_blocking(move || {
        let report = trusted::check_namespace(&log, &namespace);
        report.print(&namespace);
        report
    });
    let report = checking.await.expect("no panic");
    let found = report.violations.into_iter();
    found.map(|what| violation("O10", what)).collect()
}

/// The requests for which `is_wanted` that are about one object, by resource and name.
fn by_object_if(
    journal: &Journal,
    is_wanted: impl Fn(&Target) -> bool,
) -> BTreeMap<(String, String), Vec<&Entry>> {
    let mut by_object: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for entry in &journal.requests {
        let target = &entry.target;
        if !target.name.is_empty() && is_wanted(target) {
            let key = (target.resource.clone(), target.name.clone());
            by_object.entry(key).or_default().push(entry);
        }
    }
    by_object
}

/// Requests about one object, but for watches and lists, by resource and name.
pub(crate) fn by_object(journal: &Journal) -> BTreeMap<(String, String), Vec<&Entry>> {
    by_object_if(journal, |it| !matches!(it.verb, "watch" | "list"))
}
