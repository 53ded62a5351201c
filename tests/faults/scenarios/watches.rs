//! F06, F11, F12 and F13: watches are rejected, end in every way in which a watch can end, repeat
//! events, or become silent.

use std::time::Duration;

use faultproxy::{Action, EventAction, Match, Rule};
use futures::FutureExt as _;
use tokio::time::Instant;

use super::writes::for_a_time;
use super::{Scenario, failure};
use crate::fixture::{Fixture, WATCHED};
use testkit::Limit;

/// A dead watch is noticed within this time.
const DETECTED_WITHIN: Duration = Duration::from_secs(60);
/// Less than kube's own default of 295 s.
const DETECTION_LIMIT: Duration = Duration::from_secs(120);

/// Each of these requests for what the controllers watch; not those for the Lease.
fn all(verbs: &[&'static str]) -> Match {
    let requests = Match::verbs(verbs);
    WATCHED
        .iter()
        .fold(requests, |it, resource| it.of(resource))
}

/// Ends the watches.
fn end() -> Rule {
    Rule::new(all(&["watch"]), Action::Reset).first(7)
}

pub(super) fn scenarios() -> Vec<Scenario> {
    let mut scenarios = Vec::new();
    for (fault, what, action) in [
        ("F12", "410", Action::gone()),
        ("F12", "an empty 200", Action::Empty),
        ("F12", "half an event", Action::HalfAnEvent),
        ("F12", "500", failure(500)),
        ("F12", "429", failure(429)),
        ("F06", "403", failure(403)),
    ] {
        for (verbs, names, times) in [
            (&["watch"][..], "watches", 1),
            (&["list", "watch"], "lists and watches", 3),
        ] {
            let name = format!("watches end, and the next {times} {names} are answered {what}");
            let is_short = times == 1 && what == "410";
            let action = action.clone();
            let scenario = Scenario::new(fault, name, move |it| {
                rejected(it, action.clone(), all(verbs), times).boxed()
            });
            scenarios.push(if is_short { scenario.short() } else { scenario });
        }
    }
    for (fault, what, action) in [
        ("F12", "is an ERROR with 410", EventAction::Gone),
        ("F12", "is cut in half", EventAction::Half),
        (
            "F11",
            "is repeated with all earlier ones",
            EventAction::Replay,
        ),
    ] {
        let name = format!("the next event of each watch {what}");
        let is_short = matches!(action, EventAction::Gone);
        let scenario = Scenario::new(fault, name, move |it| {
            let rule = Rule::new(all(&["watch"]), action.clone()).first(7);
            async move {
                let rule = it.proxy.install(rule);
                it.work().await;
                it.converge().await;
                assert!(rule.took_effect() > 0, "no fault was made");
            }
            .boxed()
        });
        scenarios.push(if is_short { scenario.short() } else { scenario });
    }
    let name = "every watch becomes silent";
    scenarios.push(Scenario::new("F13", name, |it| silent(it).boxed()).short());
    let name = "every watch is silent for 6 minutes";
    scenarios.push(Scenario::new("F13", name, |it| {
        for_a_time(it, Match::watches(), Action::BlackHole, 360).boxed()
    }));
    scenarios.push(Scenario::new("F13", "a list stalls in the middle", |it| {
        let stall = Rule::new(Match::verbs(&["list"]).of("deployments"), Action::Stall);
        let gone = Rule::new(all(&["watch"]), Action::gone()).first(7);
        // A list that stalls ends after two minutes.
        let rules = vec![stall.first(1), gone, end()];
        it.work_in_spite_of(rules, Duration::from_secs(150)).boxed()
    }));
    scenarios
}

/// The watches end, and the next requests for each resource get this answer.
async fn rejected(fixture: &mut Fixture, action: Action, requests: Match, times: u64) {
    let rule = Rule::new(requests, action).first(7 * times);
    let rejected = fixture.proxy.install(rule);
    let end = fixture.proxy.install(end());
    fixture.work().await;
    let (began, mut limit) = (Instant::now(), Limit::new(DETECTION_LIMIT));
    while rejected.took_effect() < 7 * times {
        limit.pause(|| rejected.took_effect()).await;
    }
    end.remove();
    rejected.remove();
    // The delay between errors doubles.
    let promised = Duration::from_secs(10) + began.elapsed();
    fixture.converge_within(promised).await;
}

/// The open watches become silent. The journal shows when each was given up.
async fn silent(fixture: &mut Fixture) {
    let rule = Rule::new(all(&["watch"]), Action::BlackHole);
    let rule = fixture.proxy.install(rule);
    let (began, mut limit) = (Instant::now(), Limit::new(DETECTION_LIMIT));
    fixture.work().await;
    while rule.took_effect() < 7 {
        limit.pause(|| rule.took_effect()).await;
    }
    rule.remove();
    fixture.converge_within(DETECTION_LIMIT / 4).await;
    let journal = fixture.proxy.journal();
    let dead = journal.iter().filter(|entry| {
        entry.target.verb == "watch" && entry.target.resource != "leases" && entry.began < began
    });
    let noticed = dead
        .filter_map(|entry| entry.ended)
        .filter(|it| *it > began);
    let noticed: Vec<_> = noticed.map(|it| it.duration_since(began)).collect();
    println!("dead watches were noticed after {noticed:.1?} (promised: {DETECTED_WITHIN:?})");
    assert_eq!(noticed.len(), 7, "each of the watches was given up");
    assert!(noticed.iter().all(|it| *it < DETECTION_LIMIT));
}
