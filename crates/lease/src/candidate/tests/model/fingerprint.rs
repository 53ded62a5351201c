//! States that differ only in the absolute time or in the names of versions are equal: they have one
//! fingerprint.

use std::hash::BuildHasher as _;

use foldhash::quality::FixedState;

use super::*;

/// A hash of the relevant state, with remaining instead of absolute times, and versions replaced by
/// their order.
pub(super) fn fingerprint(world: &World) -> u64 {
    let mut world = world.clone();
    let mut versions = vec![0, world.version];
    let mut collect = |version: &mut u64| versions.push(*version);
    visit(&mut world, &mut collect, &mut |_, _, _| {});
    versions.sort_unstable();
    versions.dedup();
    let time = world.time;
    let rank =
        |version: &mut u64| *version = versions.partition_point(|other| other < version) as u64;
    visit(&mut world, &mut { rank }, &mut |moment, offset, matters| {
        let relative = (moment.0.as_secs() + 10).saturating_sub(time + offset);
        *moment = at(relative.max(10 - matters.as_secs()));
    });
    for process in &mut world.processes {
        process.writes_until = process.writes_until.saturating_sub(time);
    }
    rank(&mut world.version);
    (world.time, world.written) = (0, at(0));
    FixedState::default().hash_one(world)
}

/// Calls `version` with every version in a world, and `moment` with every time, the offset of its
/// clock, and the age up to which it is relevant; removes irrelevant values.
fn visit(
    world: &mut World,
    version: &mut impl FnMut(&mut u64),
    moment: &mut impl FnMut(&mut Moment, u64, Duration),
) {
    let mut lease = |lease: &mut Lease| {
        version(&mut lease.version);
        lease.record.renewed = lease.version as i64;
        lease.record.transitions = 0;
    };
    if let Some(held) = &mut world.lease {
        lease(held);
    }
    for (process, offset) in world.processes.iter_mut().zip(OFFSETS) {
        if let Some(Reply::Lease(replied)) = &mut process.reply {
            lease(replied);
        }
        let candidate = &mut process.candidate;
        candidate.transitions = 0;
        // With these durations a lease expires before its silence is noticed.
        candidate.heard = at(0);
        moment(&mut candidate.paused_until, offset, Duration::ZERO);
        match &mut candidate.known {
            Known::Nothing => {}
            Known::Absent { free } => moment(free, offset, Duration::ZERO),
            Known::Lease {
                lease: known,
                changed,
            } => {
                lease(known);
                moment(changed, offset, SHORT.lease_duration);
            }
        }
        let deadline = candidate.timing.renew_deadline;
        if let Role::Leading { renewed } = &mut candidate.role {
            moment(renewed, offset, deadline);
        }
        if let Some(sent) = &mut candidate.in_flight {
            moment(&mut sent.at, offset, deadline);
        }
    }
    for process in &mut world.processes {
        let candidate = &mut process.candidate;
        version(&mut candidate.version);
        let sent = candidate.in_flight.as_mut().map(|sent| &mut sent.request);
        for request in [sent, process.request.as_mut(), process.straggler.as_mut()] {
            match request {
                Some(Request::Replace {
                    version: replaced,
                    change,
                }) => {
                    version(replaced);
                    if let Change::Take { transitions } = change {
                        *transitions = 0;
                    }
                }
                Some(Request::Create { transitions }) => *transitions = 0,
                Some(Request::Read) | None => {}
            }
        }
    }
}
