//! Single decisions of a replica, by example.

use k8s_openapi::ByteString;

use super::*;
use crate::identity::LIFE;

#[test]
fn nothing_is_done_about_a_young_pair_until_two_thirds_of_its_life() {
    let identity = made(start());
    let stored = holding(&identity);
    let bundles = [Some(stored.trusted())];
    let mut at = seen(start() + days(59), Some(&stored), Some(&identity), &bundles);
    let decided = decide(at);
    assert_eq!((&decided.write, &decided.serve), (&None, &None));
    assert_eq!(decided.pause, REGULAR_CHECK);

    at.now = renewal(&identity) - SignedDuration::from_secs(1);
    assert_eq!(decide(at).write, None);
    at.now = renewal(&identity);
    assert!(at.now <= start() + days(60));
    let staged = decide(at);
    let staged = staged.write.unwrap();
    assert_eq!(staged.current.as_ref(), Some(&identity), "still in use");
    assert!(staged.next.is_some());
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
        assert_eq!(decided.pause, SETTLE);
    }
    let bundles = vec![Some(both); 2];
    let promoted = decide(seen(now, Some(&staged), Some(&identity), &bundles));
    let promoted = promoted.write.unwrap();
    assert_eq!(promoted.current, Some(next));
    assert_eq!(promoted.next, None);
    assert_eq!(promoted.old, std::slice::from_ref(&identity.authority));
}

#[test]
fn a_pair_that_has_expired_is_replaced_without_waiting() {
    let late = start() + LIFE + days(1);
    let (expired, next) = (made(start()), made(late));
    let stored = read(&holding(&expired).data(), late);
    assert_eq!(stored.old, std::slice::from_ref(&expired.authority));
    let decided = decide(seen(late, Some(&stored), Some(&expired), &[None]));
    let fresh = decided.write.unwrap();
    let validity = fresh.current.unwrap().pair.validity;
    assert!(validity.contains(late));
    assert_eq!(fresh.next, None);

    let staged = Contents {
        next: Some(next.clone()),
        ..stored
    };
    let decided = decide(seen(late, Some(&staged), Some(&expired), &[None]));
    assert_eq!(decided.write.unwrap().current, Some(next));
}

#[test]
fn a_broken_secret_is_made_anew_and_its_readable_authorities_stay_trusted() {
    let identity = made(start());
    for broken in ["tls.crt", "tls.key"] {
        let mut data = holding(&identity).data();
        data.insert(broken.to_owned(), ByteString(b"garbage".to_vec()));
        let stored = read(&data, start());
        assert_eq!(stored.current, None);
        let anew = decide(seen(start(), Some(&stored), None, &[]));
        let anew = anew.write.unwrap();
        assert!(anew.current.is_some());
        assert_eq!(anew.old, std::slice::from_ref(&identity.authority));
    }
    let mut data = holding(&identity).data();
    data.insert("ca.crt".to_owned(), ByteString(vec![0xff, 0xfe]));
    let stored = read(&data, start());
    assert_eq!(stored, Contents::default());
}

#[test]
fn a_pair_for_another_service_is_made_anew() {
    let other = issue(&["other.test.svc".to_owned()], start(), LIFE).unwrap();
    let stored = read(&holding(&other).data(), start());
    let anew = decide(seen(start(), Some(&stored), None, &[]));
    let anew = anew.write.unwrap();
    assert_ne!(anew.current, Some(other));
}

#[test]
fn what_is_written_is_read_back_the_same() {
    let contents = Contents {
        current: Some(made(start())),
        next: Some(made(start())),
        old: vec![made(start()).authority, made(start()).authority],
    };
    assert_eq!(read(&contents.data(), start()), contents);
    assert_eq!(contents.trusted().len(), 4);
}
