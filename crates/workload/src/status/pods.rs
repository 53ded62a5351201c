//! Pods that do not start, as the status reports them: reason and time. Pure.

use std::time::Duration;

use jiff::Timestamp;

use crate::observed::{Observed, ObservedPod, PodFailure, Problem, Reason};

/// How long a pod may fail to start before the resource is degraded.
const PATIENCE_WITH_PODS: Duration = Duration::from_secs(60);

/// The reasons why pods do not start.
pub(super) const REASONS: [Reason; 5] = [
    Reason::ImagePullBackOff,
    Reason::CrashLoopBackOff,
    Reason::OOMKilled,
    Reason::Unschedulable,
    Reason::ContainerNotStarted,
];

/// The pods of a resource that do not start.
pub(super) struct Failing {
    /// Reason and message of the pod that has failed longest, with the number of failing pods.
    pub(super) problem: Problem,
    /// It has failed for at least [`PATIENCE_WITH_PODS`].
    pub(super) persists: bool,
}

/// The pods that do not start, if the rollout of their workload is not complete.
pub(super) fn failing(observed: &Observed) -> Option<Failing> {
    let workload = observed.workload.as_ref();
    workload.filter(|workload| !workload.is_complete())?;
    let (pod, failure) = longest(observed)?;
    let failures = observed.pods.iter().filter(|pod| pod.failure.is_some());
    let (count, all) = (failures.count(), observed.pods.len());
    let PodFailure {
        reason, message, ..
    } = failure;
    let message = format!(
        "{count} of {all} pods do not start: pod {}: {message}",
        pod.name
    );
    Some(Failing {
        problem: Problem::new(*reason, message),
        persists: age(failure, observed) >= PATIENCE_WITH_PODS,
    })
}

/// Time until the status changes without a new observation: a pod that does not start makes the
/// resource degraded after a minute.
pub fn next_change(observed: &Observed) -> Option<Duration> {
    let (_, failure) = longest(observed)?;
    PATIENCE_WITH_PODS
        .checked_sub(age(failure, observed))
        .filter(|left| !left.is_zero())
}

/// The pod that has failed longest. Ties are resolved by name, so that the status does not depend
/// on the order of pods.
fn longest(observed: &Observed) -> Option<(&ObservedPod, &PodFailure)> {
    let pods = observed.pods.iter();
    pods.filter_map(|pod| Some((pod, pod.failure.as_deref()?)))
        .min_by_key(|(pod, failure)| (&failure.since, &pod.name))
}

/// How long a pod has failed to start. Zero if the times cannot be parsed, or if the clock of the
/// node is ahead of ours.
fn age(failure: &PodFailure, observed: &Observed) -> Duration {
    let seconds = |time: &str| time.parse().map(Timestamp::as_second).ok();
    let times = seconds(&observed.now).zip(seconds(&failure.since));
    let elapsed = times.and_then(|(now, since)| u64::try_from(now.saturating_sub(since)).ok());
    Duration::from_secs(elapsed.unwrap_or_default())
}
