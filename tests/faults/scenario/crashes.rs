//! F01 and F02: the manager is killed around one of its writes. The next one has to wait for
//! the lease to run out, and to make up for what is half done.

use std::time::Duration;

use faultproxy::{Action, Match, Rule, When};
use futures::FutureExt as _;

use super::Scenario;
use crate::rig::Rig;
use crate::workload::Workload::{self, Change, Create, Replace};

/// A lease, and what a restart adds.
const NEXT_LEADS_WITHIN: Duration = Duration::from_secs(20);

pub(super) fn scenarios() -> Vec<Scenario> {
    let mut all = Vec::new();
    let places: [(&str, u64, Workload); 9] = [
        ("deployments", 1, Create),
        ("deployments", 3, Create),
        ("services", 1, Create),
        ("memcacheds/status", 1, Create),
        ("deployments", 2, Change),
        ("services", 1, Change), // the deletion, or the apply beside it
        ("elasticwebs/status", 1, Change),
        ("deployments", 1, Replace),
        ("services", 2, Replace),
    ];
    for (resource, number, workload) in places {
        for when in [When::AfterCommit, When::BeforeCommit] {
            let (fault, told) = match when {
                When::AfterCommit => ("F01", "obeyed and not answered"),
                When::BeforeCommit => ("F02", "on its way"),
            };
            let name = format!("killed while write {number} of {resource} is {told}");
            let scenario = Scenario::new(fault, name, workload, move |rig| {
                killed(rig, Match::writes().of(resource), number, when).boxed()
            });
            let is_short = (fault, resource, workload) == ("F01", "services", Create);
            all.push(if is_short { scenario.short() } else { scenario });
        }
    }
    all
}

async fn killed(rig: &mut Rig, matches: Match, number: u64, when: When) {
    let rule = Rule::new(matches, Action::Run(rig.killer())).nth(number..=number);
    rig.proxy.install(match when {
        When::AfterCommit => rule.after_commit(),
        When::BeforeCommit => rule,
    });
    rig.work().await;
    rig.ends_and_is_started_again(Duration::from_secs(20)).await;
    rig.converge_within(NEXT_LEADS_WITHIN).await;
}
