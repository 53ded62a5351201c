//! The settings that are explored, and the broken rules that must be found out.

use super::exploration::explore;
use super::*;

const NO_FAULTS: Budget = budget([0, 0, 0, 0]);
const LOST: Budget = budget([1, 0, 0, 0]);
const RESIGN: Budget = budget([0, 1, 0, 0]);
const CRASH: Budget = budget([0, 0, 1, 0]);
const DELETE: Budget = budget([0, 0, 0, 1]);

const fn budget([lost, resign, crash, delete]: [u8; 4]) -> Budget {
    Budget {
        lost,
        resign,
        crash,
        delete,
    }
}

fn check(candidates: usize, is_direct: bool, budget: Budget) {
    let setting = Setting {
        candidates,
        is_direct,
        budget,
        broken: Broken::Nothing,
    };
    let explored = explore(setting);
    println!(
        "{setting:?}: {} states, at most {} ticks until somebody leads",
        explored.states, explored.longest_wait
    );
    let last = |steps: &Vec<Action>| steps[steps.len().saturating_sub(60)..].to_vec();
    let (violation, stuck) = (explored.violation.as_ref(), explored.stuck.as_ref());
    assert_eq!(violation.map(last), None, "two writers");
    assert_eq!(stuck.map(last), None, "nobody comes to lead");
    assert!(explored.states > 1000, "it explores");
    assert!(explored.longest_wait <= 2 * SHORT.lease_duration.as_secs() + 1);
}

#[test]
fn two_candidates_are_never_two_writers_whatever_is_slow() {
    check(2, false, NO_FAULTS);
}

#[test]
fn lost_messages_make_no_second_writer() {
    check(2, true, LOST);
}

#[test]
fn a_candidate_that_resigns_hands_over() {
    check(2, true, RESIGN);
}

#[test]
fn a_candidate_that_crashes_and_comes_back_is_no_second_writer() {
    check(2, true, CRASH);
}

#[test]
fn a_lease_that_is_deleted_makes_no_second_writer_of_those_who_knew_it() {
    check(2, true, DELETE);
}

#[test]
#[ignore = "takes minutes: cargo test --release -p quartet-lease --lib -- --ignored"]
fn two_candidates_with_any_one_fault_and_any_delay() {
    check(2, false, LOST);
    check(2, false, RESIGN);
    check(2, false, CRASH);
    check(2, false, DELETE);
}

#[test]
#[ignore = "takes minutes: cargo test --release -p quartet-lease --lib -- --ignored"]
fn three_candidates_are_never_two_writers() {
    check(3, true, NO_FAULTS);
}

#[test]
fn every_broken_rule_is_found_out() {
    for (broken, budget) in [
        (Broken::Version, NO_FAULTS),
        (Broken::Fence, NO_FAULTS),
        (Broken::CountsFromReply, NO_FAULTS),
        (Broken::SilenceIsYes, LOST),
        (Broken::ComparesClocks, NO_FAULTS),
        (Broken::DeletedIsFree, DELETE),
        (Broken::NoGap, NO_FAULTS),
        (Broken::ReleasesEarly, RESIGN),
        (Broken::DeletedUnseen, DELETE),
    ] {
        let setting = Setting {
            candidates: 2,
            is_direct: true,
            budget,
            broken,
        };
        let violation = explore(setting).violation;
        assert!(violation.is_some(), "{broken:?} is not found out");
    }
}
