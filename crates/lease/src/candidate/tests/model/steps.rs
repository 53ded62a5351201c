//! The steps of the model: those of the processes, the network, the API server and its users.

use super::*;

fn identity(process: usize, incarnation: u8) -> Arc<str> {
    format!("{process}.{incarnation}").into()
}

impl World {
    pub(super) fn new(setting: Setting) -> Self {
        let timing = match setting.broken {
            Broken::NoGap => Timing {
                renew_deadline: SHORT.lease_duration + seconds(1),
                ..SHORT
            },
            _ => SHORT,
        };
        let processes = (0..setting.candidates).map(|number| Process {
            candidate: Candidate::new(identity(number, 0), timing, || 0.0, at(OFFSETS[number])),
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

    pub(super) fn now(&self, process: usize) -> Moment {
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
        let (holder, duration) = if held {
            (Arc::clone(&candidate.identity), SHORT.lease_duration)
        } else {
            ("".into(), seconds(1))
        };
        self.version += 1;
        let lease = Lease {
            version: self.version,
            record: Record {
                holder,
                duration,
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

    pub(super) fn enabled(&self, broken: Broken) -> Vec<Action> {
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
            may(process.reply.is_some(), Action::ApiResponse(number));
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

    pub(super) fn apply(&mut self, action: Action, broken: Broken) {
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
            Action::ApiResponse(number) => {
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
                    duration: SHORT.lease_duration,
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
        let timing = self.processes[number].candidate.timing;
        let name = identity(number, self.incarnation);
        let process = &mut self.processes[number];
        process.candidate = Candidate::new(name, timing, || 0.0, now);
        (process.request, process.reply, process.straggler) = (None, None, None);
        process.is_resigning = false;
    }
}
