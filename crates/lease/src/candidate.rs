//! The rules of leader election, as in client-go's `tools/leaderelection`, without I/O. The inputs
//! are the answers of the API server and the local time. The outputs are the next request, and until
//! when this process leads.
//!
//! * Clocks of different machines are never compared. A lease is free when its record has not
//!   changed for its duration by the local clock, or when its holder released it.
//! * Every write names the version of the lease that it replaces. Of two concurrent writes the API
//!   server accepts one.
//! * Leadership starts when the last successful renewal was *sent*, and ends one renew deadline
//!   later, which is before another process can find the lease expired.
//! * A write without an answer may have succeeded. The lease is read again before the next write.
//! * A deleted lease counts as a change. A standby that knew the lease waits as if it had just been
//!   renewed. The holder creates it again.

mod messages;

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Moment;
pub use messages::Loss;
pub(crate) use messages::{Change, Lease, Next, Record, Reply, Request};

/// client-go's `JitterFactor`: the upper bound of a standby's wait, in retry periods.
const JITTER: f64 = 1.2;

/// Renewals of the holder that may be missing before a standby reads the lease and no longer relies
/// on its watch.
const SILENCE: u32 = 3;

/// The three durations of the election. As in client-go, `lease_duration` must be longer than `renew_deadline`, and
/// that longer than 1.2 times `retry_period`.
#[derive(Debug, Clone, Copy, Hash)]
pub struct Timing {
    /// How long other processes wait for a lease that is not renewed.
    pub lease_duration: Duration,
    /// How long the holder acts after its last renewal.
    pub renew_deadline: Duration,
    /// Time between two renewals, and between two attempts.
    pub retry_period: Duration,
}

/// The defaults of controller-runtime.
pub const TIMING: Timing = Timing {
    lease_duration: Duration::from_secs(15),
    renew_deadline: Duration::from_secs(10),
    retry_period: Duration::from_secs(2),
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
    /// There is no lease, and from this moment on no process can believe that it holds one.
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
pub(crate) struct Candidate {
    identity: Arc<str>,
    timing: Timing,
    /// From 0 to 1, anew at each call.
    jitter: fn() -> f64,
    role: Role,
    known: Known,
    /// The newest version of the lease that was seen. Older ones are ignored, but in the reply to a read.
    version: u64,
    transitions: i32,
    /// The known lease may be outdated: read it before the next write.
    is_unsure: bool,
    /// The last write failed, and none has succeeded since.
    has_failed: bool,
    /// It may hold the lease: a write had no answer.
    has_written: bool,
    is_resigning: bool,
    has_released: bool,
    in_flight: Option<Sent>,
    /// The earliest time of the next request.
    paused_until: Moment,
    /// When the API server last reported the lease.
    heard: Moment,
}

impl Candidate {
    /// A standby without a known lease. `identity` is unique among all processes, at all times.
    pub(crate) fn new(
        identity: Arc<str>,
        timing: Timing,
        jitter: fn() -> f64,
        now: Moment,
    ) -> Self {
        Candidate {
            identity,
            timing,
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

    /// When no write of this process may start any more; `None` if it does not lead.
    pub(crate) fn leads_until(&self) -> Option<Moment> {
        self.deadline().filter(|_| !self.is_resigning)
    }

    /// The known holder of the lease; empty if there is none.
    pub(crate) fn holder(&self) -> &str {
        match &self.known {
            Known::Lease { lease, .. } => &lease.record.holder,
            _ => "",
        }
    }

    /// Whether it held the lease and released it.
    pub(crate) fn has_released(&self) -> bool {
        self.has_released
    }

    /// The known version of the lease.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// An event of the watch. Known versions are ignored.
    pub(crate) fn observe(&mut self, now: Moment, lease: Lease) {
        self.expire(now);
        if lease.version > self.version {
            self.learn(now, lease);
        }
    }

    /// The watch reports that there is no lease: it was deleted, or is not in a list. It is read again.
    pub(crate) fn doubt(&mut self) {
        self.is_unsure = true;
    }

    /// Releases the lease if it is held, and ends. No write may be in progress.
    pub(crate) fn resign(&mut self, now: Moment) {
        self.is_resigning = true;
        self.paused_until = now;
    }

    /// The reply to the last request.
    pub(crate) fn replied(&mut self, now: Moment, reply: Reply) {
        self.expire(now);
        let Some(Sent { request, at }) = self.in_flight.take() else {
            return;
        };
        let is_read = request == Request::Read;
        match reply {
            // A read from etcd is as new as its request. An earlier version than the known one is also
            // learned: etcd may have been restored from a backup.
            Reply::Lease(lease) if is_read => {
                self.is_unsure = false;
                self.learn(now, lease);
            }
            Reply::Lease(lease) => self.written(now, at, lease),
            Reply::Absent if is_read => self.miss(now),
            Reply::Absent | Reply::Failed => self.failed(now, is_read),
        }
    }

    /// The next action. Call it again after each input.
    pub(crate) fn next(&mut self, now: Moment) -> Next {
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
            return Next::Wait(deadline.unwrap_or(now + self.timing.lease_duration));
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
            Role::Leading { renewed } => Some(renewed + self.timing.renew_deadline),
            _ => None,
        }
    }

    /// The end of leadership by time comes first and is final: the fence is closed, even if a
    /// renewal was answered in the meantime.
    fn expire(&mut self, now: Moment) {
        if self.deadline().is_some_and(|deadline| now >= deadline) {
            self.role = if self.is_resigning {
                Role::Done
            } else {
                Role::Lost(Loss::NotRenewed)
            };
        }
    }

    /// The next request and its time; `None` if there is none.
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
            return Some((renewed + self.timing.retry_period, replace(Change::Renew)));
        }
        let transitions = record.transitions.saturating_add(i32::from(!is_mine));
        let take = replace(Change::Take { transitions });
        if is_mine || record.holder.is_empty() {
            return Some((now, take));
        }
        // As in client-go, a user who shortens the duration makes others take the lease earlier.
        let duration = Some(record.duration).filter(|duration| !duration.is_zero());
        let expires = changed + duration.unwrap_or(self.timing.lease_duration);
        let silent = self.heard + self.timing.retry_period * SILENCE;
        Some(if now >= expires || expires <= silent {
            (expires, take)
        } else {
            (silent, Request::Read)
        })
    }

    fn learn(&mut self, now: Moment, lease: Lease) {
        self.heard = now;
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
            self.role = Role::Lost(if lease.record.holder.is_empty() {
                Loss::Cleared
            } else {
                Loss::Taken(Arc::clone(&lease.record.holder))
            });
        }
        self.known = Known::Lease { lease, changed };
    }

    /// The lease was read and does not exist.
    fn miss(&mut self, now: Moment) {
        self.heard = now;
        self.is_unsure = false;
        let free = match &self.known {
            // It may have existed until just now.
            Known::Nothing => now,
            Known::Absent { free } => *free,
            // Another process may have taken it since, also if the last known one was released.
            Known::Lease { lease, .. } => {
                now + lease.record.duration.max(self.timing.lease_duration)
            }
        };
        self.known = Known::Absent { free };
    }

    /// A write that was sent `at` succeeded.
    fn written(&mut self, now: Moment, at: Moment, lease: Lease) {
        self.has_failed = false;
        let is_release = lease.record.holder.is_empty();
        let is_latest = lease.version >= self.version;
        if is_latest {
            self.learn(now, lease);
        }
        match self.role {
            Role::Lost(_) | Role::Done => {}
            _ if is_release => {
                self.has_released = true;
                self.role = Role::Done;
            }
            _ if is_latest && now < at + self.timing.renew_deadline => {
                self.role = Role::Leading { renewed: at };
            }
            _ => {}
        }
    }

    /// A request failed, or its result is unknown. After a write the lease is read at once and the
    /// write is retried once, as in client-go. A pause follows.
    fn failed(&mut self, now: Moment, is_read: bool) {
        self.is_unsure = true;
        if !is_read && !self.has_failed {
            self.has_failed = true;
            return;
        }
        self.has_failed = false;
        let retry = self.timing.retry_period;
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
