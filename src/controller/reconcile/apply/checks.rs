//! Checks of an existing child: whether it is as it was applied, whether the resource is outdated, whether
//! another writer keeps changing the child, whether it may be changed now, and whether a change that failed
//! keeps its slot.

use std::time::Duration;

use tracing::warn;

use super::error::{ApplyError, failing, pending_rollout};
use super::wanted::{Ensured, Expected, Wanted};
use crate::api_server::{RequestError, found, generation_of};
use crate::controller::cache::cached::{CachedChild, Owner};
use crate::controller::drift::field_conflict::FieldConflict;
use crate::controller::drift::fingerprint::Fingerprint;
use crate::controller::drift::repairs::Decision;
use crate::controller::drift::stamp::{Hash, Stamp, hash_of_spec};
use crate::controller::object::version_of;
use crate::controller::reconcile::pacing;
use crate::controller::reconcile::reconciler::Reconciler;
use crate::controller::state::{Blocker, ServerMutated, jittered_retry};
use crate::operators::{ChildSummary, Problem, Reason, Resource, status};

/// What follows the checks of an existing child.
pub(super) enum Step {
    /// Nothing: it is as desired, or not changed now.
    Done,
    /// An apply, `paced` if it takes part in a paced rollout. `had_slot`: so did the one before.
    Change { paced: bool, had_slot: bool },
}

/// When a Deployment may be changed.
enum Pace {
    /// Now: a user requested it, it only repairs drift, or the Deployment is not available, or its own rollout
    /// makes no progress.
    Now,
    /// Now, as a paced rollout.
    Turn,
    /// After other rollouts; with the owned fields, if they are as last applied for the same spec.
    Wait(Option<Fingerprint>),
}

/// Notes that a Deployment waits for its rollout. The resource keeps its readiness, if the Deployment is
/// `as_applied`.
fn wait_for_rollout(wanted: Wanted<'_>, as_applied: Option<Fingerprint>, ensured: &mut Ensured) {
    match as_applied {
        Some(fingerprint) => ensured.expected.push(Expected {
            fingerprint,
            ..wanted.expected()
        }),
        None => {
            ensured.unconfirmed = Some(Problem::new(
                Reason::RolloutQueued,
                "a default of the operator changed; this rollout waits for others \
                 (--max-concurrent-rollouts)",
            ));
        }
    }
    ensured.requeue_after = Some(pacing::jittered_resync());
}

impl Reconciler {
    /// The children that were applied for this `spec`, if the caches show all of them as they were
    /// applied, and no others: what [`Reconciler::ensure`] would find.
    pub(crate) fn remembered(
        &self,
        resource: &Resource,
        spec: u64,
    ) -> Option<(Vec<ChildSummary>, Ensured)> {
        let memo = self.memos.of(&resource.uid, spec);
        let (expected, children) = memo.filter(|_| resource.paused.is_none())?;
        let is_wanted = |kind, name: &str| {
            let mut children = children.iter();
            children.any(|child| child.kind == kind && child.name == name)
        };
        let is_in_conflict = |expected: &Expected| {
            let child = (expected.kind, expected.key.clone());
            self.repairs.has_conflict(&child)
        };
        let is_as_applied = self.is_confirmed(resource, &expected)
            && self.unwanted(resource, is_wanted).is_empty()
            && !expected.iter().any(is_in_conflict);
        if !is_as_applied {
            return None;
        }
        self.states.unblock(resource);
        let ensured = Ensured {
            expected,
            ..Ensured::default()
        };
        Some((children, ensured))
    }

    /// Checks a cached child of the resource, and notes in `ensured` what its status reports of one that is not
    /// changed now. `blocked`: the last attempt.
    ///
    /// # Errors
    /// An [`ApplyError`] of a read, [`ApplyError::Stale`], or that of
    /// [`Reconciler::check_blocked`].
    pub(super) async fn check_existing(
        &self,
        wanted: Wanted<'_>,
        ours: &CachedChild,
        blocked: Option<&(Blocker, Duration)>,
        ensured: &mut Ensured,
    ) -> Result<Step, ApplyError> {
        let resource = wanted.resource;
        let expected = wanted.expected();
        if self.is_as_expected(resource, &expected, ours.fingerprint) {
            ensured.child(expected, self.recent_conflict(wanted));
            return Ok(Step::Done);
        }
        // A write to an earlier object of this name does not apply to this one.
        let is_owned = |owner: &Owner| *owner.uid == *resource.uid;
        let stamp = ours
            .stamp
            .filter(|_| ours.owner.as_ref().is_some_and(is_owned));
        if let Some(stamp) = stamp {
            self.check_generation(resource, stamp).await?;
        }
        if let Some(conflict) = self.check_repairs(wanted, true).await? {
            ensured.problem.get_or_insert(conflict);
            return Ok(Step::Done);
        }
        // Before the slot: it would be taken and given back without a rollout.
        self.check_blocked(wanted, blocked)?;
        if !wanted.child.kind.has_pods {
            return Ok(Step::Change {
                paced: false,
                had_slot: false,
            });
        }
        let had_slot = self.pacer.is_rolling(&wanted.resource_key());
        let paced = match self.pace(wanted, ours.fingerprint, stamp, had_slot) {
            // A paced rollout that is not complete stays one, and keeps its slot.
            Pace::Now => had_slot,
            Pace::Turn => true,
            Pace::Wait(as_applied) => {
                match blocked {
                    // What was refused, or failed, is not over because its next attempt waits.
                    Some((Blocker::Problem(problem), _)) => {
                        let wait = pacing::jittered_resync();
                        ensured.problem.get_or_insert((problem.clone(), wait));
                    }
                    Some((Blocker::Failing(problem), _)) => {
                        ensured.failure = Some((problem.clone(), jittered_retry()));
                    }
                    _ => wait_for_rollout(wanted, as_applied, ensured),
                }
                return Ok(Step::Done);
            }
        };
        Ok(Step::Change { paced, had_slot })
    }

    /// Rejects an attempt whose last one failed in the same way, until it may be repeated.
    ///
    /// # Errors
    /// [`ApplyError::Blocked`] or [`ApplyError::Pending`], as the last attempt.
    pub(super) fn check_blocked(
        &self,
        wanted: Wanted<'_>,
        blocked: Option<&(Blocker, Duration)>,
    ) -> Result<(), ApplyError> {
        let running = blocked.filter(|(_, wait)| !wait.is_zero());
        match running.cloned() {
            Some((Blocker::Problem(problem), wait)) => Err(ApplyError::Blocked(problem, wait)),
            Some((Blocker::Failing(problem), wait)) => Err(failing(problem, wait)),
            Some((Blocker::Rollout, wait)) if !self.is_rolled_out(wanted.resource) => {
                Err(pending_rollout(wanted, wait))
            }
            Some((Blocker::Rollout, _)) | None => Ok(()),
        }
    }

    /// Whether the owned fields of a child are as desired, or as changed on admission.
    pub(super) fn is_as_expected(
        &self,
        resource: &Resource,
        expected: &Expected,
        observed: Option<Fingerprint>,
    ) -> bool {
        let desired = expected.fingerprint;
        let Some(answered) = observed.filter(|observed| *observed != desired) else {
            return observed.is_some();
        };
        let rewritten = ServerMutated {
            kind: expected.kind,
            name: expected.key.name().into(),
            desired,
            answered,
        };
        self.states.is_rewritten(resource, &rewritten)
    }

    /// The child is as desired. A field conflict is reported until this has lasted long enough.
    pub(super) fn recent_conflict(&self, wanted: Wanted<'_>) -> Option<(Problem, Duration)> {
        let child = (wanted.child.kind, wanted.key());
        self.repairs.recent_conflict(&child, wanted.counted)
    }

    /// Rejects a resource of an older generation than the child's stamp, or of an older spec of the same one.
    /// Reads the resource from the API server once: a stamp with a later generation than the resource was
    /// edited, or restored from a backup, and is overwritten.
    ///
    /// # Errors
    /// [`ApplyError::Stale`] if the cached resource is outdated, [`ApplyError::ResourceGone`].
    pub(super) async fn check_generation(
        &self,
        resource: &Resource,
        stamp: Stamp,
    ) -> Result<(), ApplyError> {
        if stamp.generation < resource.generation {
            return Ok(());
        }
        if stamp.generation == resource.generation {
            // The spec may have changed without the generation, and the child may be of the later one.
            return match stamp.spec == hash_of_spec(resource) {
                true => Ok(()),
                false => self.check_current(resource).await,
            };
        }
        let generation = generation_of(&self.live(resource).await?);
        if generation > resource.generation {
            return Err(ApplyError::Stale);
        }
        warn!(
            generation,
            applied = stamp.generation,
            "a child was applied for a generation that its resource has not reached; overwritten"
        );
        Ok(())
    }

    /// Why a child is not repaired now, and for how long: another writer keeps changing it. Names its field
    /// manager and the fields. A child that is not `cached` may have lost its label or its owner reference. It
    /// is read, since its deletion causes no event; if it is gone, the conflict is over.
    ///
    /// # Errors
    /// That of the read.
    pub(super) async fn check_repairs(
        &self,
        wanted: Wanted<'_>,
        cached: bool,
    ) -> Result<Option<(Problem, Duration)>, RequestError> {
        let child = (wanted.child.kind, wanted.key());
        let (known, left) = match self.repairs.decide(&child, wanted.counted) {
            Decision::Apply => return Ok(None),
            Decision::Wait(Some(problem), left) if cached => return Ok(Some((problem, left))),
            Decision::Wait(known, left) => (known, left),
            Decision::Investigate(left) => (None, left),
        };
        let Some(live) = found(self.caller.get(wanted.location()).await)? else {
            self.repairs.forget(&child);
            return Ok(None);
        };
        let wait = match cached {
            true => left,
            false => left.min(jittered_retry()),
        };
        if let Some(problem) = known {
            return Ok(Some((problem, wait)));
        }
        let kind = wanted.child.kind.kind;
        self.metrics.field_conflict(&self.controller, kind);
        let manager = self.kind.field_manager;
        let who = FieldConflict::of(&wanted.child.body, &live, manager).describe(manager);
        let message = format!(
            "{kind} {}: {who}; nothing is applied for {} s, make one of the writers stop",
            wanted.child.name,
            left.as_secs()
        );
        let problem = Problem::new(Reason::FieldConflict, message);
        self.repairs.conflict(&child, problem.clone());
        Ok(Some((problem, wait)))
    }

    /// When a Deployment that is not as desired may be changed. `has_slot`: in a paced rollout.
    fn pace(
        &self,
        wanted: Wanted<'_>,
        observed: Option<Fingerprint>,
        stamp: Option<Stamp>,
        has_slot: bool,
    ) -> Pace {
        let resource = wanted.resource;
        let is_requested = match stamp {
            Some(stamp) => {
                stamp.spec != hash_of_spec(resource) || stamp.desired == Hash(wanted.desired.fields)
            }
            // Written by a release without stamps: its status tells whether the spec was observed.
            None => resource.status.observed_generation != Some(resource.generation),
        };
        // An unavailable Deployment, and one without progress of its own, are changed at once: they might
        // never free a slot.
        let (namespace, uid) = (&resource.namespace, &resource.uid);
        let is_stalled = !has_slot && self.children.is_stalled(namespace, uid);
        if is_requested || is_stalled || !self.children.is_available(namespace, uid) {
            return Pace::Now;
        }
        // A rollout of its own ends, or stalls, without a slot.
        let may_begin = has_slot || self.children.has_no_rollout(namespace, uid);
        if may_begin && self.pacer.may_begin(&wanted.resource_key()) {
            return Pace::Turn;
        }
        let is_as_applied = |observed: &Fingerprint| match stamp {
            // Even if its status is Ready: the Deployment may have drifted while no manager ran.
            Some(stamp) => stamp.desired == Hash(observed.fields),
            // Written by a release without stamps: keeps the readiness of that release.
            None => status::condition(&resource.status, status::READY)
                .is_some_and(|ready| ready.status == "True"),
        };
        Pace::Wait(observed.filter(is_as_applied))
    }

    /// Whether a paced apply with this `error` gives back the slot of the resource. Not if it `had_slot` before,
    /// the API server has executed the apply, or may have (an unclear answer is resolved by one read), or the
    /// cache is outdated: the next attempt follows soon.
    ///
    /// # Errors
    /// That of the read, if it asks to wait longer than `error`. The slot stays.
    pub(super) async fn gives_back_slot(
        &self,
        wanted: Wanted<'_>,
        error: &ApplyError,
        had_slot: bool,
    ) -> Result<bool, RequestError> {
        let key = wanted.resource_key();
        // Without a limit there are no slots.
        if !self.pacer.is_rolling(&key) {
            return Ok(false);
        }
        let mut is_cached = true;
        if let ApplyError::Failed(error) = error
            && error.is_ambiguous()
        {
            self.pacer.doubt(&key, true);
            if error.retry_after().is_some() {
                return Ok(false);
            }
            let live = match found(self.caller.get(wanted.location()).await) {
                Ok(live) => live,
                Err(error) if error.retry_after().is_some() => return Err(error),
                Err(_) => return Ok(false),
            };
            let stamp = live.as_ref().and_then(Stamp::of);
            if stamp.is_some_and(|it| it.desired == Hash(wanted.desired.fields)) {
                return Ok(false);
            }
            let cached = self.children.cached(wanted.child.kind, &wanted.key());
            let cached = cached.map(|it| it.meta.resource_version);
            is_cached = live.as_ref().and_then(version_of) == cached;
            self.pacer.doubt(&key, !is_cached);
        }
        Ok(is_cached && !had_slot)
    }
}
