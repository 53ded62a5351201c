//! Each oracle that reads the journal, shown what it must object to: one that has never said
//! no proves nothing.

use std::time::Duration;

use faultproxy::{Entry, Journal, Target};
use serde_json::json;
use tokio::time::Instant;

use super::{Violation, budget, retries, writers};

/// A request of `user` that came in at this many milliseconds and was answered 5 ms later.
fn entry(user: &str, at: u64, verb: &'static str, resource: &str, code: u16) -> Entry {
    let began = start() + Duration::from_millis(at);
    let done = began + Duration::from_millis(5);
    let name = if verb == "watch" { "" } else { "a" };
    Entry {
        target: Target {
            verb,
            resource: resource.to_owned(),
            namespace: "ns".to_owned(),
            name: name.to_owned(),
            ..Target::default()
        },
        user: user.to_owned(),
        lease: None,
        began,
        sent: Some(began),
        committed: Some((code, done)),
        answered: Some(code),
        ended: Some(done),
        is_met: false,
    }
}

fn start() -> Instant {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    *START.get_or_init(Instant::now)
}

fn lease(user: &str, at: u64, holder: &str) -> Entry {
    let mut entry = entry(user, at, "update", "leases", 200);
    entry.lease = Some(json!({"spec": {"holderIdentity": holder}}));
    entry
}

fn write(user: &str, at: u64) -> Entry {
    entry(user, at, "patch", "deployments", 200)
}

fn journal(requests: Vec<Entry>) -> Journal {
    Journal {
        requests,
        ..Journal::default()
    }
}

fn oracles(violations: Vec<Violation>) -> Vec<&'static str> {
    violations.into_iter().map(|it| it.oracle).collect()
}

#[test]
fn who_writes_without_the_lease_is_found() {
    let found = |requests| oracles(writers::overlaps(&journal(requests)));
    let fine = || {
        vec![
            lease("a", 0, "a"),
            write("a", 100),
            lease("a", 2000, "a"),
            write("a", 16_900),
        ]
    };
    assert!(found(fine()).is_empty());
    let mut handed_over = fine();
    handed_over.extend([
        lease("a", 17_000, ""),
        lease("b", 17_100, "b"),
        write("b", 17_200),
    ]);
    assert!(found(handed_over).is_empty());
    for (what, more) in [
        ("before any lease", vec![write("b", 50)]),
        ("after it ran out", vec![write("a", 17_100)]),
        (
            "after it was given up",
            vec![lease("a", 3000, ""), write("a", 3100)],
        ),
        (
            "after another took it",
            vec![lease("b", 3000, "b"), write("a", 3100)],
        ),
    ] {
        let mut requests = fine();
        requests.extend(more);
        assert!(!found(requests).is_empty(), "{what}");
    }
}

#[test]
fn a_hot_loop_is_found_and_the_law_is_not() {
    let failures = |times: &[u64]| {
        let failing = times
            .iter()
            .map(|at| entry("a", *at, "patch", "deployments", 500));
        oracles(retries::too_many(&journal(failing.collect())))
    };
    assert!(failures(&[0, 10, 25, 50, 95, 180, 345]).is_empty());
    assert_eq!(failures(&[0, 10, 20, 30, 40, 50, 60]), ["O5"]);
    let watches = |every: u64, count: u64| {
        let watches = (0..count).map(|turn| entry("a", turn * every, "watch", "pods", 410));
        oracles(retries::too_many(&journal(watches.collect())))
    };
    assert!(watches(50_000, 20).is_empty());
    assert!(!watches(50, 200).is_empty());
    assert!(!watches(1000, 60).is_empty(), "once a second is too often");
}

#[test]
fn a_child_that_is_made_twice_or_deleted_or_written_too_often_is_found() {
    let costs = |requests: &[Entry]| budget::Costs::of(&journal(requests.to_vec()));
    let created = || entry("a", 0, "patch", "deployments", 201);
    let reference = costs(&[created()]);
    let wrong = |requests: &[Entry]| {
        let costs = costs(requests);
        let mut found = oracles(budget::destroyed(&costs, &reference));
        found.extend(oracles(budget::spent(
            &costs,
            &reference,
            0,
            &Journal::default(),
        )));
        found
    };
    assert!(wrong(&[created()]).is_empty());
    assert_eq!(wrong(&[]), ["O3"], "never made");
    assert_eq!(wrong(&[created(), created()]), ["O3", "O5"]);
    assert_eq!(wrong(&[created(), write("a", 10)]), ["O5"]);
    let deleted = entry("a", 10, "delete", "deployments", 200);
    assert!(wrong(&[created(), deleted]).contains(&"O3"));
    // Once more for a fault is what it costs.
    let failed = entry("a", 10, "patch", "deployments", 500);
    assert!(wrong(&[created(), failed, write("a", 30)]).is_empty());
    let read = entry("a", 10, "get", "deployments", 200);
    assert_eq!(wrong(&[created(), read]), ["O5"]);
}
