//! O1, the second half: once all is as asked for, nothing is written or read any more, and
//! nothing changes.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use faultproxy::Journal;
use serde_json::Value;
use tokio::time::Instant;

use super::{Violation, stored, violation};
use crate::rig::Rig;
use testkit::{Limit, POLL, TestEnv};

/// From when on there is rest on an idle machine: the last status may wait for half a second, and
/// the last pods go away a moment later.
const SETTLES: Duration = Duration::from_secs(2);

/// Resource versions of what concerns the operators, by plural and name.
async fn versions(stage: &TestEnv) -> BTreeMap<String, Value> {
    let version =
        |(key, object): (String, Value)| (key, object["metadata"]["resourceVersion"].clone());
    stored(stage).await.into_iter().map(version).collect()
}

pub(crate) async fn holds(rig: &mut Rig, hold: Duration) -> Vec<Violation> {
    let mut settles = Limit::new(SETTLES);
    while !settles.is_over() {
        tokio::time::sleep(POLL).await;
    }
    let before = versions(&rig.stage).await;
    let begin = Instant::now();
    tokio::time::sleep(hold).await;
    let after = versions(&rig.stage).await;
    let mut violations = changed(&before, &after);
    violations.extend(asked(&rig.proxy.journal(), begin));
    violations
}

/// What is stored is not the same any more.
pub(crate) fn changed<V: PartialEq + Debug>(before: &V, after: &V) -> Vec<Violation> {
    let what = || violation("O1", format!("no rest: {before:?}, later {after:?}"));
    (before != after).then(what).into_iter().collect()
}

/// Requests since `begin`, but for what goes on at rest.
pub(crate) fn asked(journal: &Journal, begin: Instant) -> Vec<Violation> {
    let mut violations = Vec::new();
    for entry in &journal.requests {
        let target = &entry.target;
        // Which version is stored is asked for beside the watches, with a back-off of its own,
        // after those are back; O5 counts how often.
        let is_discovery = target.resource.starts_with("/apis/");
        let is_usual = target.verb == "watch" || target.resource == "leases" || is_discovery;
        if entry.began >= begin && !is_usual {
            let after = entry.began.duration_since(begin);
            let what = format!(
                "asked for while at rest, {after:.1?} after its begin: {target:?} of {}, answered {:?}",
                entry.user, entry.answered
            );
            violations.push(violation("O1", what));
        }
    }
    violations
}
