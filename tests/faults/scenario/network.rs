//! F13 and F14: the whole network: gone, slow, or losing some of what is sent.

use std::time::Duration;

use faultproxy::{Action, Match, Rule};
use futures::FutureExt as _;
use tokio::time::{Instant, sleep};

use super::Scenario;
use crate::rig::Rig;
use crate::workload::Workload::{Change, Create, Replace};

/// A leader without API server ends after the renew deadline of 10 s: twice that.
const LEADER_ENDS_WITHIN: Duration = Duration::from_secs(20);

pub(super) fn scenarios() -> Vec<Scenario> {
    let mut all = Vec::new();
    for workload in [Create, Change, Replace] {
        all.push(Scenario::new(
            "F14",
            "200 ms ± 100 ms, and the first patch and one request in twenty are reset",
            workload,
            |rig| {
                async move {
                    let wait =
                        Action::Delay(Duration::from_millis(100), Duration::from_millis(300));
                    let loss = Rule::new(Match::all(), Action::Reset).one_in(20);
                    let lost = Rule::new(Match::all(), Action::Reset)
                        .one_in(20)
                        .after_commit();
                    // A run may have so few requests that chance spares all.
                    let first = Rule::new(Match::verbs(&["patch"]), Action::Reset).nth(1..=1);
                    let rules = [Rule::new(Match::all(), wait), loss, lost, first];
                    let rules = rules.map(|rule| rig.proxy.install(rule));
                    rig.work().await;
                    rig.converge_within(Duration::from_secs(50)).await;
                    let made = rules.each_ref().map(faultproxy::Installed::took_effect);
                    assert!(made[0] > 0 && made[3] == 1, "the test bites: {made:?}");
                    // Rest has no errors in it.
                    rig.proxy.clear();
                }
                .boxed()
            },
        ));
        all.push(Scenario::new(
            "F14",
            "answers come in at 64 kbit/s",
            workload,
            |rig| {
                async move {
                    let slow = Rule::new(
                        Match::verbs(&["get", "list", "create", "update", "patch"]),
                        Action::Slow(8000),
                    );
                    let slow = rig.proxy.install(slow);
                    rig.proxy
                        .install(Rule::new(Match::watches(), Action::Reset).nth(1..=7));
                    rig.work().await;
                    rig.converge_within(Duration::from_secs(50)).await;
                    assert!(slow.took_effect() > 0, "the test bites");
                    rig.proxy.clear();
                }
                .boxed()
            },
        ));
    }
    all.push(
        Scenario::new(
            "F13",
            "the network is gone for 3 s, and every connection dead",
            Change,
            |rig| gone(rig, Duration::from_secs(3)).boxed(),
        )
        .without_election()
        .short(),
    );
    all.push(
        Scenario::new("F13", "the network is gone for 6 minutes", Change, |rig| {
            gone(rig, Duration::from_secs(360)).boxed()
        })
        .without_election(),
    );
    for long in [30, 360] {
        let name = format!("the network is gone for {long} s, and with it the lease");
        all.push(Scenario::new("F13", name, Change, move |rig| {
            demoted(rig, Duration::from_secs(long)).boxed()
        }));
    }
    all
}

async fn gone(rig: &mut Rig, long: Duration) {
    rig.proxy.cut();
    rig.work().await;
    sleep(long).await;
    rig.proxy.mend();
    // Dead watches are noticed within a minute; then calls on dead connections have ten seconds.
    rig.converge_within(Duration::from_secs(80)).await;
}

async fn demoted(rig: &mut Rig, long: Duration) {
    let began = Instant::now();
    rig.proxy.cut();
    rig.work().await;
    let took = rig.ends_and_is_started_again(LEADER_ENDS_WITHIN).await;
    println!("a leader without API server ended after {took:.1?} (promised: 10 s)");
    rig.may_end = true;
    sleep(long.saturating_sub(began.elapsed())).await;
    rig.proxy.mend();
    rig.converge_within(Duration::from_secs(60)).await;
}
