//! O6: every child has one controller, which lives, and in the same namespace; what is a
//! stranger's is as it was.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Violation, violation};
use crate::rig::{Rig, STRANGER};
use crate::workload::{self, Children};
use testkit::DEPLOYMENT;

pub(crate) async fn wrong(rig: &Rig, children: &Children) -> Vec<Violation> {
    let mut uids = BTreeSet::new();
    for wanted in workload::wanted(rig.workload.end(), rig.node_port) {
        let resource = rig.stage.get(wanted.kind, wanted.name).await;
        let uid = resource.map(|it| it["metadata"]["uid"].to_string());
        uids.extend(uid);
    }
    let stranger = rig.stage.get(DEPLOYMENT, STRANGER).await;
    let mut violations = controllers(&uids, children);
    violations.extend(changed(&rig.stranger, &stranger.unwrap_or_default()));
    violations
}

/// Children that are not controlled by exactly one of these, which live.
pub(crate) fn controllers(living: &BTreeSet<String>, children: &Children) -> Vec<Violation> {
    let mut violations = Vec::new();
    for child in children.deployments.iter().chain(&children.services) {
        let metadata = &child["metadata"];
        if metadata["name"] == STRANGER {
            continue;
        }
        let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
        let controllers: Vec<&Value> = owners.filter(|owner| owner["controller"] == true).collect();
        let is_right = match controllers[..] {
            [owner] => living.contains(&owner["uid"].to_string()),
            _ => false,
        };
        if !is_right {
            let what = format!(
                "{} {} is controlled by {controllers:?}",
                child["kind"], metadata["name"]
            );
            violations.push(violation("O6", what));
        }
    }
    violations
}

/// The stranger's object has been written.
pub(crate) fn changed(before: &Value, after: &Value) -> Vec<Violation> {
    let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
    let what = || format!("a stranger's Deployment has changed: {after}");
    let has_changed = version(before) != version(after) || version(before).is_null();
    let found = has_changed.then(|| violation("O6", what()));
    found.into_iter().collect()
}
