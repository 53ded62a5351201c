//! Each oracle reports a violation of its rule.

use std::time::Duration;

use faultproxy::{Entry, Target};
use serde_json::json;
use tokio::time::Instant;

use super::process::Process;
use super::{Violation, process, rest, retries, writers};

/// A request of `user` at this many milliseconds, answered 5 ms later.
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

fn oracles(violations: Vec<Violation>) -> Vec<&'static str> {
    violations.into_iter().map(|it| it.oracle).collect()
}

#[test]
fn a_write_without_the_lease_is_reported() {
    let found = |requests: Vec<Entry>| oracles(writers::overlaps(&requests));
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
    assert_eq!(found(vec![write("a", 100)]), ["O4"]);
    let mut refused = lease("a", 0, "a");
    refused.committed = Some((409, refused.began));
    assert_eq!(found(vec![refused, write("a", 100)]), ["O4"]);
    let late = || write("a", 3100);
    for (what, more) in [
        ("before any lease", vec![write("b", 50)]),
        ("after it expired", vec![write("a", 17_100)]),
        ("after its release", vec![lease("a", 3000, ""), late()]),
        ("after another took it", vec![lease("b", 3000, "b"), late()]),
    ] {
        let mut requests = fine();
        requests.extend(more);
        assert!(!found(requests).is_empty(), "{what}");
    }
}

#[test]
fn a_hot_loop_is_reported_and_a_back_off_is_not() {
    let failures = |times: Vec<u64>| {
        let failures = times
            .iter()
            .map(|at| entry("a", *at, "patch", "deployments", 500));
        oracles(retries::too_many(&failures.collect::<Vec<_>>()))
    };
    let doubling = (0..14).map(|it| 5 * ((1 << it) - 1));
    assert!(failures(doubling.collect()).is_empty());
    assert!(failures((0..40).map(|it| 600 * it).collect()).is_empty());
    assert_eq!(failures((0..40).map(|it| 400 * it).collect()), ["O5"]);
}

#[test]
fn a_request_at_rest_is_reported() {
    let requested = |requests: Vec<Entry>| {
        let from = start() + Duration::from_secs(1);
        oracles(rest::requested(&requests, from))
    };
    let usual = || {
        vec![
            write("a", 900),
            entry("a", 2000, "watch", "pods", 200),
            lease("a", 2000, "a"),
            entry("a", 2000, "get", "/apis/cache.example.com/v1", 200),
        ]
    };
    assert!(requested(usual()).is_empty());
    for (verb, resource) in [
        ("patch", "deployments"),
        ("patch", "memcacheds/status"),
        ("get", "services"),
        ("list", "pods"),
        ("create", "events"),
    ] {
        let mut requests = usual();
        requests.push(entry("a", 1000, verb, resource, 200));
        assert_eq!(requested(requests), ["O1"], "{verb} {resource}");
    }
}

#[test]
fn a_manager_that_panics_exits_or_grows_is_reported() {
    let exited = |log: &str, exits: &[_]| oracles(process::exited(log, exits));
    assert!(exited("starting", &[(None, true), (Some(1), true)]).is_empty());
    assert_eq!(exited("thread panicked at", &[]), ["O9"]);
    assert_eq!(exited("", &[(Some(1), false)]), ["O9"]);
    assert_eq!(exited("", &[(Some(101), true)]), ["O9"]);
    let before = Process {
        id: 1,
        files: 20,
        threads: 4,
        resident_kib: 50_000,
    };
    let is_grown = |change: fn(&mut Process)| {
        let mut now = before;
        change(&mut now);
        process::grown(&before, &now).is_some()
    };
    assert!(!is_grown(|_| {}));
    assert!(is_grown(|it| it.files += 10));
    assert!(is_grown(|it| it.threads += 6));
    assert!(is_grown(|it| it.resident_kib += 12_000));
    assert!(!is_grown(|it| it.resident_kib += 5_000));
    // Another process has pages of its own.
    assert!(!is_grown(|it| (it.id, it.resident_kib) = (2, 90_000)));
}
