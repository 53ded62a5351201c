//! Observed state of a Deployment or StatefulSet. Pure. Used by `child`, which reads it from an
//! object, and by the status.

use serde_json::Value;

use crate::bounded::cut;
use crate::json::Json;

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
    /// Condition `Available`.
    pub available_condition: Option<ObservedCondition>,
    /// Condition `Progressing`.
    pub progressing_condition: Option<ObservedCondition>,
    /// Condition `ReplicaFailure`.
    pub replica_failure: Option<ObservedCondition>,
    /// `spec.selector`, if an older operator set it and it must be retained; see [`super::kept`].
    pub preserved_selector: Option<Box<Value>>,
}

/// A condition of a child.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObservedCondition {
    /// `status == "True"`.
    pub is_true: bool,
    /// CamelCase reason.
    pub reason: String,
    /// The first 512 bytes of the message.
    pub message: String,
}

impl ObservedWorkload {
    /// Reads a Deployment or StatefulSet as the API server sends it.
    pub(super) fn of(kind: &'static str, object: &Json<'_>) -> Self {
        let none = Json::Null;
        let [spec, status] = ["spec", "status"].map(|part| object.get(part).unwrap_or(&none));
        let text = |object: &Json<'_>, field: &str| {
            let text = object.get(field).and_then(Json::as_str);
            text.unwrap_or_default().to_owned()
        };
        let count = |field: &str| status.get(field).and_then(Json::as_i64).unwrap_or_default();
        let condition = |wanted: &str, healthy: bool| {
            let conditions = status.get("conditions")?.as_array()?;
            let found = conditions
                .iter()
                .find(|condition| condition.get("type").and_then(Json::as_str) == Some(wanted))?;
            let is_true = found.get("status").and_then(Json::as_str) == Some("True");
            // Saves memory: the message of a healthy condition is not used.
            let message = match is_true == healthy {
                true => String::new(),
                false => text(found, "message"),
            };
            Some(ObservedCondition {
                is_true,
                reason: text(found, "reason"),
                message: cut(&message, 512).to_owned(),
            })
        };
        let generation = object.pointer("/metadata/generation");
        ObservedWorkload {
            kind,
            generation: generation.and_then(Json::as_i64).unwrap_or_default(),
            observed_generation: count("observedGeneration"),
            paused: spec.get("paused") == Some(&Json::Bool(true)),
            desired: spec.get("replicas").and_then(Json::as_i64).unwrap_or(1),
            replicas: count("replicas"),
            updated: count("updatedReplicas"),
            ready: count("readyReplicas"),
            available: count("availableReplicas"),
            available_condition: condition("Available", true),
            progressing_condition: condition("Progressing", true),
            replica_failure: condition("ReplicaFailure", false),
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

    /// Reports whether the latest spec is rolled out and every pod is available.
    pub fn is_complete(&self) -> bool {
        self.is_updated() && self.available == self.desired
    }
}
