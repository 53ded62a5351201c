//! The status, with one schema for every version of every kind, and conditions as in
//! `metav1.Condition`. Types and bounds only; `operators` computes the values. The fields have the order
//! of their names, as in the API server's JSON.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use quartet_versions::limits::{INT64_MAX, NAME, NAME_MAX};

/// Observed state of the instance.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Conditions of the instance, e.g. for `kubectl wait --for=condition=Ready`. Ready: the
    /// current generation is rolled out and available. Available: enough pods are ready.
    /// Progressing: a rollout is in progress. Degraded: an error needs attention. Stalled and
    /// Reconciling, only while true: an error needs attention; not ready yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = CONDITIONS_MAX), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Names of the pods that are neither terminating nor finished, sorted; at most the first 1000.
    /// Always present, even if empty.
    #[serde(default)]
    #[schemars(length(max = NODES_MAX), extend("x-kubernetes-list-type" = "atomic"))]
    #[schemars(inner(length(min = 1, max = NAME_MAX), regex(pattern = NAME)))]
    pub nodes: Vec<String>,
    /// The metadata.generation that this status was computed from. If it is less than
    /// metadata.generation, the status describes an older spec. Default: -1, before the operator has
    /// written a status.
    // By the rules of kstatus, which Flux and Helm use, an object without it is up to date.
    #[serde(default, deserialize_with = "written", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -1, max = INT64_MAX), extend("default" = -1))]
    pub observed_generation: Option<i64>,
    /// Number of ready pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = i32::MAX))]
    pub ready_replicas: Option<i64>,
    /// Queries per second that the ready pods can serve. Only in the schema of
    /// [`QpsStatus`].
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "realQPS")]
    #[schemars(skip)]
    pub real_qps: Option<i64>,
    /// Number of pods that exist, ready or not. Used by the scale subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = i32::MAX))]
    pub replicas: Option<i64>,
    /// Label selector of the pods, in the format of `kubectl get pods -l`. Used by the scale
    /// subresource and therefore by a HorizontalPodAutoscaler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = SELECTOR_MAX))]
    pub selector: Option<String>,
}

/// Observed state of the instance.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QpsStatus {
    /// The fields that every kind has.
    #[serde(flatten)]
    pub status: Status,
    /// Queries per second that the ready pods can serve: the queries per second of one pod times
    /// the number of ready pods.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "realQPS")]
    #[schemars(range(min = 0, max = INT64_MAX))]
    pub real_qps: Option<i64>,
}

/// One condition of the instance.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Time of the last change of the status of the condition, in RFC 3339 format with seconds.
    #[schemars(extend("format" = "date-time"))]
    pub last_transition_time: String,
    /// Explanation of the status of the condition, for people. May be empty.
    #[schemars(length(max = MESSAGE_MAX))]
    pub message: String,
    /// The metadata.generation that the condition was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = INT64_MAX))]
    pub observed_generation: Option<i64>,
    /// Reason for the status of the condition: one word in CamelCase, for programs.
    #[schemars(length(min = 1, max = 1024), regex(pattern = REASON))]
    pub reason: String,
    /// Status of the condition: True, False or Unknown.
    #[schemars(extend("enum" = ["True", "False", "Unknown"]))]
    pub status: String,
    /// Type of the condition in CamelCase: Ready, Available, Progressing, Degraded, Stalled or
    /// Reconciling.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 316), regex(pattern = CONDITION_TYPE))]
    pub type_: String,
}

/// Reads the generation of a status; that of the schema's default counts as absent.
fn written<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    let generation: Option<i64> = Option::deserialize(deserializer)?;
    Ok(generation.filter(|it| *it >= 0))
}

/// Largest number of conditions, with those of other controllers.
pub const CONDITIONS_MAX: u16 = 16;
/// Largest number of pod names in `status.nodes`.
pub const NODES_MAX: u16 = 1000;
/// Longest label selector.
pub const SELECTOR_MAX: u16 = 1024;
/// Longest message of a condition (metav1.Condition).
pub const MESSAGE_MAX: u16 = 32_768;

/// Types of conditions, with the pattern of `metav1.Condition`.
const CONDITION_TYPE: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";
/// Reasons of conditions, with the pattern of `metav1.Condition`.
const REASON: &str = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";
