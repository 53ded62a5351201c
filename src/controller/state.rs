//! State of a resource between two reconciles that the caches cannot hold: a pending status, the
//! back-off from a blocker, a lost child. An entry exists only while it holds
//! something, and is removed with its resource. No I/O.
//! Used by `event_handlers` and `reconcile`.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::controller::cache::cached::Owner;
use crate::controller::object::ObjectKey;
use crate::controller::reconcile::Blocker;
use crate::controller::repairs::Repairs;
use crate::operators::{Child, ChildKind, Reason, Resource};
use quartet_applied::fingerprint::Fingerprint;

/// Retry interval of an external blocker (a name or port that is taken, a quota); ± 20 %, so that
/// many of them do not retry at once.
const BLOCKED_RETRY: Duration = Duration::from_secs(15);
/// Number of attempts that follow each other after [`BLOCKED_RETRY`]. Later ones, if they fail the same way,
/// follow after [`RARE_RETRY`].
const FREQUENT_ATTEMPTS: u32 = 5;
/// The mean of 60 and 90 s.
const RARE_RETRY: Duration = Duration::from_secs(75);
/// During a rollout, a written status is soon outdated: it is written when it has not changed for this time.
/// See decision 0005.
const QUIET: Duration = Duration::from_millis(500);
/// Maximum delay of the write: within 5 s of the creation of the children, including the delay of a busy
/// queue.
const LONGEST: Duration = Duration::from_secs(4);

/// The states of all resources of one kind.
#[derive(Debug, Default)]
pub(crate) struct ReconcileStates {
    by_resource: Mutex<HashMap<ObjectKey, ReconcileState>>,
}

#[derive(Debug, Default)]
struct ReconcileState {
    /// UID of the resource. A later one of the same name starts with an empty state.
    uid: Box<str>,
    /// Applies that the API server changed on admission, and the results. The same body is not
    /// sent again while the result is unchanged.
    rewritten: Vec<ServerMutated>,
    /// Recent repairs of what another writer may keep changing.
    repairs: HashMap<Repaired, Repairs>,
    /// A status that differs from the stored one and has not been written.
    pending: Option<PendingStatus>,
    /// The resource has lost a child: a user deleted the child, or the resource was deleted and the
    /// garbage collector was faster than this watch. A child that is created for a deleted owner is
    /// deleted at once, and would be created again while the watch lags. So the resource is read from
    /// the API server before a missing child is created.
    has_lost_child: bool,
    /// The blocked child. No request is sent for it before its retry, whatever event enqueues the
    /// resource.
    blocked: Option<Box<Blocked>>,
    /// Why a child is not confirmed, and since when.
    unconfirmed: Option<(Reason, Instant)>,
    /// The end of the API server's `Retry-After`.
    held_until: Option<Instant>,
}

/// An attempt that failed, and its blocker.
#[derive(Debug)]
struct Blocked {
    attempt: Attempt,
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
struct PendingStatus {
    /// Since when it differs.
    since: Instant,
    /// Since when its content is this.
    moved: Instant,
    content: u64,
}

/// The inputs of an attempt to apply a child. Another attempt with the same inputs would fail the
/// same way.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) kind: ChildKind,
    pub(crate) name: Box<str>,
    pub(crate) desired: Fingerprint,
    /// Generation of the resource. A changed spec causes an attempt even if this child does not change,
    /// since the user waits for the result.
    pub(crate) generation: i64,
    /// UID, owner and version of what the cache holds under the child's name.
    pub(crate) found: Option<(Box<str>, Option<Owner>, u64)>,
}

/// The delay before the next attempt: 15 s ± 20 %.
pub(crate) fn jittered_retry() -> Duration {
    jittered(BLOCKED_RETRY)
}

/// `delay` ± 20 %.
pub(crate) fn jittered(delay: Duration) -> Duration {
    delay.mul_f64(0.8 + 0.4 * fastrand::f64())
}

/// An apply that the API server changed on admission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerMutated {
    pub(crate) kind: ChildKind,
    pub(crate) name: Box<str>,
    pub(crate) desired: Fingerprint,
    pub(crate) answered: Fingerprint,
}

impl ReconcileStates {
    /// Records the API server's changes to the last apply of a child; `None` if there were none.
    pub(crate) fn applied(
        &self,
        resource: &Resource,
        child: &Child,
        rewritten: Option<ServerMutated>,
    ) {
        self.change(resource, |state| {
            let is_other = |it: &ServerMutated| it.kind != child.kind || *it.name != *child.name;
            state.rewritten.retain(is_other);
            state.rewritten.extend(rewritten);
        });
    }

    /// Calls `with` with the repairs of `what` to the state `desired`, and the current time. Another desired
    /// state starts a new count.
    pub(crate) fn repairs<T>(
        &self,
        key: &ObjectKey,
        uid: &str,
        (what, desired): (Repaired, u64),
        with: impl FnOnce(&mut Repairs, Instant) -> T,
    ) -> T {
        let now = Instant::now();
        self.change_of(key, uid, |state| {
            let repairs = state.repairs.entry(what);
            let repairs = repairs.or_insert_with(|| Repairs::new(desired, now));
            if repairs.desired != desired {
                *repairs = Repairs::new(desired, now);
            }
            with(repairs, now)
        })
    }

    /// Whether the last apply of the child had this body and this result.
    pub(crate) fn is_rewritten(&self, resource: &Resource, rewritten: &ServerMutated) -> bool {
        let is_rewritten = |state: &ReconcileState| state.rewritten.contains(rewritten);
        self.read(&key_of(resource), &resource.uid, is_rewritten)
    }

    /// The blocker of the last attempt with the same inputs, until the next one is due.
    pub(crate) fn blocked(&self, resource: &Resource, attempt: &Attempt) -> Option<Blocker> {
        self.read(&key_of(resource), &resource.uid, |state| {
            let blocked = state.blocked.as_deref();
            let blocked = blocked.filter(|it| it.attempt == *attempt)?;
            Some(Blocker {
                retry: time_until(blocked.until)?,
                ..blocked.blocker.clone()
            })
        })
    }

    /// Records the blocker of an attempt. The next one follows at the earliest after its retry, and a minute
    /// after [`FREQUENT_ATTEMPTS`].
    pub(crate) fn block(&self, resource: &Resource, attempt: Attempt, blocker: &Blocker) {
        self.change(resource, |state| {
            let before = state.blocked.take().filter(|it| it.attempt == attempt);
            let failures = before.map_or(0, |it| it.failures).saturating_add(1);
            let wait = match failures < FREQUENT_ATTEMPTS {
                true => blocker.retry,
                false => jittered(RARE_RETRY),
            };
            state.blocked = Some(Box::new(Blocked {
                attempt,
                blocker: blocker.clone(),
                until: Instant::now() + wait,
                failures,
            }));
        });
    }

    /// Records that no child is blocked.
    pub(crate) fn unblock(&self, resource: &Resource) {
        self.change(resource, |state| state.blocked = None);
    }

    /// Records that the status differs from the stored one, with this hash of its `content`. Returns the delay
    /// of the write, if the children are not at rest; zero if it is due.
    pub(crate) fn status_differs(&self, resource: &Resource, content: u64) -> Duration {
        let now = Instant::now();
        self.change(resource, |state| {
            let since = state.pending.map_or(now, |pending| pending.since);
            let unmoved = state.pending.filter(|it| it.content == content);
            let moved = unmoved.map_or(now, |pending| pending.moved);
            state.pending = Some(PendingStatus {
                since,
                moved,
                content,
            });
            let due = (since + LONGEST).min(moved + QUIET);
            due.saturating_duration_since(now)
        })
    }

    /// Records that the stored status is up to date.
    pub(crate) fn status_is_written(&self, resource: &Resource) {
        self.change(resource, |state| state.pending = None);
    }

    /// Records that the resource `uid`, which is in the cache, has lost a child.
    pub(crate) fn note_lost_child(&self, key: &ObjectKey, uid: &str) {
        self.change_of(key, uid, |state| state.has_lost_child = true);
    }

    /// Whether the resource has lost a child, and has not been read since.
    pub(crate) fn has_lost_child(&self, key: &ObjectKey, uid: &str) -> bool {
        self.read(key, uid, |state| state.has_lost_child)
    }

    /// Records that the resource exists, so that its children may be created.
    pub(crate) fn owner_confirmed(&self, resource: &Resource) {
        self.change(resource, |state| state.has_lost_child = false);
    }

    /// Records why the children are not confirmed, `None` if they are. Returns how long that reason has
    /// lasted.
    pub(crate) fn unconfirmed(&self, resource: &Resource, why: Option<Reason>) -> Duration {
        let now = Instant::now();
        self.change(resource, |state| {
            let since = state.unconfirmed.filter(|(reason, _)| Some(*reason) == why);
            state.unconfirmed = why.map(|why| since.unwrap_or((why, now)));
            since.map_or(Duration::ZERO, |(_, since)| {
                now.saturating_duration_since(since)
            })
        })
    }

    /// Records a `Retry-After` of the API server.
    pub(crate) fn hold(&self, key: &ObjectKey, uid: &str, wait: Duration) {
        self.change_of(key, uid, |state| {
            state.held_until = Instant::now().checked_add(wait);
        });
    }

    /// The remaining time of the `Retry-After`.
    pub(crate) fn held(&self, key: &ObjectKey, uid: &str) -> Option<Duration> {
        self.read(key, uid, |state| time_until(state.held_until?))
    }

    /// The resource `uid` was deleted.
    pub(crate) fn forget(&self, key: &ObjectKey, uid: &str) {
        let mut states = self.by_resource.lock();
        if states.get(key).is_some_and(|state| *state.uid == *uid) {
            states.remove(key);
        }
    }

    /// What `read` returns for the state of the resource, or the default if it has none.
    fn read<T: Default>(
        &self,
        key: &ObjectKey,
        uid: &str,
        read: impl FnOnce(&ReconcileState) -> T,
    ) -> T {
        let states = self.by_resource.lock();
        let state = states.get(key).filter(|state| *state.uid == *uid);
        state.map(read).unwrap_or_default()
    }

    fn change<T>(&self, resource: &Resource, change: impl FnOnce(&mut ReconcileState) -> T) -> T {
        self.change_of(&key_of(resource), &resource.uid, change)
    }

    fn change_of<T>(
        &self,
        key: &ObjectKey,
        uid: &str,
        change: impl FnOnce(&mut ReconcileState) -> T,
    ) -> T {
        let mut states = self.by_resource.lock();
        let state = states.entry(key.clone()).or_default();
        if *state.uid != *uid {
            *state = ReconcileState {
                uid: uid.into(),
                ..ReconcileState::default()
            };
        }
        let result = change(state);
        if state.is_empty(Instant::now()) {
            states.remove(key);
        }
        result
    }
}

impl ReconcileState {
    fn is_empty(&self, now: Instant) -> bool {
        self.rewritten.is_empty()
            && self.repairs.values().all(|repairs| repairs.is_over(now))
            && self.pending.is_none()
            && !self.has_lost_child
            && self.blocked.is_none()
            && self.unconfirmed.is_none()
            && self.held_until.is_none_or(|until| until <= now)
    }
}

/// The time until `then`; `None` if that is over.
fn time_until(then: Instant) -> Option<Duration> {
    let left = then.checked_duration_since(Instant::now())?;
    (!left.is_zero()).then_some(left)
}

/// The key of a resource.
pub(crate) fn key_of(resource: &Resource) -> ObjectKey {
    ObjectKey::new(&resource.namespace, &resource.name)
}
