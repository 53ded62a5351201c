//! Tests of single rules; [`model`] explores all interleavings.

mod model;

use super::*;

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

const fn at(second: u64) -> Moment {
    Moment(seconds(second))
}

fn candidate(now: Moment) -> Candidate {
    Candidate::new("me".into(), TIMING, || 0.0, now)
}

fn held(version: u64, holder: &str, renewed: i64) -> Lease {
    Lease {
        version,
        record: Record {
            holder: holder.into(),
            duration: seconds(15),
            transitions: 3,
            renewed,
        },
    }
}

/// A candidate that has taken the released lease at second 100, as version 10.
fn leader() -> Candidate {
    let mut candidate = reader(100, held(9, "", 1));
    assert_eq!(candidate.next(at(100)), take(9));
    candidate.replied(at(101), Reply::Lease(held(10, "me", 2)));
    assert_eq!(candidate.leads_until(), Some(at(110)));
    candidate
}

const LOOK: Next = Next::Send(Request::Read);

fn replace(version: u64, change: Change) -> Next {
    Next::Send(Request::Replace { version, change })
}

fn renew(version: u64) -> Next {
    replace(version, Change::Renew)
}

fn take(version: u64) -> Next {
    replace(version, Change::Take { transitions: 4 })
}

/// A candidate that has read this lease at this second.
fn reader(second: u64, lease: Lease) -> Candidate {
    let mut candidate = candidate(at(second));
    assert_eq!(candidate.next(at(second)), LOOK);
    candidate.replied(at(second), Reply::Lease(lease));
    candidate
}

#[test]
fn a_lease_is_taken_when_its_record_has_not_changed_for_its_duration_here() {
    // Five minutes ahead, behind, or no time at all: only the change of the value counts.
    for renewed in [300_000_000, -300_000_000, 0] {
        let mut candidate = candidate(at(0));
        candidate.next(at(0));
        candidate.replied(at(1), Reply::Lease(held(5, "other", renewed)));
        assert_eq!(candidate.next(at(1)), Next::Wait(at(7)), "or it asks");
        candidate.observe(at(6), held(6, "other", renewed + 1));
        candidate.observe(at(11), held(7, "other", renewed + 1));
        assert_eq!(candidate.next(at(20)), LOOK, "a label is no renewal");
        candidate.replied(at(20), Reply::Lease(held(7, "other", renewed + 1)));
        assert_eq!(candidate.next(at(20)), Next::Wait(at(21)));
        assert_eq!(candidate.next(at(21)), take(7));
    }
}

#[test]
fn a_lease_without_a_duration_has_ours_and_another_one_its_own() {
    for (given, waits) in [(0, 15), (11, 11), (60, 60)] {
        let mut lease = held(5, "other", 0);
        lease.record.duration = seconds(given);
        let mut candidate = reader(0, lease.clone());
        for second in (6..waits).step_by(6) {
            assert_eq!(candidate.next(at(second - 1)), Next::Wait(at(second)));
            assert_eq!(candidate.next(at(second)), LOOK);
            candidate.replied(at(second), Reply::Lease(lease.clone()));
        }
        assert_eq!(candidate.next(at(waits - 1)), Next::Wait(at(waits)));
        assert_eq!(candidate.next(at(waits)), take(5));
    }
}

#[test]
fn a_renewal_that_fails_is_followed_by_a_look_and_one_more_try_and_then_a_pause() {
    let mut leader = leader();
    assert_eq!(leader.next(at(101)), Next::Wait(at(102)));
    assert_eq!(leader.next(at(102)), renew(10));
    leader.replied(at(102), Reply::Failed);
    assert_eq!(leader.next(at(102)), LOOK);
    leader.replied(at(102), Reply::Lease(held(11, "me", 2)));
    assert_eq!(leader.next(at(102)), renew(11));
    leader.replied(at(102), Reply::Failed);
    assert_eq!(leader.next(at(102)), Next::Wait(at(104)));
    assert_eq!(leader.next(at(110)), Next::Lost(Loss::NotRenewed));
    assert_eq!(leader.leads_until(), None);
}

#[test]
fn an_answer_that_comes_when_the_deadline_has_passed_changes_nothing() {
    let mut leader = leader();
    assert_eq!(leader.next(at(109)), renew(10));
    leader.replied(at(110), Reply::Lease(held(11, "me", 3)));
    assert_eq!(leader.next(at(110)), Next::Lost(Loss::NotRenewed));
}

#[test]
fn a_leader_that_learns_of_another_holder_or_of_none_is_lost_at_once() {
    let mut one = leader();
    one.observe(at(102), held(11, "other", 5));
    assert_eq!(one.leads_until(), None);
    assert_eq!(one.next(at(102)), Next::Lost(Loss::Taken("other".into())));
    let mut one = leader();
    one.observe(at(102), held(11, "", 5));
    assert_eq!(one.next(at(102)), Next::Lost(Loss::Cleared));
}

#[test]
fn what_a_slow_watch_brings_of_earlier_is_no_news() {
    let mut leader = leader();
    leader.observe(at(101), held(8, "other", 5));
    leader.observe(at(101), held(10, "me", 2));
    assert_eq!(leader.next(at(102)), renew(10));
}

#[test]
fn a_deleted_lease_is_created_by_its_holder_and_left_alone_by_others_meanwhile() {
    let mut leader = leader();
    leader.doubt();
    assert_eq!(leader.next(at(101)), LOOK);
    leader.replied(at(101), Reply::Absent);
    let create = Next::Send(Request::Create { transitions: 3 });
    assert_eq!(leader.next(at(101)), create);
    leader.replied(at(101), Reply::Lease(held(12, "me", 6)));
    assert_eq!(leader.leads_until(), Some(at(111)));

    let mut other = reader(100, held(10, "leader", 2));
    other.doubt();
    assert_eq!(other.next(at(101)), LOOK);
    other.replied(at(101), Reply::Absent);
    assert_eq!(other.next(at(101)), Next::Wait(at(116)));
    assert_eq!(other.next(at(116)), create);
}

#[test]
fn another_process_may_have_taken_a_released_lease_before_it_was_deleted() {
    let mut released = held(9, "", 1);
    released.record.duration = seconds(1);
    let mut candidate = reader(0, released);
    candidate.doubt();
    assert_eq!(candidate.next(at(0)), LOOK);
    candidate.replied(at(1), Reply::Absent);
    assert_eq!(candidate.next(at(1)), Next::Wait(at(16)));
    let create = Request::Create { transitions: 3 };
    assert_eq!(candidate.next(at(16)), Next::Send(create));
}

#[test]
fn a_leader_that_resigns_releases_once_and_a_standby_has_nothing_to_release() {
    let mut one = leader();
    one.resign(at(102));
    assert_eq!(one.leads_until(), None);
    assert_eq!(one.next(at(102)), replace(10, Change::Release));
    one.replied(at(102), Reply::Lease(held(11, "", 6)));
    assert_eq!(one.next(at(102)), Next::Done);
    assert!(one.has_released());

    let mut standby = candidate(at(0));
    standby.resign(at(0));
    assert_eq!(standby.next(at(0)), Next::Done);
    assert!(!standby.has_released());
}

#[test]
fn a_release_without_an_answer_is_looked_after() {
    let mut leader = leader();
    leader.resign(at(102));
    leader.next(at(102));
    leader.replied(at(103), Reply::Failed);
    assert_eq!(leader.next(at(103)), LOOK);
    leader.replied(at(103), Reply::Lease(held(11, "", 6)));
    assert_eq!(leader.next(at(103)), Next::Done);
}

#[test]
fn a_write_that_finds_no_lease_has_failed() {
    let mut leader = leader();
    assert_eq!(leader.next(at(102)), renew(10));
    leader.replied(at(102), Reply::Absent);
    assert_eq!(leader.next(at(102)), LOOK, "it looks");
}

#[test]
fn a_release_that_fails_twice_is_tried_again_soon() {
    let mut leader = leader();
    leader.resign(at(102));
    leader.next(at(102));
    leader.replied(at(102), Reply::Failed);
    assert_eq!(leader.next(at(102)), LOOK);
    leader.replied(at(102), Reply::Failed);
    // An eighth of the retry period of 2 s: a process that stops has little time.
    let soon = at(102) + Duration::from_millis(250);
    assert_eq!(leader.next(at(102)), Next::Wait(soon));
}

#[test]
fn a_candidate_that_resigns_while_it_takes_the_lease_gives_it_back() {
    let mut candidate = reader(100, held(9, "", 1));
    candidate.next(at(100));
    candidate.resign(at(100));
    assert!(matches!(candidate.next(at(100)), Next::Wait(_)));
    candidate.replied(at(101), Reply::Lease(held(10, "me", 2)));
    assert_eq!(candidate.leads_until(), None);
    assert_eq!(candidate.next(at(101)), replace(10, Change::Release));
}
