//! F03 to F06: writes that are refused, or whose answer is lost.

use std::time::Duration;

use faultproxy::{Action, Match, Rule};
use futures::FutureExt as _;
use tokio::time::sleep;

use super::Scenario;
use crate::rig::{CONVERGES_WITHIN, Rig};
use crate::workload::Workload::{Change, Create, Replace};
use testkit::MEMCACHED;

/// What the manager writes of the four resources, besides Events and its lease.
pub(super) const WRITTEN: [&str; 6] = [
    "deployments",
    "services",
    "memcacheds/status",
    "nginxes/status",
    "elasticwebs/status",
    "helloworlds/status",
];

/// The four by their names.
pub(super) const NAMES: [&str; 4] = ["memcached", "nginx", "elasticweb", "helloworld"];

/// For each object that is written: the first writes of it meet this, or a range of them.
fn first_writes(
    resources: &[&str],
    of_each: u64,
    action: &Action,
    after_commit: bool,
) -> Vec<Rule> {
    let objects = resources
        .iter()
        .flat_map(|resource| NAMES.map(|name| (resource, name)));
    let rules = objects.map(|(resource, name)| {
        let rule = Rule::new(Match::writes().of(resource).named(name), action.clone());
        let rule = rule.nth(1..=of_each);
        if after_commit {
            rule.after_commit()
        } else {
            rule
        }
    });
    rules.collect()
}

/// All that is written, but for the lease.
pub(super) fn all_writes() -> Match {
    WRITTEN
        .iter()
        .fold(Match::writes(), |it, resource| it.of(resource))
}

fn failure(code: u16) -> Action {
    let reason = match code {
        403 => "Forbidden",
        409 => "Conflict",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "InternalError",
    };
    match code {
        429 => Action::retry_after(code, reason, 1),
        _ => Action::status(code, reason, "made by a test"),
    }
}

async fn in_spite_of(rig: &mut Rig, rules: Vec<Rule>, promised: Duration) {
    let installed: Vec<_> = rules
        .into_iter()
        .map(|rule| rig.proxy.install(rule))
        .collect();
    rig.work().await;
    rig.converge_within(promised).await;
    let met: u64 = installed
        .iter()
        .map(faultproxy::Installed::took_effect)
        .sum();
    assert!(met > 0, "the test bites");
}

pub(super) fn scenarios() -> Vec<Scenario> {
    let mut all = Vec::new();
    for workload in [Create, Change, Replace] {
        for code in [500, 503, 504, 429, 409] {
            let name = format!("the first write of each object is answered {code}");
            let scenario = Scenario::new(
                if code == 409 { "F05" } else { "F04" },
                name,
                workload,
                move |rig| {
                    in_spite_of(
                        rig,
                        first_writes(&WRITTEN, 1, &failure(code), false),
                        CONVERGES_WITHIN,
                    )
                    .boxed()
                },
            );
            all.push(if code == 500 && workload == Create {
                scenario.short()
            } else {
                scenario
            });
        }
        // Of one resource at a time, since each failure doubles the wait before the next.
        for (what, resources) in [
            ("Deployment", &WRITTEN[..1]),
            ("Service", &WRITTEN[1..2]),
            ("status", &WRITTEN[2..]),
        ] {
            for (fault, times, code) in [("F04", 5, 503), ("F05", 10, 409)] {
                let name = format!("the first {times} writes of each {what} are answered {code}");
                // A conflict of a status waits a second for the event of the other change.
                let conflicts = if (what, code) == ("status", 409) {
                    times
                } else {
                    0
                };
                let promised = CONVERGES_WITHIN + Duration::from_secs(conflicts);
                let scenario = Scenario::new(fault, name, workload, move |rig| {
                    let rules = first_writes(resources, times, &failure(code), false);
                    in_spite_of(rig, rules, promised).boxed()
                });
                let is_short = (what, times, workload) == ("Deployment", 10, Change);
                all.push(if is_short { scenario.short() } else { scenario });
            }
        }
        for (what, action) in [
            ("is obeyed, and the connection reset", Action::Reset),
            ("is obeyed, and answered 504", failure(504)),
            ("is obeyed, and never answered", Action::BlackHole),
        ] {
            let name = format!("the first write of each object {what}");
            let is_short = matches!(action, Action::Reset) && workload == Replace;
            let is_silent = matches!(action, Action::BlackHole);
            let scenario = Scenario::new("F03", name, workload, move |rig| {
                let rules = first_writes(&WRITTEN, 1, &action, true);
                async move {
                    // A call is given up after ten seconds, and each resource makes up to three.
                    let promised = if is_silent { 40 } else { 10 };
                    in_spite_of(rig, rules, Duration::from_secs(promised)).await;
                }
                .boxed()
            });
            all.push(if is_short { scenario.short() } else { scenario });
        }
        let name = "the first write of each object is lost with its connection";
        all.push(Scenario::new("F03", name, workload, |rig| {
            in_spite_of(
                rig,
                first_writes(&WRITTEN, 1, &Action::Reset, false),
                CONVERGES_WITHIN,
            )
            .boxed()
        }));
    }
    all.push(Scenario::new(
        "F04",
        "the first write of each object is answered 429 for 30 s",
        Create,
        |rig| {
            let busy = Action::retry_after(429, "TooManyRequests", 30);
            // Each resource makes up to three kinds of writes, and each is asked to wait.
            let promised = 3 * Duration::from_secs(30) + CONVERGES_WITHIN;
            in_spite_of(rig, first_writes(&WRITTEN, 1, &busy, false), promised).boxed()
        },
    ));
    for (fault, code, workload) in [
        ("F04", 503, Create),
        ("F04", 429, Change),
        ("F06", 403, Change),
    ] {
        let name = format!("every write is answered {code} for 60 s");
        let scenario = Scenario::new(fault, name, workload, move |rig| {
            for_a_time(rig, all_writes(), failure(code), Duration::from_secs(60)).boxed()
        });
        all.push(scenario.idle());
    }
    let name = "every apply is answered 403 for 5 s, and every read with it";
    let scenario = Scenario::new("F06", name, Create, |rig| {
        let matches = Match::verbs(&["patch", "get"])
            .of("deployments")
            .of("services");
        async move {
            let rule = rig.proxy.install(Rule::new(matches, failure(403)));
            rig.work().await;
            let (stage, reason) = (&rig.stage, "ApplyRefused");
            stage.until_degraded(MEMCACHED, "memcached", reason).await;
            sleep(Duration::from_secs(5)).await;
            rule.remove();
            // A right that is missing is asked for every 15 s, give or take a fifth.
            rig.converge_within(Duration::from_secs(20)).await;
        }
        .boxed()
    });
    all.push(scenario.short());
    let name = "the deletion of a Service is answered 403 for 60 s";
    let scenario = Scenario::new("F06", name, Change, |rig| {
        let matches = Match::verbs(&["delete"]).of("services");
        for_a_time(rig, matches, failure(403), Duration::from_secs(60)).boxed()
    });
    all.push(scenario.idle());
    all
}

/// A fault that is there for a while. Afterwards the next try may be as far off as the fault
/// was long: that is what doubling means. A right that is missing is asked for every 15 s.
pub(super) async fn for_a_time(rig: &mut Rig, matches: Match, action: Action, long: Duration) {
    let rule = rig.proxy.install(Rule::new(matches, action));
    rig.work().await;
    sleep(long).await;
    assert!(rule.took_effect() > 0, "the test bites");
    rule.remove();
    rig.converge_within(long.max(Duration::from_secs(20))).await;
}
