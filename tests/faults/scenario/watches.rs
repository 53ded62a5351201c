//! F12 and F13: watches that are refused, end in every way in which a watch can end, or fall
//! silent; and a network that is gone.

use std::time::Duration;

use faultproxy::{Action, EventAction, EventRule, Match, Rule};
use futures::FutureExt as _;
use tokio::time::{Instant, sleep};

use super::Scenario;
use super::requests::all_writes;
use crate::rig::{Rig, WATCHED};
use crate::workload::Workload::{Change, Create, Replace};
use testkit::Limit;

/// A dead watch is noticed within this.
const DETECTED_WITHIN: Duration = Duration::from_secs(60);

/// And a test waits for twice as long. More would let kube's own default pass (295 s).
const DETECTION_LIMIT: Duration = Duration::from_secs(120);

/// What is followed for the controllers: not the lease.
fn watches() -> Match {
    WATCHED
        .iter()
        .fold(Match::watches(), |it, resource| it.of(resource))
}

fn lists_and_watches() -> Match {
    let both = Match::verbs(&["list", "watch"]);
    WATCHED.iter().fold(both, |it, resource| it.of(resource))
}

/// The running watches end; what comes in their place meets the action so many times each.
async fn refused(rig: &mut Rig, action: Action, matches: Match, times: u64) {
    let met = rig
        .proxy
        .install(Rule::new(matches, action).nth(1..=7 * times));
    let end = rig
        .proxy
        .install(Rule::new(watches(), Action::Reset).nth(1..=7));
    rig.work().await;
    let (began, mut limit) = (Instant::now(), Limit::new(DETECTION_LIMIT));
    while met.took_effect() < 7 * times {
        limit.pause(|| format!("met {}", met.took_effect())).await;
    }
    end.remove();
    met.remove();
    // Errors in a row double the wait: as far off as the last of them was from the first.
    rig.converge_within(Duration::from_secs(10) + began.elapsed())
        .await;
}

pub(super) fn scenarios() -> Vec<Scenario> {
    let mut all = Vec::new();
    for (what, action) in [
        ("410", Action::gone()),
        ("an empty 200", Action::Empty),
        ("half an event", Action::HalfAnEvent),
        (
            "500",
            Action::status(500, "InternalError", "made by a test"),
        ),
        ("429", Action::retry_after(429, "TooManyRequests", 1)),
        ("403", Action::status(403, "Forbidden", "made by a test")),
    ] {
        for times in [1, 5] {
            let name =
                format!("watches end, and the next {times} of each are answered with {what}");
            let action = action.clone();
            let fault = if what == "403" { "F06" } else { "F12" };
            let is_short = times == 1 && matches!(what, "410" | "an empty 200");
            let scenario = Scenario::new(fault, name, Change, move |rig| {
                refused(rig, action.clone(), watches(), times).boxed()
            });
            all.push(if is_short { scenario.short() } else { scenario });
        }
    }
    for (what, action) in [
        (
            "with 403",
            Action::status(403, "Forbidden", "made by a test"),
        ),
        ("with 504", Action::status(504, "Timeout", "made by a test")),
        ("with 410", Action::gone()),
    ] {
        let name =
            format!("watches end, and the next 3 lists and watches of each are answered {what}");
        let fault = if what == "with 403" { "F06" } else { "F12" };
        all.push(Scenario::new(fault, name, Change, move |rig| {
            refused(rig, action.clone(), lists_and_watches(), 3).boxed()
        }));
    }
    for workload in [Create, Change, Replace] {
        for (what, action) in [
            ("is an ERROR with 410", EventAction::Gone),
            ("is cut in half", EventAction::Half),
            ("is in a line of 10 MiB", EventAction::Pad(10 * 1024 * 1024)),
        ] {
            let name = format!("the next event of each watch {what}");
            let is_short = workload == Replace && matches!(action, EventAction::Gone);
            let scenario = Scenario::new("F12", name, workload, move |rig| {
                let action = action.clone();
                async move {
                    rig.allows_growth = matches!(action, EventAction::Pad(_));
                    let rule = EventRule::new(watches(), action).nth(1..=7);
                    let rule = rig.proxy.install_on_events(rule);
                    rig.work().await;
                    rig.converge().await;
                    assert!(rule.took_effect() > 0, "the test bites");
                }
                .boxed()
            });
            all.push(if is_short { scenario.short() } else { scenario });
        }
    }
    all.push(
        Scenario::new("F13", "every watch falls silent", Change, |rig| {
            silent(rig).boxed()
        })
        .short(),
    );
    all.push(Scenario::new(
        "F13",
        "every watch is silent for 6 minutes",
        Change,
        |rig| for_six_minutes(rig, Match::watches()).boxed(),
    ));
    all.push(Scenario::new(
        "F13",
        "every write is silent for 6 minutes",
        Change,
        |rig| for_six_minutes(rig, all_writes()).boxed(),
    ));
    all.push(Scenario::new(
        "F13",
        "lists stall halfway after the watches ended",
        Change,
        |rig| {
            async move {
                // A list that stalls is given up after two minutes, as nothing else minds it.
                let stall =
                    Rule::new(Match::verbs(&["list"]).of("deployments"), Action::Stall).nth(1..=1);
                let stall = rig.proxy.install(stall);
                let gone = rig
                    .proxy
                    .install(Rule::new(watches(), Action::gone()).nth(1..=7));
                let end = rig
                    .proxy
                    .install(Rule::new(watches(), Action::Reset).nth(1..=7));
                rig.work().await;
                rig.converge_within(Duration::from_secs(150)).await;
                assert!(
                    stall.took_effect() == 1 && gone.took_effect() > 0,
                    "the test bites"
                );
                end.remove();
            }
            .boxed()
        },
    ));
    all
}

/// The watches that run fall silent, and a change is made. How soon they are given up is in
/// the journal.
async fn silent(rig: &mut Rig) {
    let rule = rig.proxy.install(Rule::new(watches(), Action::BlackHole));
    let began = Instant::now();
    rig.work().await;
    while rule.took_effect() < 7 {
        assert!(
            began.elapsed() < DETECTION_LIMIT,
            "met {}",
            rule.took_effect()
        );
        sleep(Duration::from_millis(50)).await;
    }
    // What comes in their place is as it should be.
    rule.remove();
    rig.converge_within(DETECTION_LIMIT / 4).await;
    let journal = rig.proxy.journal();
    let dead = journal.requests.iter().filter(|entry| {
        entry.target.verb == "watch" && entry.target.resource != "leases" && entry.began < began
    });
    let noticed: Vec<_> = dead
        .filter_map(|entry| entry.ended)
        .filter(|at| *at > began)
        .collect();
    assert_eq!(noticed.len(), 7, "each of the watches was given up");
    let longest = noticed.into_iter().map(|at| at.duration_since(began)).max();
    let longest = longest.unwrap_or_default();
    println!("dead watches were noticed within {longest:.1?} (promised: {DETECTED_WITHIN:?})");
    assert!(longest < DETECTION_LIMIT, "{longest:?}");
}

async fn for_six_minutes(rig: &mut Rig, matches: Match) {
    const LONG: Duration = Duration::from_secs(360);
    let rule = rig.proxy.install(Rule::new(matches, Action::BlackHole));
    rig.work().await;
    sleep(LONG).await;
    assert!(rule.took_effect() > 0, "the test bites");
    rule.remove();
    // What was tried last may be silent still, and the wait after it is by the law.
    rig.converge_within(DETECTION_LIMIT).await;
}
