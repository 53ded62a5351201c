//! State of a resource between two reconciles that the caches cannot hold: a pending status, the
//! back-off from a blocker, a lost child. An entry is removed with its resource. No I/O.
//! Used by `event_handlers` and `reconcile`.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher, Hash};
use std::time::Duration;

use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};
use tokio::time::Instant;

use crate::object::ObjectKey;
use crate::reconcile::Blocker;
use crate::repairs::{Decision, Repairs};
use quartet_applied::fingerprint::Fingerprint;
use quartet_workload::{ChildKind, Problem, Reason, Resource};

/// Retry interval of an external blocker (a name or port that is taken, a quota); ± 20 %, so that
/// many of them do not retry at once.
const BLOCKED_RETRY: Duration = Duration::from_secs(15);
/// Number of attempts that follow each other after [`BLOCKED_RETRY`]. Later ones, if they fail the same way,
/// follow after [`RARE_RETRY`].
const FREQUENT_ATTEMPTS: u32 = 5;
/// The mean of 60 and 90 s.
const RARE_RETRY: Duration = Duration::from_secs(75);
/// During a rollout, a written status is soon outdated: one with other conditions is written when it has not
/// changed for this time. See decision 0005.
const QUIET: Duration = Duration::from_millis(500);
/// Maximum delay of that write: within 5 s of the creation of the children, including the delay of a busy
/// queue.
const LONGEST: Duration = Duration::from_secs(4);
/// Delay of a status in which only counts and messages are others.
const COUNTS: Duration = Duration::from_secs(30);

/// The states of all resources of one kind.
#[derive(Debug, Default)]
pub(crate) struct ReconcileStates {
    by_resource: Mutex<HashMap<ObjectKey, ReconcileState>>,
}

#[derive(Debug, Default)]
pub(crate) struct ReconcileState {
    /// UID of the resource. A later one of the same name starts with an empty state.
    uid: Box<str>,
    /// Applies that the API server changed on admission: what was desired, the result, and the fields that
    /// differ. The same body is not sent again while the result is unchanged.
    pub(crate) rewritten: HashMap<Repaired, ((Fingerprint, Fingerprint), String)>,
    /// Recent repairs of what another writer may keep changing.
    repairs: HashMap<Repaired, Repairs>,
    /// A status that differs from the stored one and has not been written.
    pub(crate) pending: Option<PendingStatus>,
    /// The resource has lost a child: a user deleted the child, or the resource was deleted and the
    /// garbage collector was faster than this watch. A child that is created for a deleted owner is
    /// deleted at once, and would be created again while the watch lags. So the resource is read from
    /// the API server before a missing child is created.
    pub(crate) has_lost_child: bool,
    /// The blocked child. No request is sent for it before its retry, whatever event enqueues the
    /// resource.
    pub(crate) blocked: Option<Blocked>,
    /// Why a child is not confirmed, and since when.
    unconfirmed: Option<(Reason, Instant)>,
    /// The end of the API server's `Retry-After`.
    pub(crate) held_until: Option<Instant>,
}

/// An attempt that failed, and its blocker.
#[derive(Debug)]
pub(crate) struct Blocked {
    /// Hash of the attempt.
    attempt: u64,
    blocker: Blocker,
    until: Instant,
    /// How often the attempt has failed.
    failures: u32,
}

/// What is repaired when another writer has changed it.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) enum Repaired {
    /// A child with this name.
    Child(ChildKind, Box<str>),
    /// The status.
    Status,
    /// The finalizers: that of an older operator, which may still run, is removed.
    Finalizers,
}

/// A status that differs from the stored one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PendingStatus {
    /// Since when it differs.
    since: Instant,
    /// Since when its content is this.
    moved: Instant,
    content: u64,
}

/// The delay before the next attempt: 15 s ± 20 %.
pub(crate) fn jittered_retry() -> Duration {
    jittered(BLOCKED_RETRY)
}

/// `delay` ± 20 %.
pub(crate) fn jittered(delay: Duration) -> Duration {
    delay.mul_f64(0.8 + 0.4 * fastrand::f64())
}

impl ReconcileStates {
    /// The state of the resource `uid`. Others wait until it is dropped.
    pub(crate) fn of(&self, key: &ObjectKey, uid: &str) -> MappedMutexGuard<'_, ReconcileState> {
        MutexGuard::map(self.by_resource.lock(), |states| {
            let state = states.entry(key.clone()).or_default();
            if *state.uid != *uid {
                *state = ReconcileState {
                    uid: uid.into(),
                    ..ReconcileState::default()
                };
            }
            state
        })
    }

    /// The resource `uid` was deleted.
    pub(crate) fn forget(&self, key: &ObjectKey, uid: &str) {
        let mut states = self.by_resource.lock();
        if states.get(key).is_some_and(|state| *state.uid == *uid) {
            states.remove(key);
        }
    }
}

impl ReconcileState {
    /// The repairs of `what` to the state `desired`, and the current time. Another desired state starts a new
    /// count.
    pub(crate) fn repairs(&mut self, what: Repaired, desired: u64) -> (&mut Repairs, Instant) {
        let now = Instant::now();
        let new = || Repairs::new(desired, now);
        let repairs = self.repairs.entry(what).or_insert_with(new);
        if repairs.desired != desired {
            *repairs = new();
        }
        (repairs, now)
    }

    /// [`Repairs::recent_conflict`] of an object that is as `desired`.
    pub(crate) fn recent_conflict(
        &mut self,
        what: &Repaired,
        desired: u64,
    ) -> Option<(Problem, Duration)> {
        let repairs = self.repairs.get_mut(what)?;
        repairs
            .recent_conflict(Instant::now())
            .filter(|_| repairs.desired == desired)
    }

    /// What to do about an object that is not as `desired`.
    pub(crate) fn next_repair(&mut self, what: Repaired, desired: u64) -> Decision {
        let (repairs, now) = self.repairs(what, desired);
        repairs.next(now)
    }

    /// Counts a write of the state `desired` to an existing object.
    pub(crate) fn repaired(&mut self, what: Repaired, desired: u64) {
        let (repairs, now) = self.repairs(what, desired);
        repairs.applied(now);
    }

    /// The blocker of the last attempt with the same inputs, until the next one is due.
    pub(crate) fn blocker(&self, attempt: u64) -> Option<Blocker> {
        let blocked = self.blocked.as_ref().filter(|it| it.attempt == attempt)?;
        Some(Blocker {
            retry: time_until(blocked.until)?,
            ..blocked.blocker.clone()
        })
    }

    /// Records the blocker of an attempt. The next one follows at the earliest after its retry, and a minute
    /// after [`FREQUENT_ATTEMPTS`].
    pub(crate) fn block(&mut self, attempt: u64, blocker: &Blocker) {
        let before = self.blocked.take().filter(|it| it.attempt == attempt);
        let failures = before.map_or(0, |it| it.failures).saturating_add(1);
        let wait = if failures < FREQUENT_ATTEMPTS {
            blocker.retry
        } else {
            jittered(RARE_RETRY)
        };
        self.blocked = Some(Blocked {
            attempt,
            blocker: blocker.clone(),
            until: Instant::now() + wait,
            failures,
        });
    }

    /// Records that the status differs from the stored one, with this hash of its `content`, and whether in more
    /// than counts and messages. Returns the delay of the write, if the children are not at rest; zero if it is
    /// due.
    pub(crate) fn status_differs(&mut self, content: u64, in_conditions: bool) -> Duration {
        let now = Instant::now();
        let since = self.pending.map_or(now, |pending| pending.since);
        let unmoved = self.pending.filter(|it| it.content == content);
        let moved = unmoved.map_or(now, |pending| pending.moved);
        self.pending = Some(PendingStatus {
            since,
            moved,
            content,
        });
        let due = if in_conditions {
            (since + LONGEST).min(moved + QUIET)
        } else {
            since + COUNTS
        };
        due.saturating_duration_since(now)
    }

    /// Records why the children are not confirmed, `None` if they are. Returns how long that reason has
    /// lasted.
    pub(crate) fn unconfirmed(&mut self, why: Option<Reason>) -> Duration {
        let now = Instant::now();
        let since = self.unconfirmed.filter(|(reason, _)| Some(*reason) == why);
        let since = since.map_or(now, |(_, since)| since);
        self.unconfirmed = why.map(|why| (why, since));
        now.saturating_duration_since(since)
    }
}

/// The time until `then`; `None` if that is over.
pub(crate) fn time_until(then: Instant) -> Option<Duration> {
    let left = then.checked_duration_since(Instant::now())?;
    (!left.is_zero()).then_some(left)
}

/// The key of a resource.
pub(crate) fn key_of(resource: &Resource) -> ObjectKey {
    ObjectKey::new(&resource.namespace, &resource.name)
}

pub(crate) fn hash_of(value: &impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(value)
}
