//! Single decisions by example, and random histories: replicas that read, decide and write in any
//! order, while time passes and users interfere.

use std::convert::Infallible;

use k8s_openapi::ByteString;
use proptest::prelude::*;

use super::super::issue::{LIFE, issue};
use super::*;

const NAME: &str = "webhook.test.svc";

fn names() -> Vec<String> {
    vec![NAME.to_owned()]
}

fn start() -> Timestamp {
    "2026-11-21T07:39:00Z".parse().unwrap()
}

fn days(days: i64) -> SignedDuration {
    SignedDuration::from_hours(24 * days)
}

fn made(now: Timestamp) -> Identity {
    issue(&names(), now).unwrap()
}

fn holding(current: &Identity) -> Contents {
    Contents {
        current: Some(current.clone()),
        ..Contents::default()
    }
}

/// The view of a replica that serves `serving`, with everything else in order.
fn seen<'a>(
    now: Timestamp,
    secret: Option<&'a Contents>,
    serving: Option<&'a Identity>,
    bundles: &'a [Option<Vec<Authority>>],
) -> Seen<'a> {
    Seen {
        now,
        secret,
        serving,
        bundles,
        settled: SETTLE,
        jitter: 0.0,
    }
}

fn decide(seen: Seen<'_>) -> Plan {
    plan(seen, || Ok::<_, Infallible>(made(seen.now))).unwrap()
}

#[test]
fn the_first_pair_is_stored_before_it_is_served() {
    let decided = decide(seen(start(), None, None, &[]));
    assert_eq!(decided.serve, None);
    let stored = decided.write.unwrap();
    let decided = decide(seen(start(), Some(&stored), None, &[]));
    assert_eq!(decided.serve, stored.current);
    assert_eq!(decided.write, None);
}

#[test]
fn nothing_is_done_about_a_young_pair_until_two_thirds_of_its_life() {
    let identity = made(start());
    let stored = holding(&identity);
    let bundles = [Some(stored.trusted())];
    let mut at = seen(start() + days(59), Some(&stored), Some(&identity), &bundles);
    let decided = decide(at);
    assert_eq!((&decided.write, &decided.serve), (&None, &None));
    assert_eq!(decided.again, at.now + REGULAR_LOOK);

    at.now = start() + days(60) - SignedDuration::from_hours(1);
    let decided = decide(at);
    assert_eq!(decided.write, None);
    assert_eq!(
        decided.again,
        renewal(&identity, 0.0),
        "the next look is on time"
    );

    at.now = decided.again;
    let staged = decide(at).write.unwrap();
    assert_eq!(staged.current.as_ref(), Some(&identity), "still in use");
    assert!(staged.next.is_some());
}

#[test]
fn jitter_spreads_the_renewal_over_a_twentieth_of_the_life() {
    let identity = made(start());
    let latest = renewal(&identity, 1.0);
    let spread = latest.duration_since(renewal(&identity, 0.0));
    assert!(spread > days(4) && spread < days(5), "{spread}");
    assert!(latest < start() + days(66));
}

#[test]
fn the_next_pair_is_used_only_after_every_bundle_has_held_it_for_a_while() {
    let now = start() + days(60);
    let (identity, next) = (made(start()), made(now));
    let staged = Contents {
        next: Some(next.clone()),
        ..holding(&identity)
    };
    let (old, both) = (holding(&identity).trusted(), staged.trusted());
    for (bundles, settled) in [
        (vec![Some(both.clone()), Some(old)], SETTLE),
        (vec![Some(both.clone()), None], SETTLE),
        (vec![Some(both.clone()); 2], SETTLE - Duration::from_secs(1)),
    ] {
        let at = Seen {
            settled,
            ..seen(now, Some(&staged), Some(&identity), &bundles)
        };
        let decided = decide(at);
        assert_eq!((decided.write, decided.serve), (None, None));
        assert_eq!(decided.again, now + SignedDuration::from_secs(30));
    }
    let bundles = vec![Some(both); 2];
    let promoted = decide(seen(now, Some(&staged), Some(&identity), &bundles));
    let promoted = promoted.write.unwrap();
    assert_eq!(promoted.current, Some(next));
    assert_eq!(promoted.next, None);
    assert_eq!(promoted.old, [identity.authority().clone()]);
}

#[test]
fn the_old_authority_is_trusted_until_it_has_expired_and_no_longer() {
    let now = start() + days(60);
    let (before, current) = (made(start()), made(now));
    let stored = Contents {
        old: vec![before.authority().clone()],
        ..holding(&current)
    };
    let ends = before.pair().validity().not_after;
    let bundles = [Some(stored.trusted())];
    let at = |now| seen(now, Some(&stored), Some(&current), &bundles);
    assert_eq!(decide(at(ends)).write, None);
    let pruned = decide(at(ends + SignedDuration::from_secs(1)))
        .write
        .unwrap();
    assert_eq!(pruned, holding(&current));
}

#[test]
fn a_pair_that_has_expired_is_replaced_without_waiting() {
    let late = start() + LIFE + days(1);
    let (expired, next) = (made(start()), made(late));
    let stored = holding(&expired);
    let decided = decide(seen(late, Some(&stored), Some(&expired), &[None]));
    let fresh = decided.write.unwrap();
    assert!(fresh.current.unwrap().is_valid_at(late));
    assert_eq!(fresh.next, None);

    let staged = Contents {
        next: Some(next.clone()),
        ..stored
    };
    let decided = decide(seen(late, Some(&staged), Some(&expired), &[None]));
    assert_eq!(decided.write.unwrap().current, Some(next));
}

#[test]
fn a_deleted_secret_is_a_rotation_for_a_replica_that_still_serves() {
    let identity = made(start());
    let decided = decide(seen(start(), None, Some(&identity), &[]));
    let stored = decided.write.unwrap();
    assert_eq!(stored.current, Some(identity));
    assert!(stored.next.is_some());
}

#[test]
fn a_broken_secret_is_made_anew_and_its_readable_authorities_stay_trusted() {
    let identity = made(start());
    for broken in ["tls.crt", "tls.key"] {
        let mut data = holding(&identity).data();
        data.insert(broken.to_owned(), ByteString(b"garbage".to_vec()));
        let stored = Contents::read(&data, &names());
        assert_eq!(stored.current, None);
        let anew = decide(seen(start(), Some(&stored), None, &[]))
            .write
            .unwrap();
        assert!(anew.current.is_some());
        assert_eq!(anew.old, [identity.authority().clone()]);
    }
    let mut data = holding(&identity).data();
    data.insert("ca.crt".to_owned(), ByteString(vec![0xff, 0xfe]));
    let stored = Contents::read(&data, &names());
    assert_eq!(stored, Contents::default());
}

#[test]
fn a_pair_for_another_service_is_made_anew() {
    let other = issue(&["other.test.svc".to_owned()], start()).unwrap();
    let stored = Contents::read(&holding(&other).data(), &names());
    let anew = decide(seen(start(), Some(&stored), None, &[]))
        .write
        .unwrap();
    assert_ne!(anew.current, Some(other));
}

#[test]
fn what_is_written_is_read_back_the_same() {
    let contents = Contents {
        current: Some(made(start())),
        next: Some(made(start())),
        old: vec![
            made(start()).authority().clone(),
            made(start()).authority().clone(),
        ],
    };
    assert_eq!(Contents::read(&contents.data(), &names()), contents);
    assert_eq!(contents.trusted().len(), 4);
}

/// One event.
#[derive(Debug, Clone)]
enum Step {
    /// A replica reads everything and plans.
    Look(usize),
    /// The replica writes the planned Secret.
    WriteSecret(usize),
    /// The replica writes the bundle of one object.
    WriteBundle(usize, usize),
    /// The replica restarts.
    Restart(usize),
    /// Every replica plans and writes once, and then this number of hours passes.
    Pass(i64),
    /// A user overwrites a bundle.
    Overwrite(usize),
    /// A user deletes the Secret.
    Delete,
    /// A user damages one of its keys.
    Break(&'static str),
    /// The API server's clock is moved by this number of days.
    SetClock(i64),
}

const REPLICAS: usize = 2;
const OBJECTS: usize = 3;

fn work() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..REPLICAS).prop_map(Step::Look),
        3 => (0..REPLICAS).prop_map(Step::WriteSecret),
        4 => (0..REPLICAS, 0..OBJECTS).prop_map(|(replica, object)| Step::WriteBundle(replica, object)),
        1 => (0..REPLICAS).prop_map(Step::Restart),
    ]
}

/// Several days, each of which begins with events in any order.
fn weeks() -> impl Strategy<Value = Vec<Step>> {
    let day =
        (proptest::collection::vec(work(), 0..24), 48..120_i64).prop_map(|(mut steps, hours)| {
            steps.push(Step::Pass(hours));
            steps
        });
    proptest::collection::vec(day, 20..30).prop_map(|days| days.concat())
}

fn trouble() -> impl Strategy<Value = Step> {
    let keys = [
        "tls.crt",
        "tls.key",
        "ca.crt",
        "next-tls.key",
        "next-ca.crt",
        "old-ca.crt",
    ];
    prop_oneof![
        (0..OBJECTS).prop_map(Step::Overwrite),
        Just(Step::Delete),
        proptest::sample::select(keys.to_vec()).prop_map(Step::Break),
        prop_oneof![
            Just(-4000),
            Just(-91),
            Just(-30),
            Just(30),
            Just(91),
            Just(4000)
        ]
        .prop_map(Step::SetClock),
    ]
}

#[derive(Default)]
struct Replica {
    serving: Option<Identity>,
    settling: Settling,
    /// The version of the Secret that was read, and the planned contents.
    secret: Option<(u64, Contents)>,
    /// For each object the version that was read, and its bundle.
    bundles: Vec<(u64, Vec<Authority>)>,
}

/// The API server, with optimistic locking, and the replicas.
struct World {
    now: Timestamp,
    /// The actual time.
    uptime: Duration,
    /// The version, 0 before the first, and the data; `None` is deleted.
    secret: (u64, Option<std::collections::BTreeMap<String, ByteString>>),
    objects: Vec<(u64, Vec<Authority>)>,
    replicas: Vec<Replica>,
}

impl World {
    fn new() -> Self {
        Self {
            now: start(),
            uptime: Duration::ZERO,
            secret: (0, None),
            objects: vec![(0, Vec::new()); OBJECTS],
            replicas: (0..REPLICAS).map(|_| Replica::default()).collect(),
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Look(replica) => self.look(replica),
            Step::WriteSecret(replica) => {
                if let Some((version, contents)) = self.replicas[replica].secret.take()
                    && version == self.secret.0
                {
                    self.secret = (version + 1, Some(contents.data()));
                }
            }
            Step::WriteBundle(replica, object) => {
                if let Some((version, bundle)) = self.replicas[replica].bundles.get(object)
                    && *version == self.objects[object].0
                {
                    self.objects[object] = (version + 1, bundle.clone());
                }
            }
            Step::Restart(replica) => self.replicas[replica] = Replica::default(),
            Step::Pass(hours) => {
                self.round();
                self.now += SignedDuration::from_hours(hours);
                self.uptime += Duration::from_secs(hours.unsigned_abs() * 3600);
            }
            Step::Overwrite(object) => {
                let (version, bundle) = &mut self.objects[object];
                *version += 1;
                bundle.clear();
            }
            Step::Delete => self.secret = (self.secret.0 + 1, None),
            Step::Break(key) => {
                self.secret.0 += 1;
                if let Some(value) = self.secret.1.as_mut().and_then(|data| data.get_mut(key)) {
                    value.0.truncate(value.0.len() / 2);
                }
            }
            Step::SetClock(set) => self.now += days(set),
        }
    }

    fn look(&mut self, index: usize) {
        let stored = self.stored();
        let bundles: Vec<_> = self
            .objects
            .iter()
            .map(|(_, held)| Some(held.clone()))
            .collect();
        let replica = &mut self.replicas[index];
        let next = stored.as_ref().and_then(|stored| stored.next.as_ref());
        let settled = replica.settling.observe(next, &bundles, self.uptime);
        let decided = decide(Seen {
            now: self.now,
            secret: stored.as_ref(),
            serving: replica.serving.as_ref(),
            bundles: &bundles,
            settled,
            jitter: index as f64 / REPLICAS as f64,
        });
        if let Some(serve) = decided.serve {
            replica.serving = Some(serve);
        }
        replica.secret = decided.write.map(|contents| (self.secret.0, contents));
        replica.bundles = match &stored {
            Some(stored) => {
                let versions = self.objects.iter().map(|(version, _)| *version);
                versions
                    .map(|version| (version, stored.trusted()))
                    .collect()
            }
            None => Vec::new(),
        };
    }

    /// Every replica reads, writes, and reads again.
    fn round(&mut self) {
        for replica in 0..REPLICAS {
            for _ in 0..2 {
                self.look(replica);
                self.step(&Step::WriteSecret(replica));
                self.look(replica);
                for object in 0..OBJECTS {
                    self.step(&Step::WriteBundle(replica, object));
                }
            }
        }
    }

    fn stored(&self) -> Option<Contents> {
        let data = self.secret.1.as_ref()?;
        Some(Contents::read(data, &names()))
    }

    /// A violation of the invariant: a replica whose valid certificate is not trusted by some object.
    fn untrusted(&self) -> Option<String> {
        for (number, replica) in self.replicas.iter().enumerate() {
            let Some(serving) = &replica.serving else {
                continue;
            };
            for (object, (_, bundle)) in self.objects.iter().enumerate() {
                if !bundle.contains(serving.authority()) {
                    return Some(format!("replica {number}, object {object}"));
                }
            }
        }
        None
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Without interference, across rotations, restarts and any order of reads and writes, every
    /// replica's certificate is trusted by every object and has not expired.
    #[test]
    fn no_handshake_fails_while_nobody_interferes(steps in weeks()) {
        let mut world = World::new();
        world.round();
        let first = world.stored().unwrap().current;
        for step in &steps {
            world.step(step);
            prop_assert_eq!(world.untrusted(), None, "after {:?}", step);
            for serving in world.replicas.iter().filter_map(|replica| replica.serving.as_ref()) {
                prop_assert!(serving.is_valid_at(world.now), "after {:?}", step);
            }
        }
        // A rotation starts after 60 of 90 days. Each of its two steps may take a day of five, and more
        // if all replicas restart in between.
        if world.now > start() + days(85) {
            prop_assert_ne!(world.stored().unwrap().current, first, "there was a rotation");
        }
    }

    /// After any interference with the Secret, the bundles and the clock, the replicas converge within
    /// a few rounds, and then write nothing more.
    #[test]
    fn it_recovers_from_any_interference_and_comes_to_rest(
        steps in proptest::collection::vec(prop_oneof![3 => work(), 1 => trouble()], 1..80),
    ) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
        }
        for _ in 0..4 {
            world.now += SignedDuration::from_mins(1);
            world.uptime += Duration::from_secs(60);
            world.round();
        }
        prop_assert_eq!(world.untrusted(), None);
        let stored = world.stored().unwrap();
        prop_assert_eq!(&stored.next, &None, "no rotation is left half done");
        for replica in &world.replicas {
            prop_assert_eq!(&replica.serving, &stored.current);
        }
        prop_assert!(stored.current.unwrap().is_valid_at(world.now));
        let (secret, objects) = (world.secret.0, world.objects.clone());
        world.look(0);
        prop_assert!(world.replicas[0].secret.is_none(), "at rest");
        prop_assert_eq!(&world.secret.0, &secret);
        for (_, bundle) in objects {
            prop_assert_eq!(bundle, world.stored().unwrap().trusted());
        }
    }
}
