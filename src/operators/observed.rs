//! What was observed of a resource's children: the input of the status functions.

use serde_json::Value;

use super::child::ChildKind;
use crate::bounded::cut;

/// Everything a status is computed from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    /// The child that makes the pods, if it is there and ours.
    pub workload: Option<ObservedWorkload>,
    /// The other children that are there and ours.
    pub others: Vec<ObservedChild>,
    /// Live pods (not ending, not failed), sorted by name.
    pub pods: Vec<ObservedPod>,
    /// What keeps the children from being as desired. The resource is degraded.
    pub problem: Option<Problem>,
    /// Why the API server has not confirmed that the children are as desired. It may pass by
    /// itself: the resource is not ready, and not degraded.
    pub unconfirmed: Option<Problem>,
    /// Now, RFC 3339 with seconds, for conditions that change.
    pub now: String,
}

/// A child that makes no pods, or whose pods are not those that the status counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedChild {
    /// Its type.
    pub kind: ChildKind,
    /// Its name.
    pub name: String,
    /// Why it is not ready, if it is not.
    pub not_ready: Option<Box<str>>,
}

/// The few fields of a Deployment or StatefulSet that matter. A StatefulSet has no conditions.
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
    /// `spec.selector`, if an older operator gave it and it has to be kept; see
    /// [`super::kept`].
    pub preserved_selector: Option<Box<Value>>,
}

/// A condition of a child.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObservedCondition {
    /// `status == "True"`.
    pub is_true: bool,
    /// CamelCase reason.
    pub reason: String,
    /// Message, at most 512 bytes of it.
    pub message: String,
}

/// A live pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedPod {
    /// Name.
    pub name: String,
    /// Condition `Ready` is true.
    pub ready: bool,
    /// Why it does not start; `None` for a pod that is ready, or on its way.
    pub failure: Option<Box<PodFailure>>,
}

/// Why a pod does not start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodFailure {
    /// One of [`Reason::ImagePullBackOff`], [`Reason::CrashLoopBackOff`],
    /// [`Reason::OOMKilled`], [`Reason::Unschedulable`] and [`Reason::ContainerNotStarted`].
    pub reason: Reason,
    /// The container, and what the kubelet or the scheduler says of it; at most 640 bytes.
    pub message: Box<str>,
    /// Since when the pod is not ready, or not scheduled: RFC 3339, from its conditions.
    pub since: Box<str>,
}

/// Why the children are not as desired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The reason of the condition.
    pub reason: Reason,
    /// What happened, and what to do about it; at most 1 KiB goes into the status.
    pub message: String,
}

/// Reasons of conditions, CamelCase as the API conventions ask. The only place they are
/// written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The rollout of this generation is complete.
    RolloutComplete,
    /// The rollout is under way.
    RollingOut,
    /// The spec breaks a rule.
    InvalidSpec,
    /// A child of that name belongs to somebody else.
    NameConflict,
    /// The NodePort is taken or outside the cluster's range.
    NodePortUnavailable,
    /// A quota forbids a child.
    QuotaExceeded,
    /// More replicas than `--max-replicas`.
    ReplicasOverLimit,
    /// The resource is paused.
    Paused,
    /// The Deployment made no progress within its deadline.
    ProgressDeadlineExceeded,
    /// Pods cannot be created.
    ReplicaFailure,
    /// The API server refuses a child for another reason.
    ApplyRefused,
    /// A child cannot be written at the moment; it is tried again.
    ApplyFailed,
    /// A child is being deleted.
    ChildTerminating,
    /// A changed default of the operator waits for its turn.
    RolloutQueued,
    /// The Deployment is paused (`spec.paused`).
    DeploymentPaused,
    /// Somebody else keeps changing fields of a child that the resource decides.
    FieldConflict,
    /// The image of a container cannot be pulled.
    ImagePullBackOff,
    /// A container keeps exiting.
    CrashLoopBackOff,
    /// A container was killed since it used more memory than its limit.
    OOMKilled,
    /// No node takes a pod.
    Unschedulable,
    /// A container does not start for another reason.
    ContainerNotStarted,
    /// Fewer pods than wanted are available.
    MinimumReplicasUnavailable,
    /// Enough pods are available.
    MinimumReplicasAvailable,
    /// Nothing is wrong.
    AsExpected,
}

impl Reason {
    /// The reason as it stands in a condition.
    pub const fn as_str(self) -> &'static str {
        match self {
            Reason::RolloutComplete => "RolloutComplete",
            Reason::RollingOut => "RollingOut",
            Reason::InvalidSpec => "InvalidSpec",
            Reason::NameConflict => "NameConflict",
            Reason::NodePortUnavailable => "NodePortUnavailable",
            Reason::QuotaExceeded => "QuotaExceeded",
            Reason::ReplicasOverLimit => "ReplicasOverLimit",
            Reason::Paused => "Paused",
            Reason::ProgressDeadlineExceeded => "ProgressDeadlineExceeded",
            Reason::ReplicaFailure => "ReplicaFailure",
            Reason::ApplyRefused => "ApplyRefused",
            Reason::ApplyFailed => "ApplyFailed",
            Reason::ChildTerminating => "ChildTerminating",
            Reason::RolloutQueued => "RolloutQueued",
            Reason::DeploymentPaused => "DeploymentPaused",
            Reason::FieldConflict => "FieldConflict",
            Reason::ImagePullBackOff => "ImagePullBackOff",
            Reason::CrashLoopBackOff => "CrashLoopBackOff",
            Reason::OOMKilled => "OOMKilled",
            Reason::Unschedulable => "Unschedulable",
            Reason::ContainerNotStarted => "ContainerNotStarted",
            Reason::MinimumReplicasUnavailable => "MinimumReplicasUnavailable",
            Reason::MinimumReplicasAvailable => "MinimumReplicasAvailable",
            Reason::AsExpected => "AsExpected",
        }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl ObservedWorkload {
    /// That of `object`, a Deployment or StatefulSet as the API server sends it.
    pub(super) fn of(kind: ChildKind, object: &Value) -> Self {
        let none = Value::Null;
        let [spec, status] = ["spec", "status"].map(|part| object.get(part).unwrap_or(&none));
        let text = |object: &Value, field: &str| {
            let text = object.get(field).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let count = |field: &str| {
            status
                .get(field)
                .and_then(Value::as_i64)
                .unwrap_or_default()
        };
        let condition = |wanted: &str, healthy: bool| {
            let conditions = status.get("conditions")?.as_array()?;
            let found = conditions
                .iter()
                .find(|condition| condition.get("type").is_some_and(|it| it == wanted))?;
            let is_true = found.get("status").is_some_and(|it| it == "True");
            // The message of a healthy condition is told nowhere: not worth its memory.
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
            kind: kind.kind,
            generation: generation.and_then(Value::as_i64).unwrap_or_default(),
            observed_generation: count("observedGeneration"),
            paused: spec.get("paused") == Some(&Value::Bool(true)),
            desired: spec.get("replicas").and_then(Value::as_i64).unwrap_or(1),
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

    /// Its controller has seen the latest spec: its counts and conditions tell of it.
    pub fn is_current(&self) -> bool {
        self.observed_generation >= self.generation
    }

    /// Every pod wanted is made from the latest template, and there are no others.
    pub fn is_updated(&self) -> bool {
        self.is_current() && self.updated == self.desired && self.replicas == self.desired
    }

    /// The latest spec is rolled out, and every pod is available.
    pub fn is_complete(&self) -> bool {
        self.is_updated() && self.available == self.desired
    }
}

impl Observed {
    /// Pods that are ready now.
    pub fn ready_pods(&self) -> i64 {
        let ready = self.pods.iter().filter(|pod| pod.ready).count();
        i64::try_from(ready).unwrap_or(i64::MAX)
    }
}
