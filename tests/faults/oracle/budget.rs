//! O3 and O5: what was created, deleted and written, counted for each object and held against
//! an undisturbed run. O3: no creation more or less, and no deletion but that of a Service
//! which nobody asks for any more. O5: a fault costs what it costs, and no more.

use std::collections::BTreeMap;
use std::time::Duration;

use faultproxy::{Entry, Journal, Target, WatchEvent};

use super::{Violation, by_object, violation};

/// What one object cost.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cost {
    creations: usize,
    deletions: usize,
    /// Writes that the API server obeyed, and reads that it answered.
    writes: usize,
    reads: usize,
    /// Requests of which nobody knows whether they were obeyed.
    unknown: usize,
    /// Requests that went wrong, whoever made it so.
    faults: usize,
}

/// What each object cost, by resource and name.
#[derive(Debug, Clone)]
pub(crate) struct Costs(BTreeMap<(String, String), Cost>);

impl Costs {
    pub(crate) fn of(journal: &Journal) -> Self {
        let mut costs = BTreeMap::new();
        for ((resource, name), entries) in by_object(journal) {
            let is_ours = !resource.starts_with("events") && resource != "leases";
            if !is_ours || resource.starts_with('/') {
                continue;
            }
            let mut cost = Cost::default();
            for entry in entries {
                let is_write = entry.target.is_write();
                cost.faults += usize::from(entry.is_failure());
                match (entry.sent, entry.committed) {
                    (Some(_), None) => cost.unknown += 1,
                    (_, Some((code, _))) if code < 300 => {
                        cost.creations += usize::from(code == 201);
                        cost.deletions += usize::from(entry.target.verb.starts_with("delete"));
                        cost.writes += usize::from(is_write);
                        cost.reads += usize::from(!is_write);
                    }
                    _ => {}
                }
            }
            costs.insert((resource, name), cost);
        }
        Costs(costs)
    }

    fn of_object(&self, key: &(String, String)) -> Cost {
        self.0.get(key).copied().unwrap_or_default()
    }

    pub(crate) fn writes(&self) -> usize {
        self.0.values().map(|cost| cost.writes).sum()
    }
}

/// O5: after a 429, the process writes nothing to that object or its children before the `Retry-After` has
/// passed.
pub(crate) fn early(journal: &Journal, retry_after: Duration) -> Vec<Violation> {
    let writes = || {
        let requests = journal.requests.iter();
        requests.filter(|it| it.target.is_write())
    };
    let refused = writes().filter(|it| it.is_met && it.answered == Some(429));
    let mut violations = Vec::new();
    for (user, from) in refused.filter_map(|it| Some((&it.user, it.ended?))) {
        let is_early = |it: &&Entry| {
            it.user == *user && it.began > from && it.began.duration_since(from) < retry_after
        };
        for entry in writes().filter(is_early) {
            let after = entry.began.duration_since(from);
            let what = format!(
                "{:?} {after:.1?} after a 429 of {retry_after:?}",
                entry.target
            );
            violations.push(violation("O5", what));
        }
    }
    violations
}

/// O3.
pub(crate) fn destroyed(costs: &Costs, reference: &Costs) -> Vec<Violation> {
    let keys = costs.0.keys().chain(reference.0.keys());
    let keys: std::collections::BTreeSet<_> = keys.collect();
    let mut violations = Vec::new();
    for key in keys {
        let (cost, expected) = (costs.of_object(key), reference.of_object(key));
        let (least, most) = (expected.creations, cost.creations + cost.unknown);
        if cost.creations > expected.creations || most < least {
            let what = format!("{key:?} created {} times, not {least}", cost.creations);
            violations.push(violation("O3", what));
        }
        let may_go = key.0 == "services" && expected.deletions > 0;
        if cost.deletions > expected.deletions || (cost.deletions > 0 && !may_go) {
            violations.push(violation(
                "O3",
                format!("{key:?} deleted {} times", cost.deletions),
            ));
        }
    }
    violations
}

/// O5. `more` writes of each object are accounted for otherwise: by managers that ended, of
/// which each next one looks at everything once.
pub(crate) fn spent(
    costs: &Costs,
    reference: &Costs,
    more: usize,
    journal: &Journal,
) -> Vec<Violation> {
    let lists = journal.requests.iter().map(|entry| &entry.target);
    let is_of_all = |target: &&Target| target.verb == "list" && target.name.is_empty();
    let lists = lists.filter(|it| is_of_all(it) && it.resource == "deployments");
    let lists = lists.count();
    let mut violations = Vec::new();
    for (key, cost) in &costs.0 {
        let expected = reference.of_object(key);
        // A fault of one object makes the resource's others be looked at again.
        let of_resource = |(_, name): &(String, String)| *name == key.1;
        let faults: usize = costs
            .0
            .iter()
            .filter(|(key, _)| of_resource(key))
            .map(|(_, cost)| cost.faults)
            .sum();
        // A status is written at most once for what a watch or a list told of the Deployment.
        let is_status = key.0.ends_with("/status");
        let told = |event: &&WatchEvent| event.resource == "deployments" && event.name == key.1;
        let news = match is_status {
            true => journal.events.iter().filter(told).count() + lists,
            false => 0,
        };
        if cost.writes > expected.writes + faults + more + news {
            let what = format!(
                "{key:?} written {} times; {} without a fault, and {faults} went wrong",
                cost.writes, expected.writes
            );
            violations.push(violation("O5", what));
        }
        if cost.reads > expected.reads + faults + more {
            violations.push(violation(
                "O5",
                format!("{key:?} read {} times", cost.reads),
            ));
        }
    }
    violations
}
