//! Checks of an existing child: whether it is as it was applied, whether the resource is outdated, whether
//! another writer keeps changing the child, and whether it may be changed now.

use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;

use super::error::{ApplyError, failing, pending_rollout};
use super::wanted::{Ensured, Expected, Wanted};
use crate::cache::cached::{CachedChild, Owner};
use crate::reconcile::pacing;
use crate::reconcile::reconciler::Reconciler;
use crate::repairs::{Decision, Repairs};
use crate::state::{Blocker, Repaired, ServerMutated, jittered_retry, key_of};
use quartet_applied::field_conflict;
use quartet_applied::fingerprint::Fingerprint;
use quartet_applied::stamp::{Hash, Stamp, hash_of_spec};
use quartet_http::{RequestError, found, generation_of};
use quartet_workload::{Problem, Reason, Resource, status};

/// What follows the checks of an existing child.
pub(super) enum Step {
    /// Nothing: it is as desired, or not changed now.
    Done,
    /// An apply, `paced` if it takes part in a paced rollout.
    Change { paced: bool },
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
    ensured.requeue_after = Some(pacing::jittered_wait());
}

impl Reconciler {
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
        // Before the pace: it would count as a rollout.
        self.check_blocked(wanted, blocked)?;
        let paced = match self.pace(wanted, ours, stamp) {
            // A paced rollout that is not complete stays one.
            Pace::Now => pacing::is_rolling(ours),
            Pace::Turn => true,
            Pace::Wait(as_applied) => {
                // What was refused is not over because its next attempt waits.
                if let Some((Blocker::Problem(problem), _)) = blocked {
                    let refused = (problem.clone(), pacing::jittered_wait());
                    ensured.problem.get_or_insert(refused);
                } else {
                    wait_for_rollout(wanted, as_applied, ensured);
                }
                return Ok(Step::Done);
            }
        };
        Ok(Step::Change { paced })
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
        self.repairs(wanted, Repairs::recent_conflict)
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
            if stamp.spec == hash_of_spec(&resource.spec) {
                return Ok(());
            }
            return self.check_current(resource).await;
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
        let (known, left) = match self.repairs(wanted, Repairs::next) {
            Decision::Apply => return Ok(None),
            Decision::Wait(Some(problem), left) if cached => return Ok(Some((problem, left))),
            Decision::Wait(known, left) => (known, left),
            Decision::Investigate(left) => (None, left),
        };
        let Some(live) = found(self.caller.get(wanted.location()).await)? else {
            self.repairs(wanted, |repairs, now| {
                *repairs = Repairs::new(wanted.counted, now);
            });
            return Ok(None);
        };
        let wait = if cached {
            left
        } else {
            left.min(jittered_retry())
        };
        if let Some(problem) = known {
            return Ok(Some((problem, wait)));
        }
        let kind = wanted.child.kind.kind;
        self.metrics.field_conflict(&self.controller, kind);
        let manager = self.kind.field_manager;
        let who = field_conflict::describe(&wanted.child.body, &live, manager);
        let message = format!(
            "{kind} {}: {who}; nothing is applied for {} s, make one of the writers stop",
            wanted.child.name,
            left.as_secs()
        );
        let problem = Problem::new(Reason::FieldConflict, message);
        self.repairs(wanted, |repairs, _| repairs.conflict(problem.clone()));
        Ok(Some((problem, wait)))
    }

    /// Calls `with` with the repairs of a child.
    pub(super) fn repairs<T>(
        &self,
        wanted: Wanted<'_>,
        with: impl FnOnce(&mut Repairs, Instant) -> T,
    ) -> T {
        let (resource, child) = (wanted.resource, wanted.child);
        let what = Repaired::Child(child.kind, child.name.as_str().into());
        let key = key_of(resource);
        self.states
            .repairs(&key, &resource.uid, (what, wanted.counted), with)
    }

    /// When a child that is not as desired may be changed.
    fn pace(&self, wanted: Wanted<'_>, ours: &CachedChild, stamp: Option<Stamp>) -> Pace {
        let resource = wanted.resource;
        let Some(workload) = ours.workload() else {
            return Pace::Now;
        };
        let is_requested = match stamp {
            Some(stamp) => {
                stamp.spec != hash_of_spec(&resource.spec)
                    || stamp.desired == Hash(wanted.desired.fields)
            }
            // Written by a release without stamps: its status tells whether the spec was observed.
            None => resource.status.observed_generation != Some(resource.generation),
        };
        let wants_more = |replicas| workload.desired < replicas;
        let is_scaled_down = wanted.child.replicas().is_some_and(wants_more);
        // An unavailable Deployment, and one without progress of its own, are changed at once: they might
        // never end a rollout.
        let is_rolling = pacing::is_rolling(ours);
        let is_stuck = !is_rolling && workload.is_stuck();
        if is_requested || is_scaled_down || is_stuck || !workload.is_available() {
            return Pace::Now;
        }
        // A rollout of its own ends, or is stuck.
        let has_no_rollout = workload.is_updated() && !workload.paused;
        let may_begin = is_rolling || has_no_rollout;
        if may_begin && self.pacer.may_begin(&key_of(resource)) {
            return Pace::Turn;
        }
        let is_as_applied = |observed: &Fingerprint| match stamp {
            // Even if its status is Ready: the Deployment may have drifted while no manager ran.
            Some(stamp) => stamp.desired == Hash(observed.fields),
            // Written by a release without stamps: keeps the readiness of that release.
            None => status::condition(&resource.status, status::READY)
                .is_some_and(|ready| ready.status == "True"),
        };
        Pace::Wait(ours.fingerprint.filter(is_as_applied))
    }
}
