//! The rules by which one of several processes holds the lease: client-go's
//! `tools/leaderelection`, without I/O. What the API server says and the local time come in;
//! what to send next, and until when this process leads, goes out.
//!
//! * Nobody's clock is compared with anybody else's. A lease is free when its record has not
//!   changed for its duration *here*, or when its holder gave it up.
//! * Every write names the version of the lease that it replaces, so that of two that are
//!   sent the API server takes one.
//! * Leadership counts from the moment at which the last successful renewal was *sent*, and
//!   ends, for good, a renew deadline later: before anybody else can find the lease expired.
//! * An answer that did not come may have been a yes: the lease is read again before anything
//!   else is sent.
//! * A lease that disappears is a change like any other. Whoever knew of one waits as long as
//!   if it had just been renewed; its holder makes it anew.

mod messages;

use std::sync::Arc;
use std::time::Duration;

pub(super) use self::messages::{Change, Lease, Loss, Next, Record, Reply, Request};
use super::clock::Moment;

/// client-go's `JitterFactor`: how much longer than the pause a standby may wait.
const JITTER: f64 = 1.2;

/// How many renewals of somebody else may be missing before a standby asks instead of
/// relying on its watch.
const SILENCE: u32 = 3;

/// The three durations of the election; each is longer than the next.
#[derive(Debug, Clone, Copy, Hash)]
pub(super) struct Terms {
    /// How long the others leave a lease alone that is not renewed.
    pub(super) lease: Duration,
    /// How long after its last renewal the holder still acts.
    pub(super) renew_deadline: Duration,
    /// Between two renewals, and between two tries.
    pub(super) retry: Duration,
}

/// The defaults of client-go's users, controller-runtime among them.
pub(super) const TERMS: Terms = Terms {
    lease: Duration::from_secs(15),
    renew_deadline: Duration::from_secs(10),
    retry: Duration::from_secs(2),
};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Role {
    Standby,
    Leading { renewed: Moment },
    Lost(Loss),
    Done,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Known {
    Nothing,
    /// There is no lease, and nobody can believe to hold it from this moment on.
    Absent {
        free: Moment,
    },
    /// The lease, and when its record was last seen to change.
    Lease {
        lease: Lease,
        changed: Moment,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Sent {
    request: Request,
    at: Moment,
}

/// One process that wants to lead.
#[derive(Debug, Clone, Hash)]
pub(super) struct Candidate {
    identity: Arc<str>,
    terms: Terms,
    /// From 0 to 1, anew at each call.
    jitter: fn() -> f64,
    role: Role,
    known: Known,
    /// The newest version of the lease that was seen; what is older is no news.
    version: u64,
    transitions: i32,
    /// What is known may be outdated: read before the next write.
    is_unsure: bool,
    /// The last try has failed at a write already and has not succeeded since.
    has_failed: bool,
    /// It may hold the lease without knowing it.
    has_written: bool,
    is_resigning: bool,
    has_released: bool,
    in_flight: Option<Sent>,
    /// Nothing is sent before.
    paused_until: Moment,
    /// When the API server last told of the lease.
    heard: Moment,
}

impl Candidate {
    /// A standby that knows nothing. `identity` is its own and nobody else's, ever.
    pub(super) fn new(identity: Arc<str>, terms: Terms, jitter: fn() -> f64, now: Moment) -> Self {
        Candidate {
            identity,
            terms,
            jitter,
            role: Role::Standby,
            known: Known::Nothing,
            version: 0,
            transitions: 0,
            is_unsure: true,
            has_failed: false,
            has_written: false,
            is_resigning: false,
            has_released: false,
            in_flight: None,
            paused_until: now,
            heard: now,
        }
    }

    /// The moment before which this process may begin a write, and the one before which it
    /// has to end; `None` if it does not lead.
    pub(super) fn leads_until(&self) -> Option<(Moment, Moment)> {
        match self.role {
            Role::Leading { renewed } if !self.is_resigning => Some((
                renewed + self.terms.renew_deadline,
                renewed + self.terms.lease,
            )),
            _ => None,
        }
    }

    /// Who holds the lease, as far as is known; empty if nobody does.
    pub(super) fn holder(&self) -> &str {
        match &self.known {
            Known::Lease { lease, .. } => &lease.record.holder,
            _ => "",
        }
    }

    /// Whether it held the lease and gave it up.
    pub(super) fn has_released(&self) -> bool {
        self.has_released
    }

    /// The version of the lease that is known.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// The API server has gone back to an earlier `version` of the lease: what is known of
    /// later ones is undone.
    pub(super) fn rewind(&mut self, version: u64) {
        self.version = self.version.min(version);
    }

    /// A watch brought the lease; versions that are known already are no news.
    pub(super) fn observe(&mut self, now: Moment, lease: Lease) {
        self.expire(now);
        if lease.version > self.version {
            self.learn(now, lease);
        }
    }

    /// A watch says that the lease is not there, or has lost track: worth a look.
    pub(super) fn doubt(&mut self) {
        self.is_unsure = true;
    }

    /// Give up the lease if it is held, and end. Nothing that needed it may be going on.
    pub(super) fn resign(&mut self, now: Moment) {
        self.is_resigning = true;
        self.paused_until = now;
    }

    /// What came of the request that was sent.
    pub(super) fn replied(&mut self, now: Moment, reply: Reply) {
        self.expire(now);
        let Some(Sent { request, at }) = self.in_flight.take() else {
            return;
        };
        let is_read = request == Request::Read;
        match reply {
            Reply::Lease(lease) if is_read => {
                self.is_unsure = false;
                self.learn(now, lease);
            }
            Reply::Lease(lease) => self.written(now, &request, at, lease),
            Reply::Absent if is_read => self.miss(now),
            Reply::Absent | Reply::Failed => self.failed(now, is_read),
        }
    }

    /// What to do now. To be called again after everything that comes in.
    pub(super) fn next(&mut self, now: Moment) -> Next {
        self.expire(now);
        match &self.role {
            Role::Done => return Next::Done,
            Role::Lost(loss) => return Next::Lost(loss.clone()),
            Role::Standby | Role::Leading { .. } => {}
        }
        if self.is_resigning && !self.has_written {
            self.role = Role::Done;
            return Next::Done;
        }
        let deadline = self.deadline();
        if self.in_flight.is_some() {
            return Next::Wait(deadline.unwrap_or(now + self.terms.lease));
        }
        let Some((due, request)) = self.plan(now) else {
            self.role = Role::Done;
            return Next::Done;
        };
        let due = due.max(self.paused_until);
        if due > now {
            return Next::Wait(deadline.map_or(due, |deadline| deadline.min(due)));
        }
        self.has_written |= request != Request::Read;
        self.in_flight = Some(Sent {
            request: request.clone(),
            at: now,
        });
        Next::Send(request)
    }

    fn deadline(&self) -> Option<Moment> {
        match self.role {
            Role::Leading { renewed } => Some(renewed + self.terms.renew_deadline),
            _ => None,
        }
    }

    /// The end of leadership by time is noticed before anything else, and is final: also where
    /// a renewal was answered meanwhile, the fence has been shut.
    fn expire(&mut self, now: Moment) {
        if self.deadline().is_some_and(|deadline| now >= deadline) {
            self.role = match self.is_resigning {
                true => Role::Done,
                false => Role::Lost(Loss::NotRenewed),
            };
        }
    }

    /// What to send next, and when; `None` if there is nothing any more.
    fn plan(&self, now: Moment) -> Option<(Moment, Request)> {
        let (lease, changed) = match &self.known {
            _ if self.is_unsure => return Some((now, Request::Read)),
            Known::Nothing => return Some((now, Request::Read)),
            Known::Absent { .. } if self.is_resigning => return None,
            Known::Absent { free } => {
                let due = match self.role {
                    Role::Leading { .. } => now,
                    _ => *free,
                };
                let transitions = self.transitions;
                return Some((due, Request::Create { transitions }));
            }
            Known::Lease { lease, changed } => (lease, *changed),
        };
        let replace = |change| Request::Replace {
            version: lease.version,
            change,
        };
        let record = &lease.record;
        let is_mine = record.holder == self.identity;
        if self.is_resigning {
            return is_mine.then(|| (now, replace(Change::Release)));
        }
        if let Role::Leading { renewed } = self.role {
            return Some((renewed + self.terms.retry, replace(Change::Renew)));
        }
        let transitions = record.transitions.saturating_add(i32::from(!is_mine));
        let take = replace(Change::Take { transitions });
        if is_mine || record.holder.is_empty() {
            return Some((now, take));
        }
        let expires = changed + record.duration.unwrap_or(self.terms.lease);
        let silent = self.heard + self.terms.retry * SILENCE;
        Some(match now >= expires || expires <= silent {
            true => (expires, take),
            false => (silent, Request::Read),
        })
    }

    fn learn(&mut self, now: Moment, lease: Lease) {
        self.heard = now;
        if lease.version < self.version {
            return;
        }
        self.version = lease.version;
        self.transitions = lease.record.transitions;
        let changed = match &self.known {
            Known::Lease {
                lease: before,
                changed,
            } if before.record == lease.record => *changed,
            _ => now,
        };
        let is_mine = lease.record.holder == self.identity;
        if matches!(self.role, Role::Leading { .. }) && !is_mine && !self.is_resigning {
            self.role = Role::Lost(match lease.record.holder.is_empty() {
                true => Loss::Cleared,
                false => Loss::Taken(Arc::clone(&lease.record.holder)),
            });
        }
        self.known = Known::Lease { lease, changed };
    }

    /// The lease was read and is not there.
    fn miss(&mut self, now: Moment) {
        self.heard = now;
        self.is_unsure = false;
        let free = match &self.known {
            // It may have been there a moment ago, but of that nobody could tell.
            Known::Nothing => now,
            Known::Absent { free } => *free,
            Known::Lease { lease, .. } => now + lease.record.duration.unwrap_or(self.terms.lease),
        };
        self.known = Known::Absent { free };
    }

    /// A write that was sent `at` succeeded.
    fn written(&mut self, now: Moment, request: &Request, at: Moment, lease: Lease) {
        self.has_failed = false;
        let is_latest = lease.version >= self.version;
        self.learn(now, lease);
        let is_release = matches!(
            request,
            Request::Replace {
                change: Change::Release,
                ..
            }
        );
        match self.role {
            Role::Lost(_) | Role::Done => {}
            _ if is_release => {
                self.has_released = true;
                self.role = Role::Done;
            }
            _ if is_latest && now < at + self.terms.renew_deadline => {
                self.role = Role::Leading { renewed: at };
            }
            _ => {}
        }
    }

    /// A request failed, or nobody knows. After a write the lease is read at once and the
    /// write is tried once more, as in client-go; then there is a pause.
    fn failed(&mut self, now: Moment, is_read: bool) {
        self.is_unsure = true;
        if !is_read && !self.has_failed {
            self.has_failed = true;
            return;
        }
        self.has_failed = false;
        let retry = self.terms.retry;
        self.paused_until = now
            + match self.role {
                _ if self.is_resigning => retry / 8,
                Role::Leading { .. } => retry,
                _ => retry.mul_f64(1.0 + JITTER * (self.jitter)()),
            };
    }
}

#[cfg(test)]
mod tests;
