//! Each oracle, shown what it must object to: one that has never said no proves nothing.

use std::time::Duration;

use faultproxy::{Entry, Journal, Target};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::process::{Process, Seen};
use super::{Violation, budget, end_state, ownership, process, rest, retries, status, writers};
use crate::workload::Children;

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
fn o5_objects_to_a_write_before_the_retry_after_of_a_429_has_passed() {
    let refused = Entry {
        is_met: true,
        ..entry("m", 0, "patch", "deployments", 429)
    };
    let early = |at, user| {
        let next = entry(user, at, "patch", "memcacheds/status", 200);
        let journal = journal(vec![refused.clone(), next]);
        oracles(budget::early(&journal, Duration::from_secs(1)))
    };
    assert_eq!(early(1004, "m"), ["O5"]);
    assert_eq!(early(1005, "m"), [""; 0]);
    assert_eq!(early(500, "next"), [""; 0]);
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
    // Whoever elects and writes without a word about the lease has none.
    assert_eq!(found(vec![write("a", 100)]), ["O4"]);
    let mut refused = lease("a", 0, "a");
    refused.committed = Some((409, refused.began));
    assert_eq!(found(vec![refused, write("a", 100)]), ["O4"]);
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
    // The resource is degraded after 30 s, and the next try is 41 s later.
    let until_degraded = [
        0, 5, 15, 35, 75, 155, 315, 635, 1275, 2555, 5115, 10_235, 20_475,
    ];
    let and_at = |more: &[u64]| failures(&[&until_degraded, more].concat());
    assert!(and_at(&[30_000, 70_960]).is_empty());
    assert_eq!(and_at(&[29_000]), ["O5"]);
    assert_eq!(and_at(&[30_000, 40_955]), ["O5"]);
    // Each object is read by itself, as a list of one.
    let reads = |name: fn(u64) -> String| {
        let reads = (0..10).map(|number| {
            let mut read = entry("a", 10 * number, "list", "memcacheds", 500);
            read.target.name = name(number);
            read
        });
        oracles(retries::too_many(&journal(reads.collect())))
    };
    assert!(reads(|number| format!("of-{number}")).is_empty());
    assert_eq!(reads(|_| "of-1".to_owned()), ["O5"]);
    assert!(!reads(|_| String::new()).is_empty());
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

#[test]
fn what_is_asked_or_changed_at_rest_is_found() {
    let asked = |requests| {
        let from = start() + Duration::from_secs(1);
        oracles(rest::asked(&journal(requests), from))
    };
    let usual = || {
        vec![
            write("a", 900),
            entry("a", 2000, "watch", "pods", 200),
            lease("a", 2000, "a"),
            entry("a", 2000, "get", "/apis/cache.example.com/v1", 200),
        ]
    };
    assert!(asked(usual()).is_empty());
    for (verb, resource) in [
        ("patch", "deployments"),
        ("patch", "memcacheds/status"),
        ("get", "services"),
        ("list", "pods"),
        ("create", "events"),
    ] {
        let mut requests = usual();
        requests.push(entry("a", 1000, verb, resource, 200));
        assert_eq!(asked(requests), ["O1"], "{verb} {resource}");
    }
    assert!(rest::changed(&[("a", 1)], &[("a", 1)]).is_empty());
    assert_eq!(oracles(rest::changed(&[("a", 1)], &[("a", 2)])), ["O1"]);
}

/// A Deployment as it is stored, of the ReplicaSet with this hash.
fn stored(hash: &str) -> Value {
    json!({
        "metadata": {
            "name": "a", "uid": hash, "resourceVersion": hash, "generation": 2,
            "ownerReferences": [{"kind": "Memcached", "name": "a", "uid": hash, "controller": true}],
        },
        "spec": {"replicas": 2, "template": {"spec": {"containers": [{"image": "i:1"}]}}},
        "status": {"conditions": [{
            "type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable",
            "lastTransitionTime": hash,
            "message": format!("ReplicaSet \"a-{hash}\" has successfully progressed."),
        }]},
    })
}

#[test]
fn what_is_stored_otherwise_is_found_and_what_differs_in_any_two_runs_is_not() {
    let state = |object: Value| {
        let objects = [("deployments a".to_owned(), object)].into();
        end_state::EndState::from_objects(objects, 30_103)
    };
    let expected = state(stored("5d8f7c6b9d"));
    let differ = |object: Value| oracles(end_state::differ(&state(object), &expected));
    assert!(differ(stored("6b7c9d4f5x")).is_empty());
    for (place, value) in [
        ("/spec/replicas", json!(3)),
        ("/spec/template/spec/containers/0/image", json!("i:2")),
        ("/metadata/ownerReferences/0/name", json!("b")),
        ("/metadata/ownerReferences/0/controller", json!(false)),
        ("/status/conditions/0/reason", json!("ReplicaSetUpdated")),
        (
            "/status/conditions/0/message",
            json!("ReplicaSet \"a-5d8f7c6b9d\" is progressing."),
        ),
    ] {
        let mut object = stored("5d8f7c6b9d");
        let at = object.pointer_mut(place).expect("there is such a place");
        *at = value;
        assert_eq!(differ(object), ["O2"], "{place}");
    }
    let none = end_state::EndState::from_objects(Default::default(), 0);
    assert_eq!(oracles(end_state::differ(&none, &expected)), ["O2"]);
    assert_eq!(oracles(end_state::differ(&expected, &none)), ["O2"]);
}

#[test]
fn a_child_of_nobody_or_of_the_dead_and_a_strangers_object_that_changed_are_found() {
    let living = [json!("alive").to_string()].into();
    let wrong = |owners: Value| {
        let child =
            json!({"kind": "Service", "metadata": {"name": "a", "ownerReferences": owners}});
        oracles(ownership::controllers(
            &living,
            &Children {
                deployments: Vec::new(),
                services: vec![child],
            },
        ))
    };
    let owner = |uid: &str, is_controller: bool| json!({"uid": uid, "controller": is_controller});
    assert!(wrong(json!([owner("alive", true)])).is_empty());
    assert!(wrong(json!([owner("alive", true), owner("other", false)])).is_empty());
    for owners in [
        json!(null),
        json!([]),
        json!([owner("dead", true)]),
        json!([owner("alive", false)]),
        json!([owner("alive", true), owner("dead", true)]),
    ] {
        assert_eq!(wrong(owners.clone()), ["O6"], "{owners}");
    }
    let changed = |before: &Value, after: &Value| oracles(ownership::changed(before, after));
    let (one, two) = (stored("1"), stored("2"));
    assert!(changed(&one, &one).is_empty());
    assert_eq!(changed(&one, &two), ["O6"]);
    assert_eq!(changed(&one, &Value::Null), ["O6"], "deleted");
    assert_eq!(changed(&Value::Null, &Value::Null), ["O6"], "never there");
}

#[test]
fn a_status_that_is_not_true_and_a_time_that_moves_alone_are_found() {
    let available = |status: &str| json!([{"type": "Available", "status": status}]);
    let resource = |generation: u64, status: &str| {
        json!({
            "metadata": {"name": "a", "generation": 2},
            "status": {"observedGeneration": generation, "conditions": available(status)},
        })
    };
    let deployment = |status: &str| json!({"status": {"conditions": available(status)}});
    let found = |resource: &Value, deployment: Option<&Value>| {
        oracles(status::of_resource(resource, deployment))
    };
    let (yes, no) = (deployment("True"), deployment("False"));
    assert!(found(&resource(2, "True"), Some(&yes)).is_empty());
    assert!(found(&resource(2, "False"), Some(&no)).is_empty());
    assert_eq!(found(&resource(1, "True"), Some(&yes)), ["O7"]);
    assert_eq!(found(&resource(2, "True"), Some(&no)), ["O7"]);
    assert_eq!(found(&resource(2, "False"), Some(&yes)), ["O7"]);
    assert_eq!(found(&resource(2, "True"), None), ["O7"]);
    let at = |status: &str, time: u64| json!({"status": status, "lastTransitionTime": time});
    assert_eq!(status::moved(&at("True", 1), &at("True", 1)), None);
    assert_eq!(status::moved(&at("True", 1), &at("False", 2)), None);
    assert!(status::moved(&at("True", 1), &at("True", 2)).is_some());
}

#[test]
fn a_manager_that_panics_ends_or_grows_is_found() {
    let fine = || Process {
        id: 1,
        files: 20,
        threads: 4,
        resident_kib: 50_000,
    };
    let well = Seen {
        log: "all is well".to_owned(),
        ends: vec![(None, true), (Some(1), true)],
        now: Some(fine()),
        before: Some(fine()),
        may_grow: false,
    };
    let found = |change: fn(&mut Seen)| {
        let mut seen = well.clone();
        change(&mut seen);
        oracles(process::judge(&seen))
    };
    assert!(found(|_| {}).is_empty());
    assert_eq!(found(|it| it.log += "\nthread panicked at"), ["O9"]);
    assert_eq!(found(|it| it.ends.push((Some(1), false))), ["O9"]);
    assert_eq!(found(|it| it.ends.push((Some(101), true))), ["O9"]);
    assert_eq!(found(|it| it.now = None), ["O9"]);
    let larger = |change: fn(&mut Process)| {
        let mut seen = well.clone();
        change(seen.now.as_mut().expect("it runs"));
        oracles(process::judge(&seen))
    };
    assert_eq!(larger(|it| it.files += 10), ["O9"]);
    assert_eq!(larger(|it| it.threads += 6), ["O9"]);
    assert_eq!(larger(|it| it.resident_kib += 12_000), ["O9"]);
    assert!(larger(|it| it.resident_kib += 5_000).is_empty());
    // Another process has pages of its own.
    assert!(larger(|it| (it.id, it.resident_kib) = (2, 90_000)).is_empty());
}
