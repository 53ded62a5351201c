//! Drift detection: whether a child is as it was applied, and which field manager changes it. Pure, and
//! used by all comparisons.

pub(in crate::controller) mod field_conflict;
pub(in crate::controller) mod fingerprint;
pub(in crate::controller) mod managed_fields;
pub(in crate::controller) mod quantity;
pub(in crate::controller) mod repairs;
pub(in crate::controller) mod stamp;
