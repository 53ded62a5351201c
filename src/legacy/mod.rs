//! Objects of the Go operators that this one replaces: their children are adopted, and their finalizers removed.

pub mod adoption;
mod finalizers;

use quartet_workload::Legacy;

/// The older operators, for the controllers and their permissions.
pub const LEGACY: Legacy = Legacy {
    finalizer: finalizers::of,
    removal: finalizers::removal,
    adoption: adoption::patch,
};
