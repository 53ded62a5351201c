//! How soon a change enqueues the owner. See decision 0005.

use std::time::Duration;

/// Delay before a step of a rollout enqueues the owner. Steps come in bursts, and only the last one
/// counts. The end of a rollout is not delayed.
pub(in crate::controller) const COALESCE: Duration = Duration::from_millis(500);

/// The same in a burst, or if the owner waits already, in most cases to write its status.
pub(in crate::controller) const STEP_WHILE_WAITING: Duration = Duration::from_secs(4);

/// Delay before a pod of a rollout enqueues the owner. The workload reports each step, too; what only a
/// pod tells is its name, and a status waits longer than this for names.
pub(in crate::controller) const POD: Duration = Duration::from_secs(10);

/// The delay before a change enqueues the owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Urgency {
    Now,
    /// After [`COALESCE`].
    Soon,
    /// After [`STEP_WHILE_WAITING`] in a burst, otherwise as `Soon`.
    FirstReport,
    /// After [`STEP_WHILE_WAITING`] in a burst or if the owner waits, otherwise as `Soon`.
    Step,
    /// After [`POD`].
    Pod,
}

impl Urgency {
    /// The delay of a key that does not wait in the queue, and of one that does.
    pub(super) fn delays(self, is_burst: impl Fn() -> bool) -> (Duration, Duration) {
        match self {
            Urgency::Now => (Duration::ZERO, Duration::ZERO),
            Urgency::Soon => (COALESCE, COALESCE),
            Urgency::FirstReport | Urgency::Step if is_burst() => {
                (STEP_WHILE_WAITING, STEP_WHILE_WAITING)
            }
            Urgency::FirstReport => (COALESCE, COALESCE),
            Urgency::Step => (COALESCE, STEP_WHILE_WAITING),
            Urgency::Pod => (POD, POD),
        }
    }
}
