//! Random histories: no handshake fails while nobody interferes, and all recovers from interference.

use proptest::prelude::*;

use super::world::{OBJECTS, REPLICAS, Step, World};
use super::*;

fn work() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..REPLICAS).prop_map(Step::Look),
        3 => (0..REPLICAS).prop_map(Step::WriteSecret),
        4 => (0..REPLICAS, 0..OBJECTS).prop_map(|(replica, object)| Step::WriteBundle(replica, object)),
        1 => (0..REPLICAS).prop_map(Step::Restart),
    ]
}

fn running() -> impl Strategy<Value = Step> {
    work().prop_filter("no restart", |step| !matches!(step, Step::Restart(_)))
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
    let keys = "tls.crt tls.key ca.crt next-tls.key next-ca.crt old-ca.crt";
    let keys = keys.split(' ').collect::<Vec<_>>();
    prop_oneof![
        (0..OBJECTS).prop_map(Step::Overwrite),
        Just(Step::Delete),
        Just(Step::Replace),
        proptest::sample::select(keys).prop_map(Step::Break),
        proptest::sample::select(vec![-4000, -91, -30, 30, 91, 4000]).prop_map(Step::SetClock),
    ]
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
                prop_assert!(serving.pair.validity.contains(world.now), "after {:?}", step);
            }
        }
        // A rotation starts after 60 of 90 days. Each of its two steps may take a day of five, and more
        // if all replicas restart in between.
        if world.now > start() + days(85) {
            prop_assert_ne!(world.stored().unwrap().current, first, "there was a rotation");
        }
    }

    /// Once, and without a restart at the same time: a replica that starts does not know what others serve,
    /// nor do those that have not followed the first of two replacements.
    #[test]
    fn no_handshake_fails_when_the_secret_is_replaced_by_a_valid_one(
        before in proptest::collection::vec(running(), 0..40),
        after in proptest::collection::vec(running(), 1..40),
    ) {
        let mut world = World::new();
        world.round();
        for step in before.iter().chain([&Step::Replace]).chain(&after) {
            world.step(step);
            prop_assert_eq!(world.untrusted(), None, "after {:?}", step);
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
        prop_assert!(stored.current.unwrap().pair.validity.contains(world.now));
        let (secret, objects) = (world.secret.0, world.objects.clone());
        world.look(0);
        prop_assert!(world.replicas[0].secret.is_none(), "at rest");
        prop_assert_eq!(&world.secret.0, &secret);
        for (_, bundle) in objects {
            prop_assert_eq!(bundle, world.stored().unwrap().trusted());
        }
    }
}
