//! O6: every child has one controller, which lives, and in the same namespace; what is a
//! stranger's is as it was.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Violation, violation};
use crate::harness::DEPLOYMENT;
use crate::rig::Rig;
use crate::workload::{self, Children};

pub(crate) async fn wrong(rig: &Rig, children: &Children) -> Vec<Violation> {
    let mut uids = BTreeSet::new();
    for wanted in workload::wanted(rig.workload.end(), rig.node_port) {
        let resource = rig.stage.get(wanted.kind, wanted.name).await;
        let uid = resource.map(|it| it["metadata"]["uid"].to_string());
        uids.extend(uid);
    }
    let mut violations = Vec::new();
    for child in children.deployments.iter().chain(&children.services) {
        let metadata = &child["metadata"];
        if metadata["name"] == "stranger" {
            continue;
        }
        let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
        let controllers: Vec<&Value> = owners.filter(|owner| owner["controller"] == true).collect();
        let is_right = match controllers[..] {
            [owner] => uids.contains(&owner["uid"].to_string()),
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
    let stranger = rig
        .stage
        .get(DEPLOYMENT, "stranger")
        .await
        .unwrap_or_default();
    if stranger["metadata"]["resourceVersion"] != rig.stranger["metadata"]["resourceVersion"] {
        violations.push(violation(
            "O6",
            format!("a stranger's Deployment has changed: {stranger}"),
        ));
    }
    violations
}
