//! F20: the Lease is deleted, given to somebody else, or may not be written.

use std::time::Duration;

use faultproxy::{Action, Match, Rule};
use futures::FutureExt as _;
use serde_json::json;

use super::Scenario;
use crate::rig::Rig;
use crate::workload::Workload::Change;
use testkit::{Kind, Limit};

const LEASE: Kind = Kind {
    api_version: "coordination.k8s.io/v1",
    kind: "Lease",
    plural: "leases",
};

const LEASE_NAME: &str = "quartet-operator.example.com";

/// A lease, and what a restart adds.
const NEXT_LEADS_WITHIN: Duration = Duration::from_secs(20);

/// Twice the renew deadline.
const ENDS_WITHIN: Duration = Duration::from_secs(20);

/// Until a Lease that was lost, or refused twice, is written: two periods of renewal.
const WRITTEN_WITHIN: Duration = Duration::from_secs(8);

pub(super) fn scenarios() -> Vec<Scenario> {
    let deleted = Scenario::new("F20", "the Lease is deleted", Change, |rig| {
        async move {
            rig.stage.delete(LEASE, LEASE_NAME).await;
            rig.work().await;
            rig.converge().await;
            let mut limit = Limit::new(WRITTEN_WITHIN);
            while rig.stage.get(LEASE, LEASE_NAME).await.is_none() {
                limit.pause(|| "there is no new Lease").await;
            }
        }
        .boxed()
    });
    let given = Scenario::new(
        "F20",
        "the Lease is given to somebody else",
        Change,
        |rig| {
            async move {
                let patch = json!({"spec": {"holderIdentity": "somebody"}});
                rig.stage
                    .patch(LEASE, LEASE_NAME, patch)
                    .await
                    .expect("patched");
                rig.ends_and_is_started_again(ENDS_WITHIN).await;
                rig.work().await;
                rig.converge_within(NEXT_LEADS_WITHIN).await;
            }
            .boxed()
        },
    );
    let mut all = vec![deleted.short(), given];
    for (what, action) in [
        (
            "answered 403",
            Action::status(403, "Forbidden", "made by a test"),
        ),
        (
            "answered 500",
            Action::status(500, "InternalError", "made by a test"),
        ),
        ("never answered", Action::BlackHole),
    ] {
        let name = format!("writes of the Lease are {what} until the leader ends");
        all.push(Scenario::new("F20", name, Change, move |rig| {
            not_renewed(rig, action.clone()).boxed()
        }));
    }
    all.push(Scenario::new(
        "F20",
        "two renewals in a row are answered 409",
        Change,
        |rig| {
            async move {
                let conflict = Action::status(409, "Conflict", "made by a test");
                let rule = Rule::new(Match::verbs(&["update"]).of("leases"), conflict).nth(1..=2);
                let rules = rig.work_in_spite_of(vec![rule]).await;
                let mut limit = Limit::new(WRITTEN_WITHIN);
                while rules.iter().any(|rule| rule.took_effect() < 2) {
                    limit.pause(|| "the test bites").await;
                }
            }
            .boxed()
        },
    ));
    all
}

async fn not_renewed(rig: &mut Rig, action: Action) {
    let rule = rig
        .proxy
        .install(Rule::new(Match::writes().of("leases"), action));
    rig.work().await;
    let took = rig.ends_and_is_started_again(ENDS_WITHIN).await;
    println!("a leader that could not renew ended after {took:.1?} (promised: 10 s)");
    assert!(rule.took_effect() > 0, "the test bites");
    rule.remove();
    rig.converge_within(NEXT_LEADS_WITHIN).await;
}
