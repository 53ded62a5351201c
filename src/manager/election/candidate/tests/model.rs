//! Model checking of two or three candidates: requests and replies that are slow, lost or late; a watch
//! that is late or silent; processes that pause for any time between any two steps, crash, restart or
//! resign; a deleted lease; clocks that show different times.
//!
//! The invariant of every state: no two processes may write, including one that leads and one whose
//! last write is in progress. From every n-th state, without further faults, a process becomes leader
//! within two lease durations and a retry period.
//!
//! The number of states is finite: states that differ only in the absolute time or in the names of
//! versions are equal.
//!
//! The variants validate the check: each breaks one rule, and must be detected.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::*;

/// One tick of time is a second of these.
const SHORT: Terms = Terms {
    lease: seconds(3),
    renew_deadline: seconds(2),
    retry: seconds(1),
};

/// The clock of each process has one of these offsets to the model's time.
const OFFSETS: [u64; 3] = [1000, 998, 1005];

/// A broken rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Broken {
    Nothing,
    /// The API server accepts a write with any version.
    Version,
    /// A write is allowed by the last known role of the process, not by the time.
    Fence,
    /// A renewal counts from its reply.
    CountsFromReply,
    /// A write without a reply counts as successful.
    SilenceIsYes,
    /// The age of a lease is the local time minus the time in its record.
    ComparesClocks,
    /// A deleted lease can be acquired at once.
    DeletedIsFree,
    /// The holder acts for as long as other candidates wait, so that a write may be in progress.
    NoGap,
    /// The lease is released while writes are in progress.
    ReleasesEarly,
    /// Not a rule: a lease is deleted before all processes have seen it. A process that has not seen it
    /// acquires the next one at once, which is not excluded.
    DeletedUnseen,
}

/// The kinds of faults, and their maximum numbers.
#[derive(Debug, Clone, Copy, Hash)]
struct Budget {
    /// Requests or replies that do not arrive in time.
    lost: u8,
    /// Processes that resign.
    resign: u8,
    /// Processes that crash and restart.
    crash: u8,
    /// Deletions of the lease.
    delete: u8,
}

#[derive(Debug, Clone, Copy)]
struct Setting {
    candidates: usize,
    /// Requests arrive at the API server at once; only replies are delayed.
    is_direct: bool,
    budget: Budget,
    broken: Broken,
}

#[derive(Clone, Hash)]
struct Process {
    candidate: Candidate,
    /// Sent, but not at the API server yet.
    request: Option<Request>,
    /// The reply, in transit.
    reply: Option<Reply>,
    /// A request that timed out and may still arrive.
    straggler: Option<Request>,
    /// The time by which allowed writes have ended.
    writes_until: u64,
    is_resigning: bool,
}

#[derive(Clone, Hash)]
struct World {
    time: u64,
    lease: Option<Lease>,
    version: u64,
    /// When the lease was last written, by the clock of its writer.
    written: Moment,
    budget: Budget,
    processes: Vec<Process>,
    incarnation: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Tick,
    Run(usize),
    Arrive(usize),
    Answer(usize),
    GiveUp(usize),
    ArriveLate(usize),
    Watch(usize),
    Resign(usize),
    Crash(usize),
    Delete,
}

fn identity(process: usize, incarnation: u8) -> Arc<str> {
    format!("{process}.{incarnation}").into()
}

impl World {
    fn new(setting: Setting) -> Self {
        let terms = match setting.broken {
            Broken::NoGap => Terms {
                renew_deadline: SHORT.lease + seconds(1),
                ..SHORT
            },
            _ => SHORT,
        };
        let processes = (0..setting.candidates).map(|number| Process {
            candidate: Candidate::new(identity(number, 0), terms, || 0.0, at(OFFSETS[number])),
            request: None,
            reply: None,
            straggler: None,
            writes_until: 0,
            is_resigning: false,
        });
        World {
            time: 0,
            lease: None,
            version: 0,
            written: at(0),
            budget: setting.budget,
            processes: processes.collect(),
            incarnation: 0,
        }
    }

    fn now(&self, process: usize) -> Moment {
        at(self.time + OFFSETS[process])
    }

    /// The API server.
    fn serve(&mut self, process: usize, request: &Request, broken: Broken) -> Reply {
        let candidate = &self.processes[process].candidate;
        let (held, transitions) = match (request, &self.lease) {
            (Request::Read, Some(lease)) => return Reply::Lease(lease.clone()),
            (Request::Read, None) => return Reply::Absent,
            (Request::Create { transitions }, None) => (true, *transitions),
            (Request::Replace { version, change }, Some(lease))
                if lease.version == *version || broken == Broken::Version =>
            {
                match change {
                    Change::Take { transitions } => (true, *transitions),
                    Change::Renew => (true, lease.record.transitions),
                    Change::Release => (false, lease.record.transitions),
                }
            }
            _ => return Reply::Failed,
        };
        let (holder, duration) = match held {
            true => (Arc::clone(&candidate.identity), SHORT.lease),
            false => ("".into(), seconds(1)),
        };
        self.version += 1;
        let lease = Lease {
            version: self.version,
            record: Record {
                holder,
                duration: Some(duration),
                transitions,
                renewed: self.version as i64,
            },
        };
        self.written = self.now(process);
        self.lease = Some(lease.clone());
        Reply::Lease(lease)
    }

    /// Delivers a reply to a process, changed as by the broken rule.
    fn deliver(&mut self, number: usize, reply: Reply, broken: Broken) {
        let now = self.now(number);
        let candidate = &mut self.processes[number].candidate;
        if let (Broken::CountsFromReply, Some(sent)) = (broken, &mut candidate.in_flight) {
            sent.at = now;
        }
        candidate.replied(now, reply);
        self.distort(number, broken);
    }

    /// Applies the broken rule to the state of a process after an input.
    fn distort(&mut self, number: usize, broken: Broken) {
        let now = self.now(number);
        match (broken, &mut self.processes[number].candidate.known) {
            (Broken::ComparesClocks, Known::Lease { changed, .. }) => *changed = self.written,
            (Broken::DeletedIsFree, Known::Absent { free }) => *free = now,
            _ => {}
        }
    }

    fn enabled(&self, broken: Broken) -> Vec<Action> {
        let mut actions = vec![Action::Tick];
        let may_delete = self.is_known() || broken == Broken::DeletedUnseen;
        if self.budget.delete > 0 && self.lease.is_some() && may_delete {
            actions.push(Action::Delete);
        }
        for (number, process) in self.processes.iter().enumerate() {
            let mut may = |is_enabled: bool, action| {
                if is_enabled {
                    actions.push(action);
                }
            };
            let is_waiting = process.candidate.in_flight.is_some();
            may(!is_waiting, Action::Run(number));
            may(process.request.is_some(), Action::Arrive(number));
            may(process.reply.is_some(), Action::Answer(number));
            let may_lose = self.budget.lost > 0 && is_waiting;
            may(may_lose, Action::GiveUp(number));
            may(process.straggler.is_some(), Action::ArriveLate(number));
            may(self.is_news(number), Action::Watch(number));
            let may_resign = self.budget.resign > 0 && !process.is_resigning;
            may(may_resign, Action::Resign(number));
            may(self.budget.crash > 0, Action::Crash(number));
        }
        actions
    }

    /// Whether all processes have seen the lease.
    fn is_known(&self) -> bool {
        let mut processes = self.processes.iter();
        processes.all(|process| matches!(process.candidate.known, Known::Lease { .. }))
    }

    /// Whether the watch of this process has an undelivered event.
    fn is_news(&self, number: usize) -> bool {
        let candidate = &self.processes[number].candidate;
        match &self.lease {
            Some(lease) => lease.version > candidate.version,
            None => !candidate.is_unsure && matches!(candidate.known, Known::Lease { .. }),
        }
    }

    fn apply(&mut self, action: Action, broken: Broken) {
        match action {
            Action::Tick => self.time += 1,
            Action::Run(number) => {
                let now = self.now(number);
                let process = &mut self.processes[number];
                if let Next::Send(request) = process.candidate.next(now) {
                    process.request = Some(request);
                }
            }
            Action::Arrive(number) => {
                if let Some(request) = self.processes[number].request.take() {
                    self.processes[number].reply = Some(self.serve(number, &request, broken));
                }
            }
            Action::Answer(number) => {
                if let Some(reply) = self.processes[number].reply.take() {
                    self.deliver(number, reply, broken);
                }
            }
            Action::GiveUp(number) => self.give_up(number, broken),
            Action::ArriveLate(number) => {
                if let Some(request) = self.processes[number].straggler.take() {
                    self.serve(number, &request, broken);
                }
            }
            Action::Watch(number) if !self.is_news(number) => {}
            Action::Watch(number) => {
                let now = self.now(number);
                let candidate = &mut self.processes[number].candidate;
                match &self.lease {
                    Some(lease) => candidate.observe(now, lease.clone()),
                    None => candidate.doubt(),
                }
                self.distort(number, broken);
            }
            Action::Resign(number) => {
                self.budget.resign -= 1;
                let now = self.now(number);
                let process = &mut self.processes[number];
                process.is_resigning = true;
                process.candidate.resign(now);
                if broken != Broken::ReleasesEarly {
                    process.writes_until = 0;
                }
            }
            Action::Crash(number) => self.crash(number),
            Action::Delete => {
                self.budget.delete -= 1;
                self.version += 1;
                self.lease = None;
            }
        }
        self.note_writes(broken);
    }

    fn give_up(&mut self, number: usize, broken: Broken) {
        self.budget.lost -= 1;
        let process = &mut self.processes[number];
        let (unserved, _) = (process.request.take(), process.reply.take());
        let sent = process.candidate.in_flight.as_ref();
        let is_read = sent.is_some_and(|sent| sent.request == Request::Read);
        if unserved.is_some() && !is_read {
            process.straggler = unserved;
        }
        let reply = match (broken, is_read) {
            (Broken::SilenceIsYes, false) => Reply::Lease(Lease {
                version: process.candidate.version + 1,
                record: Record {
                    holder: Arc::clone(&process.candidate.identity),
                    duration: Some(SHORT.lease),
                    transitions: 0,
                    renewed: 0,
                },
            }),
            _ => Reply::Failed,
        };
        self.deliver(number, reply, broken);
    }

    fn crash(&mut self, number: usize) {
        self.budget.crash -= 1;
        self.incarnation += 1;
        let now = self.now(number);
        let terms = self.processes[number].candidate.terms;
        let name = identity(number, self.incarnation);
        let process = &mut self.processes[number];
        process.candidate = Candidate::new(name, terms, || 0.0, now);
        (process.request, process.reply, process.straggler) = (None, None, None);
        process.is_resigning = false;
    }

    fn may_write(&self, number: usize, broken: Broken) -> Option<u64> {
        let candidate = &self.processes[number].candidate;
        let (begin, end) = candidate.leads_until()?;
        let is_open = self.now(number) < begin || broken == Broken::Fence;
        is_open.then(|| end.0.as_secs() - OFFSETS[number])
    }

    /// Every process that may write starts a write, which takes the maximum time.
    fn note_writes(&mut self, broken: Broken) {
        for number in 0..self.processes.len() {
            if let Some(end) = self.may_write(number, broken) {
                let process = &mut self.processes[number];
                process.writes_until = process.writes_until.max(end);
            }
        }
    }

    fn has_two_writers(&self, broken: Broken) -> bool {
        let may_write = |number: &usize| self.may_write(*number, broken).is_some();
        let writes =
            |other: &usize| may_write(other) || self.processes[*other].writes_until > self.time;
        let all = 0..self.processes.len();
        all.clone().filter(may_write).any(|one| {
            all.clone()
                .filter(|other| *other != one)
                .any(|other| writes(&other))
        })
    }

    fn wants_to_lead(&self) -> bool {
        self.processes.iter().any(|process| {
            let role = &process.candidate.role;
            !process.is_resigning && matches!(role, Role::Standby | Role::Leading { .. })
        })
    }

    /// The time until a process leads, without faults and delays from now on.
    fn time_to_lead(mut self) -> Option<u64> {
        let began = self.time;
        while self.time <= began + 10 {
            for _ in 0..8 {
                for number in 0..self.processes.len() {
                    for action in [
                        Action::Arrive(number),
                        Action::Answer(number),
                        Action::Watch(number),
                        Action::Run(number),
                    ] {
                        self.apply(action, Broken::Nothing);
                    }
                }
            }
            let mut all = 0..self.processes.len();
            let leads = all.any(|number| self.may_write(number, Broken::Nothing).is_some());
            if leads || !self.wants_to_lead() {
                return Some(self.time - began);
            }
            self.time += 1;
        }
        None
    }
}

/// The result of exploring a setting.
struct Explored {
    states: usize,
    /// The actions that lead to two writers.
    violation: Option<Vec<Action>>,
    /// The actions that lead to a state without a leader in time.
    stuck: Option<Vec<Action>>,
    longest_wait: u64,
}

/// A hash of the relevant state, with remaining instead of absolute times, and versions replaced by
/// their order.
fn fingerprint(world: &World) -> u64 {
    let mut world = world.clone();
    let mut versions = vec![0, world.version];
    visit(
        &mut world,
        &mut |version| versions.push(*version),
        &mut |_, _, _| {},
    );
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
    let mut hasher = DefaultHasher::new();
    world.hash(&mut hasher);
    hasher.finish()
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
                moment(changed, offset, SHORT.lease);
            }
        }
        let deadline = candidate.terms.renew_deadline;
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

/// One in this number of states is checked for becoming leader.
const SAMPLE: u64 = 1024;

fn explore(setting: Setting) -> Explored {
    let mut explored = Explored {
        states: 0,
        violation: None,
        stuck: None,
        longest_wait: 0,
    };
    let mut seen = HashSet::new();
    let first = World::new(setting);
    seen.insert(fingerprint(&first));
    // Depth first: each world on the current path, and its untried actions.
    let mut way = vec![(first.enabled(setting.broken), first, Action::Tick)];
    while let Some((actions, world, _)) = way.last_mut() {
        let Some(action) = actions.pop() else {
            way.pop();
            continue;
        };
        let mut next = world.clone();
        next.apply(action, setting.broken);
        if let (Action::Run(number), true) = (action, setting.is_direct) {
            next.apply(Action::Arrive(number), setting.broken);
        }
        let fingerprint = fingerprint(&next);
        if !seen.insert(fingerprint) {
            continue;
        }
        explored.states += 1;
        let steps = || {
            let before = way.iter().skip(1).map(|(_, _, action)| *action);
            before.chain([action]).collect::<Vec<_>>()
        };
        if next.has_two_writers(setting.broken) {
            explored.violation = Some(steps());
            return explored;
        }
        if setting.broken == Broken::Nothing
            && fingerprint.is_multiple_of(SAMPLE)
            && next.wants_to_lead()
        {
            match next.clone().time_to_lead() {
                Some(wait) => explored.longest_wait = explored.longest_wait.max(wait),
                None => {
                    explored.stuck = Some(steps());
                    return explored;
                }
            }
        }
        way.push((next.enabled(setting.broken), next, action));
    }
    explored
}

const NO_FAULTS: Budget = Budget {
    lost: 0,
    resign: 0,
    crash: 0,
    delete: 0,
};

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
    assert!(explored.longest_wait <= 2 * SHORT.lease.as_secs() + 1);
}

#[test]
fn two_candidates_are_never_two_writers_whatever_is_slow() {
    check(2, false, NO_FAULTS);
}

#[test]
fn lost_messages_make_no_second_writer() {
    check(
        2,
        true,
        Budget {
            lost: 1,
            ..NO_FAULTS
        },
    );
}

#[test]
fn a_candidate_that_resigns_hands_over() {
    check(
        2,
        true,
        Budget {
            resign: 1,
            ..NO_FAULTS
        },
    );
}

#[test]
fn a_candidate_that_crashes_and_comes_back_is_no_second_writer() {
    check(
        2,
        true,
        Budget {
            crash: 1,
            ..NO_FAULTS
        },
    );
}

#[test]
fn a_lease_that_is_deleted_makes_no_second_writer_of_those_who_knew_it() {
    check(
        2,
        true,
        Budget {
            delete: 1,
            ..NO_FAULTS
        },
    );
}

#[test]
#[ignore = "takes minutes: cargo test --release --lib election -- --ignored"]
fn two_candidates_with_any_one_fault_and_any_delay() {
    check(
        2,
        false,
        Budget {
            lost: 1,
            ..NO_FAULTS
        },
    );
    check(
        2,
        false,
        Budget {
            resign: 1,
            ..NO_FAULTS
        },
    );
    check(
        2,
        false,
        Budget {
            crash: 1,
            ..NO_FAULTS
        },
    );
    check(
        2,
        false,
        Budget {
            delete: 1,
            ..NO_FAULTS
        },
    );
}

#[test]
#[ignore = "takes minutes: cargo test --release --lib election -- --ignored"]
fn three_candidates_are_never_two_writers() {
    check(3, true, NO_FAULTS);
}

#[test]
fn every_broken_rule_is_found_out() {
    for (broken, budget) in [
        (Broken::Version, NO_FAULTS),
        (Broken::Fence, NO_FAULTS),
        (Broken::CountsFromReply, NO_FAULTS),
        (
            Broken::SilenceIsYes,
            Budget {
                lost: 1,
                ..NO_FAULTS
            },
        ),
        (Broken::ComparesClocks, NO_FAULTS),
        (
            Broken::DeletedIsFree,
            Budget {
                delete: 1,
                ..NO_FAULTS
            },
        ),
        (Broken::NoGap, NO_FAULTS),
        (
            Broken::ReleasesEarly,
            Budget {
                resign: 1,
                ..NO_FAULTS
            },
        ),
        (
            Broken::DeletedUnseen,
            Budget {
                delete: 1,
                ..NO_FAULTS
            },
        ),
    ] {
        let setting = Setting {
            candidates: 2,
            is_direct: true,
            budget,
            broken,
        };
        let explored = explore(setting);
        let violation = explored.violation;
        let steps = violation.unwrap_or_else(|| panic!("{broken:?} is not found out"));
        println!("{broken:?}: found out after {} states", explored.states);
        println!("  in {} steps", steps.len());
    }
}
