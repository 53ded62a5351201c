//! Writes the status of a resource when it differs, logs each transition of `Ready`, and records
//! Events for transitions that a person should see.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tracing::{debug, info, warn};

use crate::cache::cached::CachedResource;
use crate::event::transitions;
use crate::reconcile::outcome::Outcome;
use crate::reconcile::reconciler::{Reconciler, STALE_RETRY};
use crate::repairs::{Decision, Repairs};
use crate::state::{Repaired, jittered_retry, key_of};
use quartet_http::Part;
use quartet_http::{Location, RequestError};
use quartet_workload::api::{Condition, Status};
use quartet_workload::{Desired, Observed, Reason, Resource, status};

impl Reconciler {
    /// Writes the status of the resource `at`, which was read as `cached`, if it differs and is
    /// due. Returns when to reconcile again: when the write is due, or at once if the resource has
    /// changed since it was read.
    ///
    /// # Errors
    /// An error to retry. A deleted resource is not an error.
    pub(super) async fn write_status_if_due(
        &self,
        at: Location<'_>,
        cached: &CachedResource,
        (resource, desired): (&Resource, &Desired),
        outcome: &Outcome,
    ) -> Result<Option<Duration>, RequestError> {
        let observed = self.observe(resource, desired, outcome);
        let next_change = status::next_change(&observed);
        let is_at_rest = status::is_at_rest(desired, &observed);
        let mut wanted = match cached.meta.deleting {
            true => status::terminating(resource, &observed.now),
            false => self.operator.status(resource, desired, &observed),
        };
        if observed.workload.is_none() && is_in_conflict(outcome) {
            keep_pods(&mut wanted, &resource.status);
        }
        let wanted_text = serde_json::to_string(&wanted).unwrap_or_default();
        let stored_text = &*cached.status;
        let is_as_wanted = wanted_text == stored_text
            // Something between the API server and this process may have written it anew.
            || resource.status == wanted && is_same_json(&wanted_text, stored_text);
        if is_as_wanted {
            self.states.status_is_written(resource);
            return Ok(next_change);
        }
        if let Some(wait) = self.defers_status(resource, &wanted, observed, is_at_rest) {
            return Ok(next_change.into_iter().chain([wait]).min());
        }
        let sent = self
            .send_status(at, cached, resource, (&wanted, &wanted_text))
            .await?;
        Ok(sent.or(next_change))
    }

    /// How long the write of the status `wanted` waits: for the rollout to pause, or because another writer
    /// keeps changing the status. `None` if the write is due.
    fn defers_status(
        &self,
        resource: &Resource,
        wanted: &Status,
        observed: Observed,
        is_at_rest: bool,
    ) -> Option<Duration> {
        let wait = self.states.status_differs(resource, observed, is_at_rest);
        if wait.is_some() {
            return wait;
        }
        let content = correction(&resource.status, wanted)?;
        let (key, what) = (key_of(resource), (Repaired::Status, content));
        match self
            .states
            .repairs(&key, &resource.uid, what, Repairs::next)
        {
            Decision::Apply => None,
            Decision::Wait(_, left) => Some(left),
            Decision::Investigate(left) => {
                warn!("another writer keeps changing the status of this resource; stop it");
                Some(left)
            }
        }
    }

    /// Sends the status `wanted`, as JSON `text`. Returns when to reconcile again, unless it is written and
    /// the resource is as it was read.
    ///
    /// # Errors
    /// An error to retry. A deleted resource is not an error.
    async fn send_status(
        &self,
        at: Location<'_>,
        cached: &CachedResource,
        resource: &Resource,
        (wanted, text): (&Status, &str),
    ) -> Result<Option<Duration>, RequestError> {
        let key = &cached.meta.key;
        // The precondition: the status must not go to a new resource of the same name, must not
        // claim a spec that the cache does not show yet, and must not replace an unseen status. The
        // API server answers 409 if the resource has another version. A `test` would be answered 422,
        // without a text that names the cause (apiserver `endpoints/handlers/patch.go`).
        let version = cached.meta.resource_version.to_string();
        let read = json!({"op": "replace", "path": "/metadata/resourceVersion", "value": version});
        let add = format!(r#"{{"op":"add","path":"/status","value":{text}}}"#);
        let operations = format!("[{read},{add}]");
        let manager = self.kind.field_manager;
        let answer = self
            .caller
            .json_patch(at, Part::Status, manager, &operations)
            .await;
        match answer {
            Ok(answer) => {
                if let Some(content) = correction(&resource.status, wanted) {
                    let what = (Repaired::Status, content);
                    self.states
                        .repairs(key, &resource.uid, what, Repairs::applied);
                }
                let is_as_read = self.store_answer(cached, &answer);
                self.states.status_is_written(resource);
                self.record_transitions(resource, wanted);
                Ok((!is_as_read).then_some(Duration::ZERO))
            }
            Err(error) if error.is_not_found() => {
                // The watch reports the deletion.
                debug!(%error, "the resource is gone");
                Ok(Some(jittered_retry()))
            }
            Err(error) if error.is_conflict() => {
                debug!(%error, "the resource was changed");
                let known = self.resources.get(key);
                let is_newer = |known: Arc<CachedResource>| {
                    known.meta.resource_version > cached.meta.resource_version
                };
                // The cache may show a change that enqueues nothing, such as a label.
                if known.is_some_and(is_newer) {
                    return Ok(Some(Duration::ZERO));
                }
                Ok(Some(STALE_RETRY))
            }
            Err(error) => Err(error),
        }
    }

    /// Stores the answer to a status write in the cache, so that its event enqueues nothing. Returns
    /// false if the answer contains a change of the spec by others, whose event does not enqueue it
    /// either.
    fn store_answer(&self, cached: &CachedResource, answer: &Value) -> bool {
        let Ok(written) = CachedResource::decode(self.kind, answer) else {
            return true;
        };
        let is_as_read = written.is_spec_equal(cached);
        self.resources.put_written(written);
        is_as_read
    }

    fn observe(&self, resource: &Resource, desired: &Desired, outcome: &Outcome) -> Observed {
        let desired = desired.as_deref().unwrap_or_default();
        let makes_pods = desired.iter().find(|child| child.kind.has_pods);
        let wanted = makes_pods.map(|child| (child.kind, child.name.as_str()));
        let (namespace, uid) = (&resource.namespace, &resource.uid);
        let (workload, pods, others) = self.children.observed(namespace, uid, wanted);
        let now = (self.clock)();
        Observed {
            workload,
            others,
            pods,
            problem: outcome.problem.clone(),
            unconfirmed: outcome.unconfirmed.clone(),
            now: now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
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
            self.recorder.record(self.kind, resource, notice);
        }
    }
}

/// Whether another writer keeps changing a child.
fn is_in_conflict(outcome: &Outcome) -> bool {
    let problem = outcome.problem.as_ref();
    problem.is_some_and(|problem| problem.reason == Reason::FieldConflict)
}

/// Copies what the stored status says of pods. The workload is not in the cache, but exists: another
/// writer keeps removing its label or its owner reference.
fn keep_pods(wanted: &mut Status, stored: &Status) {
    wanted.nodes.clone_from(&stored.nodes);
    wanted.replicas = stored.replicas;
    wanted.ready_replicas = stored.ready_replicas;
    wanted.real_qps = stored.real_qps;
    for condition in &mut wanted.conditions {
        if condition.type_ == status::AVAILABLE
            && let Some(kept) = status::condition(stored, status::AVAILABLE)
        {
            condition.clone_from(kept);
        }
    }
}

/// Whether the reason is a step of a rollout without a problem.
fn is_rollout(reason: &str) -> bool {
    [Reason::RollingOut, Reason::MinimumReplicasUnavailable]
        .iter()
        .any(|step| step.as_str() == reason)
}

/// Whether both are the same JSON, whatever the order of members.
fn is_same_json(one: &str, other: &str) -> bool {
    let read = |text| serde_json::from_str::<Value>(text).ok();
    read(one).is_some_and(|one| Some(one) == read(other))
}

/// Hash of the status `wanted`, without its times and messages, if another writer may have changed the
/// `stored` one: not in the course of a rollout, so that nothing is kept of most resources. Replaced pods
/// change the status, which is then not a repeated write.
fn correction(stored: &Status, wanted: &Status) -> Option<u64> {
    let ready = |status| status::condition(status, status::READY);
    let is_step = |status| ready(status).is_some_and(|ready| is_rollout(&ready.reason));
    let is_ready = ready(wanted).is_some_and(|ready| ready.status == "True");
    let is_of_rollout = is_step(wanted) || is_ready && is_step(stored);
    let is_first = *stored == Status::default();
    // Each status of this operator has a generation.
    let is_of_other = stored.observed_generation.is_none();
    (!is_first && (is_of_other || !is_of_rollout)).then(|| content_of(wanted))
}

fn content_of(status: &Status) -> u64 {
    let mut hasher = DefaultHasher::new();
    (status.observed_generation, &status.nodes).hash(&mut hasher);
    (status.replicas, status.ready_replicas).hash(&mut hasher);
    for condition in &status.conditions {
        let Condition {
            type_,
            status,
            reason,
            ..
        } = condition;
        (type_, status, reason).hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests;
