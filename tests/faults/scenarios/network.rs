//! F13 and F14: the network is gone, slow, or loses requests.

use std::time::Duration;

use faultproxy::{Action, Match, Rule};
use futures::FutureExt as _;
use tokio::time::{Instant, sleep};

use super::Scenario;
use crate::fixture::Fixture;

/// A leader without an API server exits after the renew deadline of 10 s: twice that.
const LEADER_EXITS_WITHIN: Duration = Duration::from_secs(20);

pub(super) fn scenarios() -> Vec<Scenario> {
    let lossy = "delays of 100 to 300 ms, and one request in twenty is reset";
    let slow = "answers arrive at 64 kbit/s";
    let gone = |seconds: u64| {
        let name = format!("the network is gone for {seconds} s");
        let scenario = Scenario::new("F13", name, move |it| gone(it, seconds).boxed());
        scenario.without_election()
    };
    let demoted = |seconds: u64| {
        let name = format!("the network is gone for {seconds} s, and the leader exits");
        Scenario::new("F13", name, move |it| demoted(it, seconds).boxed())
    };
    vec![
        Scenario::new("F14", lossy, |it| {
            let delay = Action::Delay(Duration::from_millis(100), Duration::from_millis(300));
            let loss = || Rule::new(Match::all(), Action::Reset).one_in(20);
            // A run may have so few requests that none of them is lost.
            let first = Rule::new(Match::verbs(&["patch"]), Action::Reset).first(1);
            let delay = Rule::new(Match::all(), delay);
            let rules = vec![delay, loss(), loss().after_commit(), first];
            until_cleared(it, rules).boxed()
        }),
        Scenario::new("F14", slow, |it| {
            let calls = Match::verbs(&["get", "list", "create", "update", "patch"]);
            let end = Rule::new(Match::watches(), Action::Reset).first(7);
            until_cleared(it, vec![Rule::new(calls, Action::Slow(8000)), end]).boxed()
        }),
        gone(3).short(),
        gone(360),
        demoted(30),
        demoted(360),
    ]
}

async fn until_cleared(fixture: &mut Fixture, rules: Vec<Rule>) {
    let promised = Duration::from_secs(50);
    fixture.work_in_spite_of(rules, promised).await;
    fixture.proxy.clear();
}

async fn gone(fixture: &mut Fixture, seconds: u64) {
    fixture.proxy.cut();
    fixture.work().await;
    sleep(Duration::from_secs(seconds)).await;
    fixture.proxy.mend();
    // Dead watches are noticed within a minute. Then calls on dead connections have ten seconds.
    fixture.converge_within(Duration::from_secs(80)).await;
}

async fn demoted(fixture: &mut Fixture, seconds: u64) {
    let (began, long) = (Instant::now(), Duration::from_secs(seconds));
    fixture.proxy.cut();
    fixture.work().await;
    fixture.until_exited(LEADER_EXITS_WITHIN).await;
    fixture.may_exit = true;
    sleep(long.saturating_sub(began.elapsed())).await;
    fixture.proxy.mend();
    fixture.converge_within(Duration::from_secs(60)).await;
}
