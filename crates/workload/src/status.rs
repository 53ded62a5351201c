//! The status of a resource. Computed from the observed state in each reconcile; only the times
//! of conditions depend on the previous status. Pure; the clock is [`Observed::now`].
//!
//! | condition | `True` when | polarity |
//! |---|---|---|
//! | `Ready` | the API server has confirmed this generation's children, and they are rolled out and available | good |
//! | `Available` | enough pods are available, of any generation | good |
//! | `Progressing` | the children are changing to match the spec | neither |
//! | `Degraded` | a problem prevents that, and waiting does not solve it | bad |
//! | `Stalled` | the same, for kstatus; absent otherwise | bad |
//! | `Reconciling` | `Ready` is false and it is not `Stalled`, for kstatus; absent otherwise | neither |
//!
//! kstatus is the library by which Flux and Helm decide whether an object is done (`sigs.k8s.io/cli-utils`).
//!
//! A problem that may be transient (a failed write, a child that is being deleted, a pod that
//! does not start) sets `Ready` to false at once, and `Degraded` to true if it persists.
//!
//! While a resource is paused, `Ready` is `Unknown`: the pods may match the spec, but nothing
//! compares them, so neither `kubectl wait` nor an alert should rely on it. The other conditions
//! still reflect the observed state.

mod pods;
mod trouble;

pub use self::pods::next_change;

use super::child::Child;
use super::observed::{Observed, ObservedChild, Problem, Reason};
use super::observed_workload::ObservedWorkload;
use super::operator::{Desired, Resource};
use super::workload::selector_text;
use crate::api::status::{CONDITIONS_MAX, NODES_MAX};
use crate::api::{Condition, Status};
use quartet_http::bounded::beginning_of;
use quartet_versions::limits::INT64_MAX;
use quartet_versions::replicas::{Pods, at};
use quartet_versions::{Brand, Kind};
use serde_json::Value;

/// Condition type: this generation is rolled out and available. Summarizes the others.
pub const READY: &str = "Ready";
/// Condition type: enough pods are available.
pub const AVAILABLE: &str = "Available";
/// Condition type: a rollout is in progress.
pub const PROGRESSING: &str = "Progressing";
/// Condition type: there is a problem that waiting does not solve.
pub const DEGRADED: &str = "Degraded";
/// The condition types that every status has.
pub const TYPES: [&str; 4] = [READY, AVAILABLE, PROGRESSING, DEGRADED];
/// Condition type, present only while true: as [`DEGRADED`], in the words of kstatus.
pub const STALLED: &str = "Stalled";
/// Condition type, present only while true: not ready yet, and not [`STALLED`], in the words of kstatus.
pub const RECONCILING: &str = "Reconciling";

/// Longest message of a condition, in bytes.
pub const MESSAGE_MAX: usize = 1024;

const PAUSED: &str = "paused by annotation: nothing is applied";
const NO_PROBLEM: &str = "nothing is wrong";
/// Message of `Ready` while the children are not confirmed and no problem is known.
pub const CHILDREN_MISSING: &str = "waiting for the children to match the spec";
const ROLLED_OUT: &str = "this generation is rolled out and available";
const PODS_UNAVAILABLE: &str = "all pods are up to date, but not all are available";
const ENOUGH_PODS: &str = "enough pods are available";
const TERMINATING: &str = "being deleted: its children are not observed any more";
const NO_WORKLOAD: &str = "the workload that creates the pods does not exist";

/// Computes the status of `resource` of `kind`, whose desired children are `desired`.
///
/// `observed` must be at least as new as the last apply: its workload is that of the spec.
pub(super) fn of(
    kind: &Kind,
    resource: &Resource,
    desired: &Desired,
    observed: &Observed,
) -> Status {
    let workload = observed.workload.as_ref();
    let kept = workload.and_then(|workload| workload.preserved_selector.as_deref());
    let has_pods = !matches!(kind.hub.pods, Pods::Absent);
    let mut nodes: Vec<String> = observed.pods.iter().map(|pod| pod.name.clone()).collect();
    nodes.sort_unstable();
    nodes.truncate(NODES_MAX.into());
    Status {
        observed_generation: Some(resource.generation),
        replicas: has_pods.then(|| workload.map_or(0, |workload| workload.replicas)),
        ready_replicas: has_pods.then(|| workload.map_or(0, |workload| workload.ready)),
        selector: has_pods.then(|| selector_text(kind, resource, kept)),
        nodes,
        conditions: conditions(kind.brand, resource, desired, observed),
        // Counts ready pods, not desired ones: the current capacity of the cluster. Limited to
        // the bounds of the schema; otherwise the status of an invalid spec would be rejected.
        real_qps: per_pod_qps(kind, &resource.spec).map(|qps| {
            let all = qps.max(0).saturating_mul(observed.ready_pods());
            all.min(INT64_MAX)
        }),
    }
}

/// Queries per second that one pod serves, of a kind that is sized by them. Read from the JSON, since the status
/// has it even if the spec is invalid.
fn per_pod_qps(kind: &Kind, spec: &Value) -> Option<i64> {
    let Pods::Derived { per_pod, .. } = kind.hub.pods else {
        return None;
    };
    Some(at(spec, per_pod).and_then(Value::as_i64).unwrap_or(0))
}

/// The status of `resource`, which is being deleted. It is written once, whatever becomes of the children, so
/// it has no numbers of them. `Progressing` and `Degraded` stay as they are.
pub fn terminating(resource: &Resource, now: &str) -> Status {
    let changed = [(READY, "False"), (AVAILABLE, "Unknown")];
    let is_other = |it: &&Condition| changed.iter().all(|(type_, _)| it.type_ != *type_);
    let others = resource.status.conditions.iter().filter(is_other);
    let changed = changed.map(|(type_, status)| {
        let finding = (status, Problem::new(Reason::Terminating, TERMINATING));
        changed_condition(resource, type_, finding, now)
    });
    Status {
        observed_generation: Some(resource.generation),
        selector: resource.status.selector.clone(),
        conditions: changed.into_iter().chain(others.cloned()).collect(),
        ..Status::default()
    }
}

/// The condition of `status` with the type `type_`.
pub fn condition<'a>(status: &'a Status, type_: &str) -> Option<&'a Condition> {
    status.conditions.iter().find(|it| it.type_ == type_)
}

/// Whether the children are at rest: their controllers have observed the latest spec, all
/// counts agree, and the known pods are those that are counted. If not, more events follow, and a
/// status written now would soon be replaced.
pub fn is_at_rest(desired: &Desired, observed: &Observed) -> bool {
    let desired = desired.as_deref().unwrap_or_default();
    let others = || observed.others.iter().all(|it| it.not_ready.is_none());
    let Some(workload) = &observed.workload else {
        let is_without_pods = desired.iter().all(|child| !child.kind.has_pods);
        return observed.problem.is_some()
            || !desired.is_empty()
                && is_without_pods
                && matches_desired(desired, observed)
                && others();
    };
    workload.is_complete()
        && workload.ready == workload.desired
        && i64::try_from(observed.pods.len()) == Ok(workload.replicas)
        && observed.ready_pods() == workload.ready
        && others()
}

/// Tells that the resource is paused by this value of its annotation, and how to resume it if the value is
/// not one of Go's `strconv.ParseBool`.
fn pause(annotation: &str, value: &str) -> Problem {
    let is_true = ["1", "t", "T", "true", "True", "TRUE"].contains(&value.trim());
    let message = if is_true {
        PAUSED.to_owned()
    } else {
        let value: String = value.chars().take(63).collect();
        format!(
            "{PAUSED}; its value {value:?} is neither true nor false and counts as true: remove the annotation {annotation} to resume"
        )
    };
    Problem::new(Reason::Paused, message)
}

/// Status of a condition, and its reason and message.
type Finding = (&'static str, Problem);

fn is_true(reason: Reason, message: impl Into<String>) -> Finding {
    ("True", Problem::new(reason, message))
}

fn is_false(reason: Reason, message: impl Into<String>) -> Finding {
    ("False", Problem::new(reason, message))
}

fn conditions(
    brand: &Brand,
    resource: &Resource,
    desired: &Desired,
    observed: &Observed,
) -> Vec<Condition> {
    let workload = observed.workload.as_ref();
    let refusal = desired.as_ref().err().cloned();
    let children = desired.as_deref().unwrap_or_default();
    let failing_pods = pods::failing(observed);
    let paused = resource.paused.as_deref();
    let inputs = Inputs {
        workload,
        makes_pods: desired.is_err() || children.iter().any(|child| child.kind.has_pods),
        matches_desired: desired.is_ok() && matches_desired(children, observed),
        paused: paused.map(|value| pause(brand.paused, value)),
        rewritten: &observed.rewritten,
        trouble: trouble::first(refusal, observed, failing_pods.as_ref()),
        pending: observed
            .unconfirmed
            .clone()
            .or_else(|| failing_pods.map(|pods| pods.problem))
            .or_else(|| not_ready(observed)),
    };
    let (ready, degraded) = (inputs.ready(), inputs.degraded());
    let for_kstatus = match (ready.0, degraded.0) {
        (_, "True") => Some((STALLED, degraded.clone())),
        ("False", _) => Some((RECONCILING, ("True", ready.1.clone()))),
        _ => None,
    };
    let ours = [
        (READY, ready),
        (AVAILABLE, inputs.available()),
        (PROGRESSING, inputs.progressing()),
        (DEGRADED, degraded),
    ];
    let ours = ours.into_iter().chain(for_kstatus);
    let ours =
        ours.map(|(type_, finding)| changed_condition(resource, type_, finding, &observed.now));
    let is_ours = |type_: &str| TYPES.contains(&type_) || [STALLED, RECONCILING].contains(&type_);
    // Those of other controllers stay.
    let stored = resource.status.conditions.iter();
    let theirs = stored.filter(|it| !is_ours(&it.type_)).cloned();
    let all = ours.chain(theirs);
    all.take(CONDITIONS_MAX.into()).collect()
}

/// The condition of `resource` with the type `type_` and a new finding.
fn changed_condition(resource: &Resource, type_: &str, finding: Finding, now: &str) -> Condition {
    let (status, Problem { reason, message }) = finding;
    // API conventions: the time changes only with the status.
    let unchanged = condition(&resource.status, type_)
        .filter(|before| before.status == status && !before.last_transition_time.is_empty());
    let time = unchanged.map_or(now, |before| &before.last_transition_time);
    Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        observed_generation: Some(resource.generation),
        last_transition_time: time.to_owned(),
        reason: reason.as_str().to_owned(),
        message: beginning_of(&message, MESSAGE_MAX),
    }
}

/// The input of the four conditions.
struct Inputs<'a> {
    workload: Option<&'a ObservedWorkload>,
    /// A desired child creates pods, or the spec cannot be read.
    makes_pods: bool,
    /// The desired children exist; they may not be rolled out yet.
    matches_desired: bool,
    /// Why nothing is applied on request.
    paused: Option<Problem>,
    /// The children that admission changes, with the fields.
    rewritten: &'a [String],
    /// The problem that makes the resource degraded.
    trouble: Option<Problem>,
    /// A problem, possibly transient, that only makes it not ready.
    pending: Option<Problem>,
}

impl Inputs<'_> {
    fn ready(&self) -> Finding {
        if let Some(paused) = &self.paused {
            return ("Unknown", paused.clone());
        }
        if let Some(problem) = self.trouble.as_ref().or(self.pending.as_ref()) {
            return ("False", problem.clone());
        }
        match self.workload.filter(|_| self.matches_desired) {
            None if self.is_complete_without_pods() => is_true(Reason::RolloutComplete, ROLLED_OUT),
            None => is_false(Reason::RollingOut, CHILDREN_MISSING),
            Some(it) if it.is_complete() => {
                let changes = self.rewritten.iter();
                let changes: String = changes
                    .map(|it| format!("; admission changes {it}"))
                    .collect();
                is_true(Reason::RolloutComplete, ROLLED_OUT.to_owned() + &changes)
            }
            Some(it) if it.is_updated() => {
                is_false(Reason::MinimumReplicasUnavailable, PODS_UNAVAILABLE)
            }
            Some(it) => is_false(Reason::RollingOut, rolling_out(it)),
        }
    }

    fn available(&self) -> Finding {
        let Some(workload) = self.workload else {
            if self.is_complete_without_pods() {
                return is_true(Reason::RolloutComplete, ROLLED_OUT);
            }
            // The workload of that name may exist and be another's.
            let missing = || Problem::new(Reason::RollingOut, NO_WORKLOAD);
            return ("False", self.blocker().unwrap_or_else(missing));
        };
        // The Deployment's own condition allows for maxUnavailable. It is absent only until the
        // Deployment controller has observed the object.
        if workload.is_available.unwrap_or(workload.is_complete()) {
            return is_true(Reason::MinimumReplicasAvailable, ENOUGH_PODS);
        }
        let message = format!("fewer pods are available than the {} needs", workload.kind);
        is_false(Reason::MinimumReplicasUnavailable, message)
    }

    fn progressing(&self) -> Finding {
        let trouble = self.trouble.clone();
        let halted = trouble.filter(|problem| halts_rollout(problem.reason));
        if let Some(problem) = halted.or_else(|| self.workload.and_then(trouble::stalled)) {
            return ("False", problem);
        }
        if let Some(workload) = self.workload.filter(|workload| !workload.is_complete()) {
            // True even if a Service or a newer spec is rejected: these pods are still rolled
            // out.
            return is_true(Reason::RollingOut, rolling_out(workload));
        }
        if let Some(problem) = self.blocker() {
            return ("False", problem);
        }
        match &self.pending {
            Some(problem) => ("True", problem.clone()),
            None if self.matches_desired => is_false(Reason::RolloutComplete, ROLLED_OUT),
            None => is_true(Reason::RollingOut, CHILDREN_MISSING),
        }
    }

    fn degraded(&self) -> Finding {
        match &self.trouble {
            Some(problem) => ("True", problem.clone()),
            None => is_false(Reason::AsExpected, NO_PROBLEM),
        }
    }

    /// Why nothing more is applied at present.
    fn blocker(&self) -> Option<Problem> {
        self.paused.clone().or_else(|| self.trouble.clone())
    }

    /// Reports whether the desired children exist, and none creates pods.
    fn is_complete_without_pods(&self) -> bool {
        self.matches_desired && !self.makes_pods
    }
}

/// Reports whether a rollout with this problem makes no progress at all.
fn halts_rollout(reason: Reason) -> bool {
    use Reason::{DeploymentPaused, ProgressDeadlineExceeded};
    matches!(reason, DeploymentPaused | ProgressDeadlineExceeded) || pods::REASONS.contains(&reason)
}

/// Reports whether the desired children exist. Compares the number of pods, since the workload of
/// a paused resource may be older than the spec.
fn matches_desired(desired: &[Child], observed: &Observed) -> bool {
    let mut workload = observed.workload.as_ref();
    let exists = |child: &Child| match workload.take_if(|_| child.kind.has_pods) {
        Some(found) => {
            let replicas = child.replicas().unwrap_or(found.desired);
            found.kind == child.kind.kind && replicas == found.desired
        }
        None => {
            let is_it = |it: &ObservedChild| it.kind == child.kind && it.name == child.name;
            observed.others.iter().any(is_it)
        }
    };
    desired.iter().all(exists)
}

/// The first child that exists and is not ready.
fn not_ready(observed: &Observed) -> Option<Problem> {
    observed.others.iter().find_map(|child| {
        let why = child.not_ready.as_deref()?;
        let message = format!("{:?} {}: {why}", child.kind, child.name);
        Some(Problem::new(Reason::RollingOut, message))
    })
}

fn rolling_out(workload: &ObservedWorkload) -> String {
    format!("the {} is rolling out", workload.kind)
}
