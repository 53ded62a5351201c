//! The most important problem of a resource. Pure.

use super::pods;
use crate::observed::{Observed, Problem, Reason};
use crate::observed_workload::ObservedWorkload;

const DEPLOYMENT_PAUSED: &str = "the Deployment is paused (spec.paused), so nothing is rolled out; resume it with kubectl rollout resume";

/// The first problem, in this order: a child that could not be applied, an invalid spec, the
/// conditions of the Deployment for its latest spec, its pods.
pub(super) fn first(
    refusal: Option<Problem>,
    observed: &Observed,
    failing_pods: Option<&pods::Failing>,
) -> Option<Problem> {
    // A pause is not a problem; the conditions report it separately.
    let problem = observed
        .problem
        .clone()
        .filter(|problem| problem.reason != Reason::Paused);
    let workload = observed.workload.as_ref();
    problem
        .or(refusal)
        .or_else(|| workload.and_then(replica_failure))
        .or_else(|| workload.and_then(paused))
        .or_else(|| {
            let stalled = workload.and_then(stalled)?;
            Some(match failing_pods {
                // The Deployment's own message names a ReplicaSet and no cause.
                Some(pods) => Problem {
                    message: format!("{}: {}", stalled.message, pods.problem.message),
                    ..stalled
                },
                None => stalled,
            })
        })
        .or_else(|| Some(failing_pods.filter(|pods| pods.persists)?.problem.clone()))
}

/// The Deployment is paused and its latest template is not rolled out.
fn paused(workload: &ObservedWorkload) -> Option<Problem> {
    let is_paused = workload.paused && !workload.is_updated();
    is_paused.then(|| Problem::new(Reason::DeploymentPaused, DEPLOYMENT_PAUSED))
}

/// Pods cannot be created. A quota on pods causes no error for our requests: the ReplicaSet
/// controller gets the error and reports it in this condition.
fn replica_failure(workload: &ObservedWorkload) -> Option<Problem> {
    const QUOTA: &str = "exceeded quota";
    let message = current(workload, workload.replica_failure.as_deref())?;
    // The text before it names an arbitrary pod of many attempts.
    let quota = message.find(QUOTA).and_then(|start| message.get(start..));
    Some(match quota {
        Some(quota) => Problem::new(Reason::QuotaExceeded, quota),
        None => Problem::new(Reason::ReplicaFailure, message),
    })
}

/// The rollout made no progress within the Deployment's deadline.
pub(super) fn stalled(workload: &ObservedWorkload) -> Option<Problem> {
    let message = current(workload, workload.stalled.as_deref())?;
    Some(Problem::new(Reason::ProgressDeadlineExceeded, message))
}

/// The message of a condition of the Deployment, unless it is about an older spec: a new spec must
/// not be reported as stalled because the old one was.
fn current<'a>(workload: &ObservedWorkload, message: Option<&'a str>) -> Option<&'a str> {
    message.filter(|_| workload.is_current())
}
