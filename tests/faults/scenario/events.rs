//! F09 to F11: watches that tell late, twice, out of order between the kinds, or of the end
//! of a change only.

use std::time::Duration;

use faultproxy::{EventAction, EventRule, Match};
use futures::FutureExt as _;
use tokio::time::sleep;

use super::Scenario;
use crate::rig::Rig;
use crate::workload::Workload::{self, Change, Create, Replace};
use testkit::{DEADLINE, ELASTIC_WEB, HELLO_WORLD, Limit, MEMCACHED, NGINX};

/// Plurals of the four kinds.
const RESOURCES: [&str; 4] = ["memcacheds", "nginxes", "elasticwebs", "helloworlds"];

fn resources() -> Match {
    RESOURCES
        .iter()
        .fold(Match::watches(), |it, resource| it.of(resource))
}

fn children() -> Match {
    Match::watches().of("deployments").of("services")
}

pub(super) fn scenarios() -> Vec<Scenario> {
    let mut all = Vec::new();
    for workload in [Create, Change, Replace] {
        for (what, action) in [
            ("comes twice", EventAction::Duplicate),
            (
                "is followed by all that were before it",
                EventAction::Replay,
            ),
        ] {
            let is_short = workload == Replace && matches!(action, EventAction::Replay);
            let scenario =
                Scenario::new("F11", format!("every event {what}"), workload, move |rig| {
                    let action = action.clone();
                    async move {
                        let rule = rig
                            .proxy
                            .install_on_events(EventRule::new(Match::watches(), action));
                        rig.work().await;
                        rig.converge().await;
                        assert!(rule.took_effect() > 0, "the test bites");
                        // Others' events pass, too: each would bring back what is long gone,
                        // to be looked at once more, and there would be no rest.
                        rule.remove();
                    }
                    .boxed()
                });
            all.push(if is_short { scenario.short() } else { scenario });
        }
        for (fault, what, matches) in [
            ("F10", "children", children()),
            ("F10", "Deployments", Match::watches().of("deployments")),
            ("F10", "pods", Match::watches().of("pods")),
            ("F11", "resources", resources()),
        ] {
            let name = format!("events of {what} are held for 60 s");
            let held = matches.clone();
            let scenario = Scenario::new(fault, name, workload, move |rig| {
                hold(rig, held.clone(), Duration::from_secs(60)).boxed()
            });
            all.push(scenario.idle());
            if (what, workload) == ("children", Create) {
                let name = format!("events of {what} are held for 5 s");
                let scenario = Scenario::new(fault, name, workload, move |rig| {
                    hold(rig, matches.clone(), Duration::from_secs(5)).boxed()
                });
                all.push(scenario.short());
            }
        }
    }
    all.push(unobserved(
        "that a resource is gone, when its namesake is there",
        Replace,
        |rule| rule.only("DELETED"),
    ));
    all.push(scaled_and_back().short());
    all
}

async fn hold(rig: &mut Rig, matches: Match, long: Duration) {
    let rule = rig
        .proxy
        .install_on_events(EventRule::new(matches, EventAction::Hold));
    rig.work().await;
    sleep(long).await;
    assert!(rule.took_effect() > 0, "the test bites");
    // What the watch has not told of ten seconds after a list is taken for undone, and applied
    // once more; this is soon after the first list.
    rig.allowance = usize::try_from(long.as_secs() / 10).expect("small");
    rule.remove();
    rig.converge().await;
}

/// Events of resources that are never told; what comes after them is.
fn unobserved(what: &str, workload: Workload, which: fn(EventRule) -> EventRule) -> Scenario {
    Scenario::new(
        "F09",
        format!("it is never told {what}"),
        workload,
        move |rig| {
            async move {
                let rule = which(EventRule::new(resources(), EventAction::Drop));
                let rule = rig.proxy.install_on_events(rule);
                rig.work().await;
                rig.converge().await;
                assert!(rule.took_effect() >= 4, "the test bites");
            }
            .boxed()
        },
    )
}

/// The way there and the way back cancel each other out: only the end is told.
fn scaled_and_back() -> Scenario {
    Scenario::new(
        "F09",
        "it is never told that it was scaled, before it is told what is asked for",
        Change,
        |rig| {
            async move {
                let dropped = EventRule::new(resources(), EventAction::Drop).only("MODIFIED");
                let rule = rig.proxy.install_on_events(dropped);
                for (kind, field) in [
                    (MEMCACHED, "size"),
                    (NGINX, "count"),
                    (ELASTIC_WEB, "totalQPS"),
                    (HELLO_WORLD, "size"),
                ] {
                    for size in [7, 1] {
                        let name = kind.kind.to_lowercase();
                        let patch = serde_json::json!({"spec": {field: size}});
                        rig.stage.patch(kind, &name, patch).await.expect("patched");
                    }
                }
                // Every one of the eight has gone by.
                let mut limit = Limit::new(DEADLINE);
                while rule.took_effect() < 8 {
                    limit.pause(|| rule.took_effect()).await;
                }
                rule.remove();
                rig.work().await;
                rig.converge().await;
            }
            .boxed()
        },
    )
}
