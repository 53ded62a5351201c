//! Checks of an existing child: whether it is as it was applied, whether the resource is outdated, whether
//! another writer keeps changing the child, and whether it may be changed now.

use tokio::time::Instant;
use tracing::warn;

use super::error::{ApplyError, Blocker};
use super::wanted::{Ensured, Expected, Wanted};
use crate::cache::cached::CachedChild;
use crate::reconcile::Reconciler;
use crate::reconcile::pacing;
use crate::repairs::{Decision, Repairs};
use crate::state::{Repaired, jittered, jittered_retry, key_of};
use quartet_applied::field_conflict;
use quartet_applied::fingerprint::Fingerprint;
use quartet_applied::stamp::{Hash, Stamp, hash_of_spec};
use quartet_http::{RequestError, found, generation_of};
use quartet_workload::{Problem, Reason, Resource, status};

impl Reconciler {
    /// Rejects an attempt whose last one failed in the same way, until it may be repeated.
    ///
    /// # Errors
    /// [`ApplyError::Blocked`], as the last attempt.
    pub(super) fn check_blocked(
        &self,
        resource: &Resource,
        attempt: u64,
    ) -> Result<(), ApplyError> {
        let blocker = self.state(resource).blocker(attempt);
        match blocker {
            Some(it) if it.problem.reason == Reason::RollingOut && self.is_rolled_out(resource) => {
                Ok(())
            }
            Some(blocker) => Err(blocker.into()),
            None => Ok(()),
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
        let what = Repaired::Child(expected.kind, expected.key.name().into());
        let state = self.state(resource);
        let rewritten = state.rewritten.get(&what);
        rewritten.is_some_and(|(fingerprints, _)| *fingerprints == (desired, answered))
    }

    /// The child is as desired. A field conflict is reported until this has lasted long enough.
    pub(super) fn note_recent_conflict(&self, wanted: Wanted<'_>, ensured: &mut Ensured) {
        let what = Repaired::Child(wanted.child.kind, wanted.child.name.as_str().into());
        let recent = self
            .state(wanted.resource)
            .recent_conflict(&what, wanted.counted);
        if let Some((problem, left)) = recent {
            ensured.blocked(Blocker {
                retry: left,
                ..Blocker::external(problem)
            });
        }
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

    /// Why a child is not repaired now: another writer keeps changing it. Names its field manager and the fields.
    /// A child that is not `cached` may have lost its label or its owner reference. It is read, since its
    /// deletion causes no event; if it is gone, the conflict is over.
    ///
    /// # Errors
    /// That of the read.
    pub(super) async fn check_repairs(
        &self,
        wanted: Wanted<'_>,
        cached: bool,
    ) -> Result<Option<Blocker>, RequestError> {
        let Decision::Wait(known, left) = self.repairs(wanted, Repairs::next) else {
            return Ok(None);
        };
        let conflict = |problem| Blocker {
            retry: left,
            ..Blocker::external(problem)
        };
        if let Some(problem) = known.clone().filter(|_| cached) {
            return Ok(Some(conflict(problem)));
        }
        let Some(live) = found(self.context.caller.get(wanted.location()).await)? else {
            self.repairs(wanted, |repairs, now| {
                *repairs = Repairs::new(wanted.counted, now);
            });
            return Ok(None);
        };
        let problem = known.unwrap_or_else(|| {
            let kind = wanted.child.kind.kind;
            let controller = self.kind.controller_name();
            self.context.metrics.field_conflict(&controller, kind);
            let manager = self.kind.field_manager;
            let who = field_conflict::describe(&wanted.child.body, &live, manager);
            let message = format!(
                "{kind} {}: {who}; nothing is applied for {} s, make one of the writers stop",
                wanted.child.name,
                left.as_secs()
            );
            Problem::new(Reason::FieldConflict, message)
        });
        self.repairs(wanted, |repairs, _| repairs.conflict(problem.clone()));
        let mut conflict = conflict(problem);
        if !cached {
            conflict.retry = left.min(jittered_retry());
        }
        Ok(Some(conflict))
    }

    /// Calls `with` with the repairs of a child.
    pub(super) fn repairs<T>(
        &self,
        wanted: Wanted<'_>,
        with: impl FnOnce(&mut Repairs, Instant) -> T,
    ) -> T {
        let child = wanted.child;
        let what = Repaired::Child(child.kind, child.name.as_str().into());
        let mut state = self.state(wanted.resource);
        let (repairs, now) = state.repairs(what, wanted.counted);
        with(repairs, now)
    }

    /// Whether a child that is not as desired is changed in a paced rollout; `None` if it waits for one, which
    /// is noted in `ensured`. A Deployment is changed at once if a user requested it, if it is not available, or
    /// if its own rollout makes no progress: it might never end a rollout.
    pub(super) fn pace(
        &self,
        wanted: Wanted<'_>,
        ours: &CachedChild,
        stamp: Option<Stamp>,
        ensured: &mut Ensured,
    ) -> Option<bool> {
        let resource = wanted.resource;
        // A paced rollout that is not complete stays one.
        let is_rolling = pacing::is_rolling(ours);
        let Some(workload) = ours.workload() else {
            return Some(is_rolling);
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
        let is_stuck = !is_rolling && workload.is_stuck();
        if is_requested || is_scaled_down || is_stuck || !workload.is_available() {
            return Some(is_rolling);
        }
        // A rollout of its own ends, or is stuck.
        let has_no_rollout = workload.is_updated() && !workload.paused;
        if (is_rolling || has_no_rollout) && self.may_begin(&key_of(resource)) {
            return Some(true);
        }
        let wait = jittered(pacing::WAIT);
        let is_as_applied = |observed: &Fingerprint| match stamp {
            // Even if its status is Ready: the Deployment may have drifted while no manager ran.
            Some(stamp) => stamp.desired == Hash(observed.fields),
            // Written by a release without stamps: keeps the readiness of that release.
            None => status::condition(&resource.status, status::READY)
                .is_some_and(|ready| ready.status == "True"),
        };
        match ours.fingerprint.filter(is_as_applied) {
            Some(fingerprint) => ensured.expected.push(Expected {
                fingerprint,
                ..wanted.expected()
            }),
            None => ensured.blocked(Blocker::expected(
                Reason::RolloutQueued,
                "a default of the operator changed; this rollout waits for others \
                 (--max-concurrent-rollouts)",
                wait,
            )),
        }
        ensured.requeue_after = Some(wait);
        None
    }
}
