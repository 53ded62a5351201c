//! The status, one schema in every version of every kind; conditions as `metav1.Condition`.
//! Types and bounds only: what a status says is computed in `operators`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema::{NAME, NAME_MAX};
use super::shape::INT64_MAX;

/// What was last observed of the instance.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The metadata.generation that this status was computed from. Until it equals
    /// metadata.generation, the status tells of an older spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = INT64_MAX))]
    pub observed_generation: Option<i64>,
    /// Number of pods that exist, ready or not. Read by the scale subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = i32::MAX))]
    pub replicas: Option<i64>,
    /// Number of pods that are ready to serve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = i32::MAX))]
    pub ready_replicas: Option<i64>,
    /// Label selector of the pods, in the form of `kubectl get pods -l`. Read by the scale
    /// subresource, and so by a HorizontalPodAutoscaler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = SELECTOR_MAX))]
    pub selector: Option<String>,
    /// Names of the live pods, sorted; the first 1000 of them. Present even when empty.
    #[serde(default)]
    #[schemars(length(max = NODES_MAX), extend("x-kubernetes-list-type" = "atomic"))]
    #[schemars(inner(length(min = 1, max = NAME_MAX), regex(pattern = NAME)))]
    pub nodes: Vec<String>,
    /// Queries per second that the cluster can serve now. Only the schema of
    /// [`ElasticWeb`](super::elasticweb::ElasticWebStatus) has it.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "realQPS")]
    #[schemars(skip)]
    pub real_qps: Option<i64>,
    /// The state of the instance in a form that `kubectl wait --for=condition=Ready` reads.
    /// Ready: this generation is rolled out and available. Available: enough pods are ready.
    /// Progressing: a rollout is under way. Degraded: something needs attention.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// One aspect of the state of the instance.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Type of the condition in CamelCase: Ready, Available, Progressing or Degraded.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 316), regex(pattern = CONDITION_TYPE))]
    pub type_: String,
    /// True, False, or Unknown.
    #[schemars(extend("enum" = ["True", "False", "Unknown"]))]
    pub status: String,
    /// The metadata.generation that the condition was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = INT64_MAX))]
    pub observed_generation: Option<i64>,
    /// When the condition last changed from one status to another, RFC 3339 with seconds.
    #[schemars(extend("format" = "date-time"))]
    pub last_transition_time: String,
    /// Why the condition has its status: one word in CamelCase, for programs.
    #[schemars(length(min = 1, max = 1024), regex(pattern = REASON))]
    pub reason: String,
    /// Why the condition has its status, for people. May be empty.
    #[schemars(length(max = MESSAGE_MAX))]
    pub message: String,
}

/// Most pod names in `status.nodes`.
pub const NODES_MAX: u16 = 1000;
/// Longest label selector.
pub const SELECTOR_MAX: u16 = 1024;
/// Longest message of a condition (metav1.Condition).
pub const MESSAGE_MAX: u16 = 32_768;

/// Types of conditions, as `metav1.Condition` has them.
const CONDITION_TYPE: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";
/// Reasons of conditions, as `metav1.Condition` has them.
const REASON: &str = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";
