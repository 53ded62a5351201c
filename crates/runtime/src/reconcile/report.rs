//! The fourth phase: writes the status of a resource when it differs, logs each transition of `Ready`,
//! and records Events for transitions that a person should see.

use std::time::Duration;

use tracing::{debug, info, warn};

use super::outcome::{Action, Failure, Outcome, told_problem};
use super::read::{Seen, observe};
use super::{Reconciler, STALE_RETRY, desire};
use crate::cache::cached::CachedResource;
use crate::event::transitions;
use crate::repairs::Decision;
use crate::state::{Repaired, hash_of};
use quartet_http::{LogLimit, Part, RequestError};
use quartet_workload::api::{Condition, Status};
use quartet_workload::{Desired, Resource, status};

/// With more resources of a kind in the work queue, it is a burst.
const BURST: usize = 25;

/// Writes the status, if it is due, and returns when to reconcile again. `finalizers` is when to remove those of an
/// older operator again.
///
/// # Errors
/// An error that is retried with back-off: that of a child, of the finalizers or of the status.
pub(super) async fn report(
    reconciler: &Reconciler,
    seen: &Seen,
    desired: &Desired,
    mut outcome: Outcome,
    finalizers: Result<Option<Duration>, RequestError>,
) -> Result<Action, Failure> {
    let is_degraded = outcome.problem.is_some();
    // A failed request does not show that an earlier problem is over.
    let is_told = told_problem(&seen.resource).is_some();
    let keeps_status = outcome.failure.is_some() && !is_degraded && is_told;
    let strip_after = finalizers.as_ref().ok().copied().flatten();
    let mut failure = outcome.failure.take().or(finalizers.err());
    // During a `Retry-After`, the only status that is written is that of a degraded resource.
    let is_last = |error: &RequestError| {
        error.is_fenced() || !is_degraded && (keeps_status || error.retry_after().is_some())
    };
    let mut status_after = None;
    if !failure.as_ref().is_some_and(is_last) {
        let written = reconciler.write_status_if_due(seen, desired, &outcome);
        match written.await {
            Ok(after) => status_after = after,
            // Of two, the one after which the next request must wait longer.
            Err(error) => {
                let is_later =
                    |it: &RequestError| error.is_fenced() || error.retry_after() > it.retry_after();
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

impl Reconciler {
    /// Writes the status of the resource, if it differs and is due. Returns when to reconcile again: when the
    /// write is due, or at once if the resource has changed since it was read.
    ///
    /// # Errors
    /// An error to retry. A deleted resource is not an error.
    async fn write_status_if_due(
        &self,
        seen: &Seen,
        desired: &Desired,
        outcome: &Outcome,
    ) -> Result<Option<Duration>, RequestError> {
        let (resource, cached) = (&seen.resource, &*seen.cached);
        let observed = observe(self, resource, desired, outcome);
        let next_change = status::next_change(&observed);
        let is_at_rest = status::is_at_rest(desired, &observed) || observed.problem.is_some();
        let wanted = desire::status(self.operator, seen, desired, &observed);
        if wanted == resource.status {
            self.state(resource).pending = None;
            return Ok(next_change);
        }
        let content = content_of(wanted.clone());
        let in_conditions = conditions(&wanted).ne(conditions(&resource.status));
        let is_new = wanted.observed_generation != resource.status.observed_generation;
        let wait = self.state(resource).status_differs(content, in_conditions);
        // In a burst, the controllers of the children are behind: the first status saves a reconcile.
        let is_due = wait.is_zero() || is_at_rest || is_new && self.queue.ready() > BURST;
        if !is_due {
            return Ok(next_change.into_iter().chain([wait]).min());
        }
        let next = self.state(resource).next_repair(Repaired::Status, content);
        if let Decision::Wait(_, left) = next {
            static FOUGHT: LogLimit = LogLimit::new();
            if let Some(omitted) = FOUGHT.admit() {
                warn!(
                    omitted,
                    "another writer keeps changing the status of this resource; stop it"
                );
            }
            return Ok(next_change.into_iter().chain([left]).min());
        }
        let is_sent = self.send_status(resource, cached, &wanted).await?;
        if is_sent {
            let mut state = self.state(resource);
            state.repaired(Repaired::Status, content);
            state.pending = None;
            drop(state);
            self.record_transitions(resource, &wanted);
            return Ok(next_change);
        }
        // Deleted, which the watch reports, or changed. The cache may show a change that enqueues nothing,
        // such as a label.
        let known = self.resources.get(&cached.meta.key);
        let is_newer =
            known.is_some_and(|known| known.meta.resource_version > cached.meta.resource_version);
        Ok(Some(if is_newer {
            Duration::ZERO
        } else {
            STALE_RETRY
        }))
    }

    /// Sends the status `wanted`, and stores the answer in the cache, so that its event enqueues nothing.
    /// Returns false if the resource was changed or deleted, and the status is not written.
    ///
    /// # Errors
    /// An error to retry.
    async fn send_status(
        &self,
        resource: &Resource,
        cached: &CachedResource,
        wanted: &Status,
    ) -> Result<bool, RequestError> {
        // The precondition: the status must not go to a new resource of the same name, must not
        // claim a spec that the cache does not show yet, and must not replace an unseen status. The
        // API server answers 409 if the resource has another version. A `test` would be answered 422,
        // without a text that names the cause (apiserver `endpoints/handlers/patch.go`).
        let version = cached.meta.resource_version.to_string();
        let wanted = serde_json::to_string(wanted).unwrap_or_default();
        let operations = format!(
            r#"[{{"op": "replace", "path": "/metadata/resourceVersion", "value": "{version}"}},
                {{"op": "add", "path": "/status", "value": {wanted}}}]"#
        );
        let manager = self.kind.field_manager;
        let removals = self.resources.removals();
        let at = self.location(resource);
        let sent = self
            .context
            .caller
            .json_patch(at, Part::Status, manager, &operations);
        match sent.await {
            Ok(answer) => {
                if let Some(written) = cached.with_status(&answer) {
                    self.resources.put_written(written, removals);
                }
                Ok(true)
            }
            Err(error) if error.is_not_found() || error.is_conflict() => {
                debug!(%error, "the resource was changed or deleted");
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Logs each transition of Ready, and records Events for transitions that a person should see.
    fn record_transitions(&self, resource: &Resource, wanted: &Status) {
        let gist = |condition: &Condition| (condition.status.clone(), condition.reason.clone());
        let before = status::condition(&resource.status, status::READY).map(gist);
        if let Some(ready) = status::condition(wanted, status::READY)
            && before != Some(gist(ready))
        {
            let Condition {
                status,
                reason,
                message,
                ..
            } = ready;
            // `message` is the name of the log line itself.
            info!(ready = status, reason, detail = message, "status");
        }
        for notice in transitions(&resource.status, wanted) {
            self.context.recorder.record(self.kind, resource, notice);
        }
    }
}

/// The conditions of ours, without times and messages.
fn conditions(status: &Status) -> impl Iterator<Item = (&str, &str, &str, Option<i64>)> {
    let ours = status.conditions.iter();
    let ours = ours.filter(|it| status::TYPES.contains(&&*it.type_));
    ours.map(|it| (&*it.type_, &*it.status, &*it.reason, it.observed_generation))
}

/// Hash of what is ours of a status, without times and messages. Replaced pods change the status, which is then
/// not a repeated write.
fn content_of(mut status: Status) -> u64 {
    let is_ours = |it: &Condition| status::TYPES.contains(&&*it.type_);
    status.conditions.retain(is_ours);
    for condition in &mut status.conditions {
        condition.last_transition_time.clear();
        condition.message.clear();
    }
    hash_of(&serde_json::to_string(&status).unwrap_or_default())
}

#[cfg(test)]
mod tests;
