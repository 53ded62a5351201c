//! The status, one schema in every version of every kind; conditions as `metav1.Condition`.
//! Types and bounds only: what a status says is computed in `operators`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shape::{COUNT, Characters, Field, INT64_MAX, Merge, NAME, NAME_MAX, Shape};

/// What was last observed of the instance.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The metadata.generation that this status was computed from. Until it equals
    /// metadata.generation, the status tells of an older spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Number of pods that exist, ready or not. Read by the scale subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i64>,
    /// Number of pods that are ready to serve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i64>,
    /// Label selector of the pods, in the form of `kubectl get pods -l`. Read by the scale
    /// subresource, and so by a HorizontalPodAutoscaler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// Names of the live pods, sorted; the first 1000 of them. Present even when empty.
    #[serde(default)]
    pub nodes: Vec<String>,
    /// Queries per second that the cluster can serve now: those of one pod times the number
    /// of ready pods.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "realQPS")]
    pub real_qps: Option<i64>,
    /// The state of the instance in a form that `kubectl wait --for=condition=Ready` reads.
    /// Ready: this generation is rolled out and available. Available: enough pods are ready.
    /// Progressing: a rollout is under way. Degraded: something needs attention.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// One aspect of the state of the instance.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Type of the condition in CamelCase: Ready, Available, Progressing or Degraded.
    #[serde(rename = "type")]
    pub type_: String,
    /// True, False, or Unknown.
    pub status: String,
    /// The metadata.generation that the condition was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When the condition last changed from one status to another, RFC 3339 with seconds.
    pub last_transition_time: String,
    /// Why the condition has its status: one word in CamelCase, for programs.
    pub reason: String,
    /// Why the condition has its status, for people. May be empty.
    pub message: String,
}

/// Most pod names in `status.nodes`.
pub const NODES_MAX: u16 = 1000;
/// Longest label selector.
pub const SELECTOR_MAX: u16 = 1024;
/// Longest message of a condition (metav1.Condition).
pub const MESSAGE_MAX: u16 = 32_768;

const GENERATION: Shape = Shape::Integer {
    min: 0,
    max: INT64_MAX,
};

/// The fields of [`Status`] that every kind has.
pub(super) const FIELDS: &[Field] = &[
    Field::optional("observedGeneration", GENERATION),
    Field::optional("replicas", COUNT),
    Field::optional("readyReplicas", COUNT),
    Field::optional(
        "selector",
        Shape::Text {
            min: 0,
            max: SELECTOR_MAX,
            characters: Characters::Any,
        },
    ),
    Field::optional(
        "nodes",
        Shape::List {
            items: &Shape::Text {
                min: 1,
                max: NAME_MAX,
                characters: NAME,
            },
            max: NODES_MAX,
            merge: Merge::Atomic,
        },
    ),
    Field::optional(
        "conditions",
        Shape::List {
            items: &Shape::object(&[CONDITION]),
            max: 16,
            merge: Merge::Map(&["type"]),
        },
    ),
];

/// The field of [`Status`] that only ElasticWeb has.
pub(super) const REAL_QPS: &[Field] = &[Field::optional(
    "realQPS",
    Shape::Integer {
        min: 0,
        max: INT64_MAX,
    },
)];

/// `metav1.Condition`, with its bounds.
const CONDITION: &[Field] = &[
    Field::required(
        "type",
        Shape::Text {
            min: 1,
            max: 316,
            characters: Characters::Matching(
                r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
            ),
        },
    ),
    Field::required("status", Shape::Choice(&["True", "False", "Unknown"])),
    Field::optional("observedGeneration", GENERATION),
    Field::required("lastTransitionTime", Shape::Time),
    Field::required(
        "reason",
        Shape::Text {
            min: 1,
            max: 1024,
            characters: Characters::Matching(r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"),
        },
    ),
    Field::required(
        "message",
        Shape::Text {
            min: 0,
            max: MESSAGE_MAX,
            characters: Characters::Any,
        },
    ),
];
