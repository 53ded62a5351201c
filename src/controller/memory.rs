//! What a controller remembers of a resource between two passes: only what the caches cannot
//! tell, only while there is something to remember, and never longer than the resource lives.
//! No I/O.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::fingerprint::Fingerprint;
use super::lean::Owner;
use super::object::ObjectKey;
use super::pending_status::{PendingStatus, Told};
use crate::api::Status;
use crate::operators::{ChildKind, Observed, Problem, Reason, Resource};

/// How long a blocker outside (a foreign name, a taken port, a quota) is left alone before it
/// is looked at again; ± 20 %, so that many of them do not come at once.
const BLOCKED_RETRY: Duration = Duration::from_secs(15);

/// The memories of all resources of one kind.
#[derive(Debug, Default)]
pub(super) struct Memories {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    by_resource: HashMap<ObjectKey, Memory>,
    /// How many of them have a pending status.
    waiting: u32,
}

#[derive(Debug, Default)]
struct Memory {
    /// UID it is about, so that a namesake created later starts afresh.
    uid: Box<str>,
    /// What the API server made of an apply that it changed. As long as both are the same
    /// nothing is sent, or the two would alternate for ever.
    rewritten: Vec<Rewritten>,
    /// A status that differs from the stored one and is not written yet.
    pending: Option<PendingStatus>,
    /// The status of the last write, if it is not known whether it was obeyed.
    unanswered: Option<Box<Status>>,
    /// The child that cannot be had; until its time nothing is sent for it, whatever else
    /// wakes the resource.
    blocked: Option<Box<Blocked>>,
    /// Why a child is not confirmed, and since when.
    unconfirmed: Option<(Reason, Instant)>,
    /// Until when the API server asked us to stay away.
    held_until: Option<Instant>,
}

/// An attempt that something was in the way of.
#[derive(Debug)]
struct Blocked {
    attempt: Attempt,
    obstacle: Obstacle,
    until: Instant,
}

/// What is in the way of a child.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Obstacle {
    /// Something outside.
    Problem(Problem),
    /// The rollout of the Deployment beside it.
    Rollout,
    /// The API server knows no such namespace or resource type.
    NotFound(Problem),
}

/// What an attempt at a child is made from. One more, made from the same, would end the same.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Attempt {
    pub(super) kind: ChildKind,
    pub(super) desired: Fingerprint,
    /// Of the resource: a change of its spec is worth an attempt even if this child is to
    /// stay as it is, since somebody is waiting for what becomes of it.
    pub(super) generation: i64,
    /// UID and owner of what the cache holds under the child's name.
    pub(super) found: Option<(Box<str>, Option<Owner>)>,
}

/// How long to wait for the next look at a blocker: 15 s ± 20 %.
pub(super) fn until_next_look() -> Duration {
    BLOCKED_RETRY.mul_f64(0.8 + 0.4 * fastrand::f64())
}

/// An apply whose answer was not what was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rewritten {
    pub(super) kind: ChildKind,
    pub(super) desired: Fingerprint,
    pub(super) answered: Fingerprint,
}

impl Memories {
    /// Notes how the last apply of a child was answered; `None` if with what was sent.
    pub(super) fn applied(
        &self,
        resource: &Resource,
        child: ChildKind,
        rewritten: Option<Rewritten>,
    ) {
        self.change(resource, |memory| {
            memory.rewritten.retain(|earlier| earlier.kind != child);
            memory.rewritten.extend(rewritten);
        });
    }

    /// Whether the last apply of the child was of this body, and answered like this.
    pub(super) fn is_rewritten(&self, resource: &Resource, rewritten: Rewritten) -> bool {
        let known = self.lock();
        let memories = &known.by_resource;
        let memory = memories.get(&key_of(resource));
        memory
            .filter(|memory| *memory.uid == *resource.uid)
            .is_some_and(|memory| memory.rewritten.contains(&rewritten))
    }

    /// What was in the way of the last attempt made from the same, and for how much longer
    /// it is left alone; `None` if it is time to try.
    pub(super) fn blocked(
        &self,
        resource: &Resource,
        attempt: &Attempt,
    ) -> Option<(Obstacle, Duration)> {
        let known = self.lock();
        let memories = &known.by_resource;
        let memory = memories.get(&key_of(resource))?;
        let blocked = memory.blocked.as_ref()?;
        let left = blocked.until.checked_duration_since(Instant::now())?;
        let is_same = *memory.uid == *resource.uid && blocked.attempt == *attempt;
        (is_same && !left.is_zero()).then(|| (blocked.obstacle.clone(), left))
    }

    /// Notes what was in the way of an attempt, and how long it is to be left alone.
    pub(super) fn block(
        &self,
        resource: &Resource,
        attempt: Attempt,
        obstacle: Obstacle,
        wait: Duration,
    ) {
        let blocked = Blocked {
            attempt,
            obstacle,
            until: Instant::now() + wait,
        };
        self.change(resource, |memory| memory.blocked = Some(Box::new(blocked)));
    }

    /// Notes that nothing is in the way of any child.
    pub(super) fn unblock(&self, resource: &Resource) {
        self.change(resource, |memory| memory.blocked = None);
    }

    /// Notes that the status differs from the stored one, which says as much of it as is
    /// `told`; returns how long its write still has to wait, `None` if it is due.
    pub(super) fn status_differs(
        &self,
        resource: &Resource,
        observed: Observed,
        told: Told,
    ) -> Option<Duration> {
        let now = Instant::now();
        let others = self.lock().waiting.saturating_sub(1);
        self.change(resource, |memory| {
            let pending = memory
                .pending
                .get_or_insert_with(|| PendingStatus::new(now));
            pending.wait(observed, told, others, now)
        })
    }

    /// Notes that the stored status is as it should be.
    pub(super) fn status_is_written(&self, resource: &Resource) {
        self.change(resource, |memory| {
            memory.pending = None;
            memory.unanswered = None;
        });
    }

    /// Notes that a status was sent, and that it is not known whether it is stored.
    pub(super) fn status_is_unanswered(&self, resource: &Resource, status: Status) {
        self.change(resource, |memory| {
            memory.unanswered = Some(Box::new(status));
        });
    }

    /// The status that was sent last, if it is not known whether it is stored.
    pub(super) fn unanswered_status(&self, resource: &Resource) -> Option<Box<Status>> {
        let known = self.lock();
        let memories = &known.by_resource;
        let memory = memories.get(&key_of(resource))?;
        (*memory.uid == *resource.uid).then(|| memory.unanswered.clone())?
    }

    /// Notes why the children are not confirmed, `None` if they are. Returns for how long that
    /// reason has lasted.
    pub(super) fn unconfirmed(&self, resource: &Resource, why: Option<Reason>) -> Duration {
        let now = Instant::now();
        self.change(resource, |memory| {
            let since = memory
                .unconfirmed
                .filter(|(reason, _)| Some(*reason) == why);
            memory.unconfirmed = why.map(|why| since.unwrap_or((why, now)));
            since.map_or(Duration::ZERO, |(_, since)| {
                now.saturating_duration_since(since)
            })
        })
    }

    /// Notes that the API server asked us to stay away.
    pub(super) fn hold(&self, key: &ObjectKey, uid: &str, wait: Duration) {
        self.change_of(key, uid, |memory| {
            memory.held_until = Instant::now().checked_add(wait);
        });
    }

    /// How much longer the API server asked us to stay away.
    pub(super) fn held(&self, key: &ObjectKey, uid: &str) -> Option<Duration> {
        let known = self.lock();
        let memories = &known.by_resource;
        let memory = memories.get(key).filter(|memory| *memory.uid == *uid)?;
        let left = memory.held_until?.checked_duration_since(Instant::now())?;
        (!left.is_zero()).then_some(left)
    }

    /// The resource `uid` is gone.
    pub(super) fn forget(&self, key: &ObjectKey, uid: &str) {
        let mut known = self.lock();
        let memories = &mut known.by_resource;
        if memories.get(key).is_some_and(|memory| *memory.uid == *uid) {
            let memory = memories.remove(key);
            if memory.is_some_and(|memory| memory.pending.is_some()) {
                known.waiting = known.waiting.saturating_sub(1);
            }
        }
    }

    fn change<T>(&self, resource: &Resource, change: impl FnOnce(&mut Memory) -> T) -> T {
        self.change_of(&key_of(resource), &resource.uid, change)
    }

    fn change_of<T>(&self, key: &ObjectKey, uid: &str, change: impl FnOnce(&mut Memory) -> T) -> T {
        let mut known = self.lock();
        let Known {
            by_resource,
            waiting,
        } = &mut *known;
        let memory = by_resource.entry(key.clone()).or_default();
        let waited = memory.pending.is_some();
        if *memory.uid != *uid {
            *memory = Memory {
                uid: uid.into(),
                ..Memory::default()
            };
        }
        let result = change(memory);
        match (waited, memory.pending.is_some()) {
            (false, true) => *waiting = waiting.saturating_add(1),
            (true, false) => *waiting = waiting.saturating_sub(1),
            _ => {}
        }
        if memory.is_empty() {
            by_resource.remove(key);
        }
        result
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // Each critical section leaves the map valid at every step.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    fn is_empty(&self) -> bool {
        self.rewritten.is_empty()
            && self.pending.is_none()
            && self.unanswered.is_none()
            && self.blocked.is_none()
            && self.unconfirmed.is_none()
            && self.held_until.is_none_or(|until| until <= Instant::now())
    }
}

fn key_of(resource: &Resource) -> ObjectKey {
    ObjectKey::new(&resource.namespace, &resource.name)
}
