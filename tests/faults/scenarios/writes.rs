//! F01 to F07: the manager is killed during a write, writes are rejected, or their answers are lost.

use std::sync::Arc;
use std::time::Duration;

use faultproxy::{Action, Match, Rule};
use futures::FutureExt as _;
use tokio::time::sleep;

use super::{Scenario, failure};
use crate::fixture::{Fixture, NEXT_LEADS_WITHIN};

/// What the manager writes, besides Events and its Lease.
const WRITTEN: [&str; 6] = [
    "deployments",
    "services",
    "memcacheds/status",
    "nginxes/status",
    "elasticwebs/status",
    "helloworlds/status",
];
const NAMES: [&str; 4] = ["memcached", "nginx", "elasticweb", "helloworld"];

fn all_writes() -> Match {
    let writes = Match::writes();
    WRITTEN.iter().fold(writes, |it, resource| it.of(resource))
}

/// The first write of each object.
fn first_writes(action: &Action) -> Vec<Rule> {
    let objects = WRITTEN.iter().flat_map(|it| NAMES.map(|name| (it, name)));
    let writes = objects.map(|(it, name)| Match::writes().of(it).named(name));
    writes
        .map(|writes| Rule::new(writes, action.clone()).first(1))
        .collect()
}

pub(super) fn scenarios() -> Vec<Scenario> {
    let mut all = Vec::new();
    for resource in ["deployments", "services", "elasticwebs/status"] {
        let name = format!("killed after a write of {resource}, before its answer");
        let scenario = Scenario::new("F01", name, move |it| killed(it, resource).boxed());
        let is_short = resource == "services";
        all.push(if is_short { scenario.short() } else { scenario });
    }
    for (what, action, promised) in [
        ("reset", Action::Reset, 10),
        // A call ends after ten seconds, and each resource makes up to three.
        ("never answered", Action::BlackHole, 40),
    ] {
        let name = format!("the first write of each object succeeds and is {what}");
        all.push(Scenario::new("F03", name, move |it| {
            let rules = first_writes(&action).into_iter().map(Rule::after_commit);
            it.work_in_spite_of(rules.collect(), Duration::from_secs(promised))
                .boxed()
        }));
    }
    let name = "the first write of each object is answered 500";
    all.push(
        Scenario::new("F04", name, |it| {
            let rules = first_writes(&failure(500));
            it.work_in_spite_of(rules, Duration::from_secs(10)).boxed()
        })
        .short(),
    );
    for (fault, code) in [("F04", 429), ("F05", 409), ("F06", 403), ("F07", 422)] {
        let name = format!("every write is answered {code} for 60 s");
        all.push(Scenario::new(fault, name, move |it| {
            for_a_time(it, all_writes(), failure(code), 60).boxed()
        }));
    }
    let name = "every write has no answer for 6 minutes";
    all.push(Scenario::new("F13", name, |it| {
        for_a_time(it, all_writes(), Action::BlackHole, 360).boxed()
    }));
    all
}

async fn killed(fixture: &mut Fixture, resource: &str) {
    let id = fixture.env.manager().id().to_string();
    let kill = Arc::new(move || {
        let kill = std::process::Command::new("kill")
            .args(["-KILL", &id])
            .status();
        assert!(kill.is_ok());
    });
    let rule = Rule::new(Match::writes().of(resource), Action::Run(kill));
    fixture.proxy.install(rule.first(1).after_commit());
    fixture.work().await;
    fixture.until_exited(Duration::from_secs(20)).await;
    fixture.converge_within(NEXT_LEADS_WITHIN).await;
}

/// A fault that ends after some seconds.
pub(super) async fn for_a_time(
    fixture: &mut Fixture,
    requests: Match,
    action: Action,
    seconds: u64,
) {
    let rule = fixture.proxy.install(Rule::new(requests, action));
    fixture.work().await;
    sleep(Duration::from_secs(seconds)).await;
    assert!(rule.took_effect() > 0, "no fault was made");
    rule.remove();
    // The delay doubles: the next attempt may be as far away as the fault was long, but at most a minute.
    let promised = seconds.clamp(20, 90);
    fixture.converge_within(Duration::from_secs(promised)).await;
}
