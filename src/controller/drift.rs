//! Drift detection: whether a child is as it was applied, and which field manager changes it. Pure, and
//! used by all comparisons.

pub(crate) mod field_conflict;
pub(crate) mod fingerprint;
pub(crate) mod managed_fields;
pub(crate) mod quantity;
pub(crate) mod repairs;
pub(crate) mod stamp;
