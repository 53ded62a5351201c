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

use std::collections::HashSet;
use std::time::Duration;

use parking_lot::Mutex;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::time::Instant;
use tracing::warn;

use crate::cache::cached::{CachedResource, Meta};
use crate::object::ObjectKey;
use crate::repairs::Decision;
use crate::state::{Repaired, time_until};
pub(crate) use apply::error::Blocker;
use apply::{ApplyError, Ensured};
pub(crate) use first_revision::FirstRevision;
use outcome::Outcome;
pub(crate) use outcome::{Action, Failure};
use quartet_http::Part;
use quartet_http::{RequestError, found};
use quartet_versions::Version;
use quartet_versions::conversion::{self};
use quartet_workload::{Child, Desired, Finalized, Resource, status};
use reconciler::STALE_RETRY;
pub(crate) use reconciler::{Context, Reconciler};

/// Ends what a reconcile has begun in [`Reconciler::begun`], also after a panic or its time limit.
struct Begun<'a>(&'a Mutex<HashSet<ObjectKey>>, &'a ObjectKey);

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.0.lock().remove(self.1);
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
        let held_until = self.states.of(key, uid).held_until;
        if let Some(left) = held_until.and_then(time_until) {
            return Ok(Action::Held(left));
        }
        let begun = Begun(&self.begun, key);
        let next = self.reconcile_as_read(&cached).await;
        drop(begun);
        if let Some(asked) = next.as_ref().err().and_then(|it| it.error.retry_after()) {
            self.states.of(key, uid).held_until = Instant::now().checked_add(asked);
        }
        let now = self.resources.get(key);
        if now.is_none_or(|now| now.meta.uid != *uid) {
            // A new resource of that name has its own event.
            self.states.forget(key, uid);
            return next.map(|_| Action::AwaitChange);
        }
        next
    }

    async fn reconcile_as_read(&self, cached: &CachedResource) -> Result<Action, Failure> {
        // A policy may reject it. That prevents neither the children nor the status.
        let stripped = self.strip_legacy_finalizers(cached).await;
        let has_legacy = self.legacy_finalizer(cached).is_some();
        let stops = |error: &RequestError| error.is_fenced() || error.retry_after().is_some();
        if cached.meta.deleting && has_legacy || stripped.as_ref().is_err_and(stops) {
            // The resource may be gone now; otherwise it has a new event.
            return stripped.map(|_| Action::AwaitChange).map_err(Failure::from);
        }
        let read: Value = serde_json::from_str(&cached.spec).unwrap_or_default();
        let version = self.version_of(cached);
        let resource = self.resource(cached, version, &read);
        let (desired, ensured) = self
            .apply_desired(&resource, version, &read, cached.meta.deleting)
            .await;
        if let (Ok(children), Some(Ok(ensured))) = (&desired, &ensured)
            && self.becomes_ready(&resource, children)
            && !self.is_current(ensured).await?
        {
            return Ok(Action::RequeueAfter(STALE_RETRY));
        }
        let mut outcome = match ensured.map(|ensured| self.outcome(&resource, ensured)) {
            Some(Ok(outcome)) => outcome,
            Some(Err(next)) => return Ok(next),
            None => {
                // Nothing is applied, so an earlier failure does not last.
                self.state(&resource).unconfirmed(None);
                let refused = desired.as_ref().err().filter(|_| resource.paused.is_none());
                Outcome {
                    problem: refused.cloned(),
                    ..Outcome::default()
                }
            }
        };
        let is_degraded = outcome.problem.is_some();
        // A failed request does not show that an earlier problem is over.
        let is_told = outcome::told_problem(&resource).is_some();
        let keeps_status = outcome.failure.is_some() && !is_degraded && is_told;
        let strip_after = stripped.as_ref().ok().copied().flatten();
        let mut failure = outcome.failure.take().or(stripped.err());
        // During a `Retry-After`, the only status that is written is that of a degraded resource.
        let is_last = |error: &RequestError| {
            error.is_fenced() || !is_degraded && (keeps_status || error.retry_after().is_some())
        };
        let mut status_after = None;
        if !failure.as_ref().is_some_and(is_last) {
            let at = self.location(cached, &resource.api_version);
            let written = self.write_status_if_due(at, cached, (&resource, &desired), &outcome);
            match written.await {
                Ok(after) => status_after = after,
                // Of two, the one after which the next request must wait longer.
                Err(error) => {
                    let is_later = |it: &RequestError| {
                        error.is_fenced() || error.retry_after() > it.retry_after()
                    };
                    if failure.as_ref().is_none_or(is_later) {
                        failure = Some(error);
                    }
                }
            }
        }
        let requeue_after = [strip_after, outcome.requeue_after, status_after];
        let requeue_after = requeue_after.into_iter().flatten().min();
        match failure {
            Some(error) => Err(Failure {
                error,
                requeue_after,
            }),
            None => Ok(requeue_after.map_or(Action::AwaitChange, Action::RequeueAfter)),
        }
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
            Ok(()) => self.operator.desired(resource, &self.context.settings),
            Err(error) => Err(error.into()),
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
        let legacy = (self.context.legacy.finalizer)(self.kind)?;
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
            (self.context.legacy.removal)(name, finalized)
        });
        let Some(operations) = removal else {
            return Ok(None);
        };
        let key = &cached.meta.key;
        let next = self
            .states
            .of(key, uid)
            .next_repair(Repaired::Finalizers, 0);
        if let Decision::Wait(_, left) = next
            && !deleting
        {
            warn!("another operator keeps setting its finalizer on this resource; stop it");
            return Ok(Some(left));
        }
        let manager = self.kind.field_manager;
        let api_version = self.kind.api_version(version);
        let at = self.location(cached, &api_version);
        let patched = self
            .context
            .caller
            .json_patch(at, Part::Object, manager, &operations);
        let patched: Option<IgnoredAny> = found(patched.await)?;
        if patched.is_some() {
            self.states.of(key, uid).repaired(Repaired::Finalizers, 0);
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests;
