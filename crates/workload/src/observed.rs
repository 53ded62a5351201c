//! Observed state of the children of a resource, from which the status is computed.

use super::child::ChildKind;
use super::observed_workload::ObservedWorkload;
use quartet_versions::validation::FieldError;

/// The input of a status.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    /// The child that creates the pods, if it exists and is owned.
    pub workload: Option<ObservedWorkload>,
    /// The other owned children that exist.
    pub others: Vec<ObservedChild>,
    /// Pods that are neither terminating nor finished, sorted by name.
    pub pods: Vec<ObservedPod>,
    /// Why the children do not match the desired state. Makes the resource degraded.
    pub problem: Option<Problem>,
    /// Why the API server has not confirmed that the children match the desired state. The cause
    /// may be transient: the resource is not ready, but not degraded.
    pub unconfirmed: Option<Problem>,
    /// The children that admission changes when they are applied, each with the fields. No problem.
    pub rewritten: Vec<String>,
    /// The current time, RFC 3339 with seconds, for conditions that change.
    pub now: String,
}

/// A child that creates no pods, or whose pods the status does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedChild {
    /// Its type.
    pub kind: ChildKind,
    /// Its name.
    pub name: String,
    /// Why it is not ready; `None` if it is.
    pub not_ready: Option<Box<str>>,
}

/// A pod that is neither terminating nor finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedPod {
    /// Name.
    pub name: String,
    /// Condition `Ready` is true.
    pub ready: bool,
    /// Why it does not start; `None` for a pod that is ready or still starting.
    pub failure: Option<Box<PodFailure>>,
}

/// Why a pod does not start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodFailure {
    /// One of [`Reason::ImagePullBackOff`], [`Reason::CrashLoopBackOff`],
    /// [`Reason::OOMKilled`], [`Reason::Unschedulable`] and [`Reason::ContainerNotStarted`].
    pub reason: Reason,
    /// The container, and the message of the kubelet or the scheduler; at most 640 bytes.
    pub message: Box<str>,
    /// Since when the pod has not been ready or not scheduled: RFC 3339, from its conditions.
    pub since: Box<str>,
}

/// Why the children do not match the desired state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The reason of the condition.
    pub reason: Reason,
    /// What happened and what to do; the status contains at most 1 KiB of it.
    pub message: String,
}

impl Problem {
    /// A problem with this reason and message.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { reason, message }
    }
}

impl From<FieldError> for Problem {
    fn from(error: FieldError) -> Self {
        Self::new(Reason::InvalidSpec, error.to_string())
    }
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Reasons of conditions, in CamelCase as the API conventions require. Defined only here.
        #[non_exhaustive]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Reason {
            $($(#[$doc])* $name,)*
        }

        impl Reason {
            /// The reason as written in a condition.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Reason::$name => stringify!($name),)*
                }
            }
        }
    };
}

reasons! {
    /// The rollout of this generation is complete.
    RolloutComplete,
    /// The rollout is in progress.
    RollingOut,
    /// The spec violates a rule.
    InvalidSpec,
    /// A child of that name has another owner.
    NameConflict,
    /// The node port is in use or outside the cluster's range.
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
    /// The API server rejects a child for another reason.
    ApplyRefused,
    /// A child, or the finalizers of the resource, cannot be written at the moment; the write is retried.
    ApplyFailed,
    /// A child is being deleted.
    ChildTerminating,
    /// The resource is being deleted.
    Terminating,
    /// A changed default of the operator waits in the rollout queue.
    RolloutQueued,
    /// The Deployment is paused (`spec.paused`).
    DeploymentPaused,
    /// Another client keeps changing fields of a child that we own.
    FieldConflict,
    /// The image of a container cannot be pulled.
    ImagePullBackOff,
    /// A container exits repeatedly.
    CrashLoopBackOff,
    /// A container was killed because it exceeded its memory limit.
    OOMKilled,
    /// No node accepts a pod.
    Unschedulable,
    /// A container does not start for another reason.
    ContainerNotStarted,
    /// Fewer pods than desired are available.
    MinimumReplicasUnavailable,
    /// Enough pods are available.
    MinimumReplicasAvailable,
    /// There is no problem.
    AsExpected,
}

impl std::fmt::Display for Reason {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl Observed {
    /// Number of ready pods.
    pub(crate) fn ready_pods(&self) -> i64 {
        let ready = self.pods.iter().filter(|pod| pod.ready).count();
        i64::try_from(ready).unwrap_or(i64::MAX)
    }
}
