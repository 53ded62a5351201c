//! One reconcile of one resource: applies the children that its operator desires, and writes the
//! observed state to its status. Level-triggered: independent of the event that enqueued it. Kinds
//! differ only in their [operator](quartet_workload::Operator), a pure function.
//! Used by `controllers`.

pub(crate) mod apply;
pub(crate) mod error_class;
mod first_revision;
mod outcome;
pub(crate) mod pacing;
mod reconciler;
mod status_writer;
pub(crate) mod worker;

use std::time::Duration;

use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tracing::warn;

use crate::cache::cached::{CachedResource, Meta};
use crate::object::ObjectKey;
use crate::repairs::{Decision, Repairs};
use crate::state::Repaired;
use apply::{ApplyError, Ensured};
pub(crate) use first_revision::FirstRevision;
use outcome::Outcome;
pub(crate) use outcome::{Action, Failure};
use quartet_http::Part;
use quartet_http::{RequestError, found};
use quartet_versions::Version;
use quartet_versions::conversion::{self};
use quartet_workload::{Child, Desired, Finalized, Reason, Resource, ValidationError, status};
use reconciler::STALE_RETRY;
pub(crate) use reconciler::{Context, Reconciler};

/// The deletion of a resource during its reconcile: its state is forgotten at the end, also after a panic
/// or a timeout.
struct Deletion<'a> {
    reconciler: &'a Reconciler,
    cached: &'a CachedResource,
}

impl Deletion<'_> {
    fn has_happened(&self) -> bool {
        let meta = &self.cached.meta;
        let now = self.reconciler.resources.get(&meta.key);
        now.is_none_or(|now| now.meta.uid != meta.uid)
    }
}

impl Drop for Deletion<'_> {
    fn drop(&mut self) {
        if self.has_happened() {
            self.reconciler.forget(self.cached);
        }
    }
}

impl Reconciler {
    /// Reconciles one resource: applies its children and writes its status.
    ///
    /// # Errors
    /// An error that is retried with back-off.
    pub(crate) async fn reconcile(&self, key: &ObjectKey) -> Result<Action, Failure> {
        let Some(cached) = self.resources.get(key) else {
            return Ok(Action::AwaitChange);
        };
        let uid = &cached.meta.uid;
        if let Some(left) = self.states.held(key, uid) {
            return Ok(Action::Held(left));
        }
        let deletion = Deletion {
            reconciler: self,
            cached: &cached,
        };
        self.pacer.reconcile_begins(key);
        let next = self.reconcile_as_read(&cached).await;
        let children = self.children.with_pods(key.namespace(), uid);
        let is_rolling = children.iter().any(|child| pacing::is_rolling(child));
        self.pacer.reconcile_ended(key, is_rolling);
        if let Some(asked) = next.as_ref().err().and_then(|it| it.error.retry_after()) {
            self.states.hold(key, uid, asked);
        }
        if deletion.has_happened() {
            // A new resource of that name has its own event.
            return next.map(|_| Action::AwaitChange);
        }
        next
    }

    async fn reconcile_as_read(&self, cached: &CachedResource) -> Result<Action, Failure> {
        // A policy may reject it. That is reported, and prevents neither the children nor the status.
        let stripped = match self.strip_legacy_finalizers(cached).await {
            // Nothing more may be sent now.
            Err(error) if error.is_fenced() || error.retry_after().is_some() => {
                return Err(error.into());
            }
            stripped => stripped,
        };
        if cached.meta.deleting && self.legacy_finalizer(cached).is_some() {
            // The resource may be gone now; otherwise it has a new event.
            return stripped.map(|_| Action::AwaitChange).map_err(Failure::from);
        }
        let (strip_after, stripped) = match stripped {
            Ok(strip_after) => (strip_after, None),
            Err(error) => (None, Some(error)),
        };
        let read: Value = serde_json::from_str(&cached.spec).unwrap_or_default();
        let version = self.version_of(cached);
        let resource = self.resource(cached, version, &read);
        let (desired, ensured) = self
            .apply_desired(&resource, version, &read, cached.meta.deleting)
            .await;
        let mut outcome = match (&desired, ensured) {
            (Ok(children), Some(ensured)) => {
                if self.becomes_ready(&resource, children)
                    && let Ok(ensured) = &ensured
                    && !self.is_current(ensured).await?
                {
                    return Ok(Action::RequeueAfter(STALE_RETRY));
                }
                match self.outcome(&resource, ensured, stripped) {
                    Ok(outcome) => outcome,
                    Err(next) => return Ok(next),
                }
            }
            _ => {
                // Nothing is applied, so an earlier failure does not last.
                self.states.unconfirmed(&resource, None);
                let refused = desired.as_ref().err().filter(|_| resource.paused.is_none());
                Outcome {
                    problem: refused.map(ValidationError::problem),
                    failure: stripped,
                    ..Outcome::default()
                }
            }
        };
        let strip_after = strip_after.into_iter();
        outcome.requeue_after = strip_after.chain(outcome.requeue_after).min();
        let is_degraded = outcome.problem.is_some();
        // A failed request does not show that the problem of the stored status is over.
        let unconfirmed = outcome.unconfirmed.as_ref();
        let has_failed = unconfirmed.is_some_and(|it| it.reason == Reason::ApplyFailed);
        let keeps_status = has_failed && is_told_degraded(&resource);
        // During a `Retry-After`, the only status that is written is that of a degraded resource.
        let is_last = |error: &mut RequestError| {
            error.is_fenced() || (!is_degraded && (keeps_status || error.retry_after().is_some()))
        };
        if let Some(error) = outcome.failure.take_if(is_last) {
            return Err(Failure {
                error,
                requeue_after: outcome.requeue_after,
            });
        }
        let at = self.location(cached, &resource.api_version);
        let written = self
            .write_status_if_due(at, cached, (&resource, &desired), &outcome)
            .await;
        outcome.into_result(written)
    }

    /// Computes the desired children and applies them, unless the resource is paused or being deleted, or its
    /// spec is refused.
    async fn apply_desired(
        &self,
        resource: &Resource,
        version: &Version,
        read: &Value,
        is_deleting: bool,
    ) -> (Desired, Option<Result<Ensured, ApplyError>>) {
        // First in the version that was read, so that errors name its fields, and again in the hub
        // version.
        let desired = match version.validate(read) {
            Ok(()) => self.operator.desired(resource, &self.settings),
            Err(error) => Err(ValidationError::Invalid(vec![error])),
        };
        let ensured = match &desired {
            // The garbage collector deletes the children. A child that is created now would outlive a
            // foreground deletion of its owner, or delay it.
            Ok(children) if resource.paused.is_none() && !is_deleting => {
                Some(self.ensure(resource, children).await)
            }
            _ => None,
        };
        (desired, ensured)
    }

    /// Whether the caches show a complete rollout that its status does not report yet.
    fn becomes_ready(&self, resource: &Resource, children: &[Child]) -> bool {
        let is_told = status::condition(&resource.status, status::READY).is_some_and(|ready| {
            ready.status == "True" && ready.observed_generation == Some(resource.generation)
        });
        let is_rolled_out =
            || self.is_rolled_out(resource) || children.iter().all(|child| !child.kind.has_pods);
        !is_told && is_rolled_out()
    }

    /// Releases the state of a resource that is deleted.
    pub(crate) fn forget(&self, resource: &CachedResource) {
        let (key, uid) = (&resource.meta.key, &resource.meta.uid);
        self.pacer.forget(key);
        self.states.forget(key, uid);
    }

    /// The resource with the spec of the hub version, whichever version was `read`.
    fn resource(&self, cached: &CachedResource, version: &Version, read: &Value) -> Resource {
        let annotations = cached
            .conversion_data
            .as_ref()
            .map(|data| json!({self.kind.brand.conversion_data: data}));
        Resource {
            namespace: cached.meta.key.namespace().to_owned(),
            name: cached.meta.key.name().to_owned(),
            uid: cached.meta.uid.clone().into(),
            generation: cached.meta.generation,
            api_version: self.kind.api_version(version),
            spec: conversion::hub_spec(self.kind, version, read, annotations.as_ref()),
            // Replaces a status of an older operator that does not fit this type.
            status: serde_json::from_str(&cached.status).unwrap_or_default(),
            paused: cached.paused.as_deref().map(Into::into),
        }
    }

    /// The finalizer of an older operator and its index, if the resource has it.
    fn legacy_finalizer(&self, cached: &CachedResource) -> Option<(&'static str, usize)> {
        let legacy = (self.legacy.finalizer)(self.kind)?;
        let index = cached.finalizers.iter().position(|it| **it == *legacy)?;
        Some((legacy, index))
    }

    /// Removes the finalizers of an older operator; no other controller does. Returns when to try again, if
    /// that operator keeps setting them.
    async fn strip_legacy_finalizers(
        &self,
        cached: &CachedResource,
    ) -> Result<Option<Duration>, RequestError> {
        let version = self.version_of(cached);
        let Meta { uid, deleting, .. } = &cached.meta;
        let removal = self.legacy_finalizer(cached).and_then(|(name, index)| {
            let finalized = Finalized {
                index,
                version,
                uid,
                spec: &cached.spec,
                is_deleting: *deleting,
            };
            (self.legacy.removal)(name, finalized)
        });
        let Some(operations) = removal else {
            return Ok(None);
        };
        let key = &cached.meta.key;
        let what = || (Repaired::Finalizers, 0);
        if !deleting {
            match self.states.repairs(key, uid, what(), Repairs::next) {
                Decision::Apply => {}
                Decision::Wait(_, left) => return Ok(Some(left)),
                Decision::Investigate(left) => {
                    warn!("another operator keeps setting its finalizer on this resource; stop it");
                    return Ok(Some(left));
                }
            }
        }
        let manager = self.kind.field_manager;
        let api_version = self.kind.api_version(version);
        let at = self.location(cached, &api_version);
        let patched = self
            .caller
            .json_patch(at, Part::Object, manager, &operations);
        let patched: Option<IgnoredAny> = found(patched.await)?;
        if patched.is_some() {
            self.states.repairs(key, uid, what(), Repairs::applied);
        }
        Ok(None)
    }
}

/// Whether the stored status says that this generation is degraded.
fn is_told_degraded(resource: &Resource) -> bool {
    let degraded = status::condition(&resource.status, status::DEGRADED);
    degraded.is_some_and(|it| {
        it.status == "True" && it.observed_generation == Some(resource.generation)
    })
}

#[cfg(test)]
mod tests;
