//! The second phase: what the operator of a resource wants. Pure.

use super::read::Seen;
use quartet_workload::api::Status;
use quartet_workload::{Desired, Observed, Operator, Settings, status};

/// The desired children of a resource.
pub(super) fn desire(operator: &dyn Operator, settings: &Settings, seen: &Seen) -> Desired {
    // First in the version that was read, so that errors name its fields; the operator validates the
    // spec of the hub version.
    seen.version.validate(&seen.spec)?;
    operator.desired(&seen.resource, settings)
}

/// The status of a resource with these children.
pub(super) fn status(
    operator: &dyn Operator,
    seen: &Seen,
    desired: &Desired,
    observed: &Observed,
) -> Status {
    if seen.cached.meta.deleting {
        status::terminating(&seen.resource, &observed.now)
    } else {
        operator.status(&seen.resource, desired, observed)
    }
}
