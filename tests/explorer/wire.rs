//! The connection of one process to the API server: counts writes and events, injects the faults of the
//! plan at their numbers, and records the requests.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use modelapi::{
    Answer, ApiServer, Call, Counter, Delivery, EventFault as Happens, Moment, Network,
    RequestFault, Target,
};
use tokio::sync::mpsc;

use super::plan::{EventFault, Fault, Outdated, Plan, View, WriteFault};

/// How long [`WriteFault::Outage`] and [`WriteFault::Webhook`] last.
pub(super) const OUTAGE: Duration = Duration::from_secs(60);
/// The delay of the answer in [`WriteFault::Late`].
const LATE: Duration = Duration::from_secs(3);
/// How long a process that listed an old state receives no later events.
const STALE_FOR: Duration = Duration::from_secs(3);

/// Requests to the supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    /// This process has crashed.
    Crashed,
    /// Kill this process, and start another with this view.
    Restart(View),
    /// Transfer the leadership to the other process.
    NewLeader,
}

/// A recorded request.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) at: Duration,
    pub(super) process: usize,
    pub(super) target: Target,
    /// Whether the process led when it was sent.
    pub(super) leads: bool,
    /// The answer of the API server; `None` if the request did not reach it.
    pub(super) code: Option<u16>,
    /// The end of the `Retry-After` of a 429.
    pub(super) held_until: Option<Duration>,
}

/// The state shared by all processes of a run.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) server: ApiServer,
    faults: Vec<Fault>,
    state: Mutex<State>,
    /// Number of delivered events.
    events: Arc<Counter>,
    signals: mpsc::UnboundedSender<Signal>,
    late_events: bool,
    /// Plural of the explored kind.
    resources: &'static str,
}

#[derive(Debug, Default)]
struct State {
    journal: Vec<Asked>,
    writes: usize,
    outage_until: Option<Duration>,
    /// The resource whose writes are rejected, and until when.
    rejected: Option<(String, Duration)>,
    /// When the last fault was injected or ended.
    last_fault: Duration,
    /// Number of injected faults of the plan.
    made: usize,
}

impl Run {
    pub(super) fn new(
        server: ApiServer,
        plan: &Plan,
        signals: mpsc::UnboundedSender<Signal>,
    ) -> Arc<Self> {
        Arc::new(Run {
            server,
            faults: plan.faults.clone(),
            state: Mutex::default(),
            events: Arc::default(),
            signals,
            late_events: plan.tempo.late_events,
            resources: plan.subject().operator().kind().plural,
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn journal(&self) -> Vec<Asked> {
        self.lock().journal.clone()
    }

    /// Number of writes and events.
    pub(super) fn counts(&self) -> (usize, usize) {
        let events = usize::try_from(self.events.get()).unwrap_or(usize::MAX);
        (self.lock().writes, events)
    }

    pub(super) fn last_fault(&self) -> Duration {
        self.lock().last_fault
    }

    pub(super) fn made(&self) -> usize {
        self.lock().made
    }

    fn fault_happens(&self, until: Duration) {
        let mut state = self.lock();
        state.made += 1;
        state.last_fault = state.last_fault.max(until);
    }
}

/// See the top of this file.
pub(super) struct Wire {
    pub(super) run: Arc<Run>,
    pub(super) process: usize,
    view: View,
    began: Duration,
    /// The plurals that were listed and watched: the old state is shown only once.
    shown: Mutex<Vec<(String, &'static str)>>,
    is_dead: AtomicBool,
    leads: Arc<AtomicBool>,
    /// The revision at its start.
    pub(super) base: u64,
}

impl Wire {
    pub(super) fn new(
        run: &Arc<Run>,
        process: usize,
        view: View,
        leads: &Arc<AtomicBool>,
    ) -> Arc<Self> {
        Arc::new(Wire {
            run: Arc::clone(run),
            process,
            view,
            began: run.server.elapsed(),
            shown: Mutex::default(),
            is_dead: AtomicBool::new(false),
            leads: Arc::clone(leads),
            base: run.server.revision(),
        })
    }

    pub(super) fn kill(&self) {
        self.is_dead.store(true, Ordering::SeqCst);
    }

    fn leads(&self) -> bool {
        self.leads.load(Ordering::SeqCst)
    }

    /// Whether this is the first request with this verb for this resource.
    fn is_first(&self, target: &Target, verb: &'static str) -> bool {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = (target.resource.clone(), verb);
        let is_first = !shown.contains(&entry);
        if is_first {
            shown.push(entry);
        }
        is_first
    }

    /// Whether the first list of these objects is outdated.
    fn is_outdated(&self, plural: &str) -> bool {
        let is_resource = plural == self.run.resources;
        match self.view {
            View::List(Outdated::All, _) => true,
            View::List(Outdated::Resources, _) => is_resource,
            View::List(Outdated::Children, _) => !is_resource,
            View::Fresh | View::Watch(_) => false,
        }
    }

    fn write_fault(&self, number: usize, target: &Target) -> Option<WriteFault> {
        let now = self.run.server.elapsed();
        let mut state = self.run.lock();
        if state.outage_until.is_some_and(|until| now < until) {
            return Some(WriteFault::Outage);
        }
        let is_rejected =
            |(resource, until): &(String, Duration)| *resource == target.resource && now < *until;
        if state.rejected.as_ref().is_some_and(is_rejected) {
            return Some(WriteFault::Webhook);
        }
        let found = self.run.faults.iter().find_map(|fault| match fault {
            Fault::Write(nth, fault) if *nth == number => Some(*fault),
            _ => None,
        })?;
        let mut until = now;
        if found == WriteFault::Outage {
            until += OUTAGE;
            state.outage_until = Some(until);
        }
        if found == WriteFault::Webhook {
            until += OUTAGE;
            state.rejected = Some((target.resource.clone(), until));
        }
        drop(state);
        self.run.fault_happens(until);
        Some(found)
    }

    fn note(&self, target: &Target, code: Option<u16>) {
        let at = self.run.server.elapsed();
        self.run.lock().journal.push(Asked {
            at,
            process: self.process,
            target: target.clone(),
            leads: self.leads(),
            code,
            held_until: None,
        });
    }
}

impl Network for Wire {
    fn request(&self, _call: &Call, target: &Target) -> RequestFault {
        if !target.is_write() {
            self.note(target, None);
            return RequestFault::None;
        }
        let number = {
            let mut state = self.run.lock();
            state.writes += 1;
            state.writes - 1
        };
        self.note(target, None);
        let failure = |code, reason, message| Answer::failure(code, reason, message);
        match self.write_fault(number, target) {
            None => RequestFault::None,
            Some(WriteFault::CrashBefore) => RequestFault::Crash(Moment::Sent),
            Some(WriteFault::CrashAfter) => RequestFault::Crash(Moment::Obeyed),
            Some(WriteFault::CrashAnswered) => RequestFault::Crash(Moment::Answered),
            Some(WriteFault::Timeout) => RequestFault::Lost,
            Some(WriteFault::Conflict) => {
                let what = "the object has been modified";
                RequestFault::Rejected(failure(409, "Conflict", what))
            }
            Some(WriteFault::TooMany) => {
                let mut answer = failure(429, "TooManyRequests", "please try again later");
                answer.retry_after = Some(2);
                RequestFault::Rejected(answer)
            }
            Some(WriteFault::ObeyedBut500) => {
                RequestFault::ObeyedBut(failure(500, "InternalError", "etcd lost its leader"))
            }
            Some(WriteFault::Cut) => RequestFault::Cut,
            Some(WriteFault::Late) => RequestFault::Late(LATE),
            Some(WriteFault::Webhook) => {
                let what = "failed calling webhook \"theirs.example.com\": no endpoints available";
                RequestFault::Rejected(failure(500, "InternalError", what))
            }
            Some(WriteFault::Outage) => {
                RequestFault::Rejected(failure(503, "ServiceUnavailable", "no endpoints"))
            }
        }
    }

    fn answered(&self, _call: &Call, target: &Target, answer: &Answer) {
        let now = self.run.server.elapsed();
        let mut state = self.run.lock();
        let mut journal = state.journal.iter_mut().rev();
        let asked = journal
            .find(|it| it.process == self.process && it.target == *target && it.code.is_none());
        if let Some(asked) = asked {
            asked.code = Some(answer.code);
            let asks_to_wait = answer.retry_after.filter(|_| answer.code == 429);
            asked.held_until = asks_to_wait.map(|seconds| now + Duration::from_secs(seconds));
        }
    }

    fn crash(&self) {
        self.kill();
        let _ = self.run.signals.send(Signal::Crashed);
    }

    fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::SeqCst)
    }

    fn event(&self, _delivery: &Delivery<'_>) -> Happens {
        // Events of a standby are not part of the plan.
        if !self.leads() {
            return Happens::None;
        }
        let number = self.run.events.next();
        let now = self.run.server.elapsed();
        let mut happens = Happens::None;
        for fault in &self.run.faults {
            match fault {
                Fault::Event(nth, fault) if *nth as u64 == number => {
                    happens = match fault {
                        EventFault::Dropped => Happens::Dropped,
                        EventFault::Doubled => Happens::Doubled,
                        EventFault::Expired => Happens::Expired,
                        EventFault::Held => Happens::Held(Arc::clone(&self.run.events), number + 4),
                    };
                    self.run.fault_happens(now);
                }
                Fault::Restart(nth, view) if *nth as u64 == number => {
                    let _ = self.run.signals.send(Signal::Restart(*view));
                    self.run.fault_happens(now);
                }
                Fault::NewLeader(nth) if *nth as u64 == number => {
                    let _ = self.run.signals.send(Signal::NewLeader);
                    self.run.fault_happens(now);
                }
                _ => {}
            }
        }
        happens
    }

    fn list_at(&self, target: &Target) -> Option<u64> {
        match self.view {
            View::List(_, back)
                if self.is_outdated(&target.resource)
                    && target.name.is_empty()
                    && self.is_first(target, "list") =>
            {
                Some(self.base.saturating_sub(back))
            }
            _ => None,
        }
    }

    fn watch_after(&self, target: &Target) -> Option<u64> {
        match self.view {
            View::Watch(back) if self.is_first(target, "watch") => {
                Some(self.base.saturating_sub(back))
            }
            _ => None,
        }
    }

    fn between_events(&self) -> Duration {
        // An API server sends no events older than the list. Replayed events are delivered at once.
        match self.view {
            View::Fresh | View::List(..) if self.run.late_events => Duration::from_millis(3),
            _ => Duration::ZERO,
        }
    }

    fn event_delay(&self, plural: &str) -> Duration {
        let usual = Duration::from_millis(if self.run.late_events { 5 } else { 0 });
        let fresh_at = self.began + STALE_FOR;
        if self.is_outdated(plural) {
            usual.max(fresh_at.saturating_sub(self.run.server.elapsed()))
        } else {
            usual
        }
    }
}
