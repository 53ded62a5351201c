//! Observed state of a Deployment or StatefulSet. Pure. Used by `child`, which reads it from an
//! object, and by the status.

use serde_json::Value;

use quartet_http::bounded::cut;
use quartet_http::generation_of;

/// The relevant fields of a Deployment or StatefulSet. A StatefulSet has no conditions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObservedWorkload {
    /// Its kind, for messages.
    pub kind: &'static str,
    /// `metadata.generation`.
    pub generation: i64,
    /// `status.observedGeneration`.
    pub observed_generation: i64,
    /// `spec.paused` of a Deployment: nothing is rolled out.
    pub paused: bool,
    /// `spec.replicas`.
    pub desired: i64,
    /// `status.replicas`.
    pub replicas: i64,
    /// `status.updatedReplicas`.
    pub updated: i64,
    /// `status.readyReplicas`.
    pub ready: i64,
    /// `status.availableReplicas`.
    pub available: i64,
    /// Whether the condition `Available` is true; `None` if there is none.
    pub is_available: Option<bool>,
    /// The message of the condition `Progressing`, if the progress deadline is exceeded.
    pub stalled: Option<Box<str>>,
    /// Whether the condition `Progressing` says that the latest rollout has completed once.
    pub has_rolled_out: bool,
    /// The message of the condition `ReplicaFailure`, if it is true.
    pub replica_failure: Option<Box<str>>,
    /// `spec.selector`, if an older operator set it and it must be retained; see [`super::kept`].
    pub preserved_selector: Option<Box<Value>>,
}

/// The Deployment controller's reason for a rollout without progress.
const PROGRESS_DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";

/// The Deployment controller's reason for a rollout that has completed, also if pods fail later.
const NEW_REPLICA_SET_AVAILABLE: &str = "NewReplicaSetAvailable";

/// Longest message of a condition, in bytes.
const MESSAGE_MAX: usize = 512;

impl ObservedWorkload {
    /// Reads a Deployment or StatefulSet as the API server sends it.
    pub(super) fn of(kind: &'static str, object: &Value) -> Self {
        let none = Value::Null;
        let [spec, status] = ["spec", "status"].map(|part| object.get(part).unwrap_or(&none));
        let count = |field: &str| {
            let count = status.get(field).and_then(Value::as_i64);
            count.unwrap_or_default()
        };
        let has = |condition: &Value, field: &str, value: &str| {
            condition.get(field).and_then(Value::as_str) == Some(value)
        };
        let is_true = |condition: &&Value| has(condition, "status", "True");
        let condition = |wanted: &str| {
            let mut conditions = status.get("conditions")?.as_array()?.iter();
            conditions.find(|condition| has(condition, "type", wanted))
        };
        let message = |condition: &Value| {
            let message = condition.get("message").and_then(Value::as_str);
            cut(message.unwrap_or_default(), MESSAGE_MAX).into()
        };
        let stalled = condition("Progressing").filter(|progressing| {
            !is_true(progressing) && has(progressing, "reason", PROGRESS_DEADLINE_EXCEEDED)
        });
        ObservedWorkload {
            kind,
            generation: generation_of(object),
            observed_generation: count("observedGeneration"),
            paused: spec.get("paused") == Some(&Value::Bool(true)),
            desired: spec.get("replicas").and_then(Value::as_i64).unwrap_or(1),
            replicas: count("replicas"),
            updated: count("updatedReplicas"),
            ready: count("readyReplicas"),
            available: count("availableReplicas"),
            is_available: condition("Available").as_ref().map(is_true),
            stalled: stalled.map(message),
            has_rolled_out: condition("Progressing")
                .is_some_and(|progressing| has(progressing, "reason", NEW_REPLICA_SET_AVAILABLE)),
            replica_failure: condition("ReplicaFailure").filter(is_true).map(message),
            preserved_selector: None,
        }
    }

    /// Reports whether the controller of the workload has observed the latest spec.
    pub fn is_current(&self) -> bool {
        self.observed_generation >= self.generation
    }

    /// Reports whether all desired pods have the latest template, and there are no other pods.
    pub fn is_updated(&self) -> bool {
        self.is_current() && self.updated == self.desired && self.replicas == self.desired
    }

    /// Reports whether enough pods are available for its strategy; all of them if its controller does not say so.
    pub fn is_available(&self) -> bool {
        self.is_available.unwrap_or(self.available == self.desired)
    }

    /// Reports whether no pod is of an earlier spec, and enough pods are available or have been since.
    pub fn has_ended_rollout(&self) -> bool {
        let has_some = self.available > 0 || self.desired == 0;
        self.is_updated() && (self.has_rolled_out || has_some && self.is_available())
    }

    /// Reports whether its rollout makes no progress, or its pods cannot be created.
    pub fn is_stuck(&self) -> bool {
        self.is_current() && (self.stalled.is_some() || self.replica_failure.is_some())
    }

    /// Reports whether the latest spec is rolled out and every pod is available.
    pub fn is_complete(&self) -> bool {
        self.is_updated() && self.available == self.desired
    }
}
