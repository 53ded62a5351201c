//! Checks before an existing child is changed: was the resource read before its last change, does
//! another writer keep changing the child, and did a user ask for the change?

use tracing::warn;

use super::{Applier, ApplyError, Ensured, Expected, Wanted};
use crate::controller::drift::field_conflict::FieldConflict;
use crate::controller::drift::fingerprint::Fingerprint;
use crate::controller::drift::repairs::Decision;
use crate::controller::drift::stamp::{Hash, Stamp, hash_of_spec};
use crate::controller::reconcile::pacing;
use crate::operators::{Problem, Reason, Resource, status};

/// When a Deployment may be changed.
pub(super) enum Pace {
    /// At once: its user asked for it, or somebody edited it by hand.
    Now,
    /// At once, as one of the rollouts that no user asked for.
    Turn,
    /// When others are rolled out.
    Wait(Waits),
}

/// A Deployment that waits for its turn.
pub(super) struct Waits {
    /// Our fields, if they are as they were last applied for the same spec.
    as_applied: Option<Fingerprint>,
}

impl Waits {
    /// The resource is as ready as it was, if its Deployment is as it was applied.
    pub(super) fn note(self, wanted: Wanted<'_>, ensured: &mut Ensured) {
        match self.as_applied {
            Some(fingerprint) => ensured.expected.push(Expected {
                fingerprint,
                ..wanted.expected()
            }),
            None => {
                ensured.unconfirmed = Some(Problem {
                    reason: Reason::RolloutQueued,
                    message: "a default of the operator changed; this rollout waits for others (--max-concurrent-rollouts)".to_owned(),
                });
            }
        }
        ensured.look_again = Some(pacing::LOOK_AGAIN.mul_f64(0.8 + 0.4 * fastrand::f64()));
    }
}

impl Applier {
    /// Refuses to act for an older generation than the child was last written for. Asks the
    /// API server once: a stamp that is ahead of the resource itself was edited, or restored
    /// from a backup, and is overwritten.
    ///
    /// # Errors
    /// [`ApplyError::Stale`] if the cache of resources is behind, [`ApplyError::ResourceGone`].
    pub(super) async fn check_generation(
        &self,
        resource: &Resource,
        stamp: Stamp,
    ) -> Result<(), ApplyError> {
        if stamp.generation <= resource.generation {
            return Ok(());
        }
        let generation = self.live_generation(resource).await?;
        if generation > resource.generation {
            return Err(ApplyError::Stale);
        }
        let (namespace, name) = (&resource.namespace, &resource.name);
        warn!(
            controller = self.controller,
            namespace,
            name,
            generation,
            applied = stamp.generation,
            "a child was applied for a generation that its resource has not reached; overwritten"
        );
        Ok(())
    }

    /// Refuses to put back a child that somebody else keeps changing.
    ///
    /// # Errors
    /// [`ApplyError::Blocked`] with the field manager and the fields.
    pub(super) async fn check_repairs(&self, wanted: Wanted<'_>) -> Result<(), ApplyError> {
        let child = (wanted.child.kind, wanted.key());
        let left = match self.repairs.decide(&child, wanted.desired.fields) {
            Decision::Apply => return Ok(()),
            Decision::Wait(Some(problem), left) => return Err(ApplyError::Blocked(problem, left)),
            Decision::Wait(None, left) | Decision::Investigate(left) => left,
        };
        let kind = wanted.child.kind.kind;
        self.metrics.field_conflict(&self.controller, kind);
        let manager = self.kind.field_manager;
        let live = self.caller.get(wanted.location()).await?;
        let who = FieldConflict::of(&wanted.child.body, &live, manager).describe(manager);
        let problem = Problem {
            reason: Reason::FieldConflict,
            message: format!(
                "{kind} {}: {who}; nothing is applied for {} s, make one of the writers stop",
                wanted.child.name,
                left.as_secs()
            ),
        };
        self.repairs.conflict(&child, problem.clone());
        Err(ApplyError::Blocked(problem, left))
    }

    /// Whether a Deployment that is not as desired may be changed now.
    pub(super) fn pace(
        &self,
        wanted: Wanted<'_>,
        observed: Option<Fingerprint>,
        stamp: Option<Stamp>,
    ) -> Pace {
        let resource = wanted.resource;
        let asked_for = match stamp {
            Some(stamp) => {
                stamp.spec != hash_of_spec(resource) || stamp.desired == Hash(wanted.desired.fields)
            }
            // Of a release without stamps: its status says whether the spec was seen.
            None => resource.status.observed_generation != Some(resource.generation),
        };
        // A Deployment that does not serve has nothing to lose, and might never give its
        // place back.
        if asked_for || !self.children.is_rolled_out(&resource.uid) {
            return Pace::Now;
        }
        if self.pacer.may_begin(&wanted.resource_key()) {
            return Pace::Turn;
        }
        let is_as_applied = |observed: &Fingerprint| match stamp {
            Some(stamp) => stamp.desired == Hash(observed.fields),
            // Of a release without stamps: as ready as that release found it.
            None => status::condition(&resource.status, status::READY)
                .is_some_and(|ready| ready.status == "True"),
        };
        Pace::Wait(Waits {
            as_applied: observed.filter(is_as_applied),
        })
    }
}
