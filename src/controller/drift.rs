//! Drift detection: whether a child is as it was applied, and which field manager changes it. Pure.
//! Used by `cache`, `children`, `legacy`, `reconcile` and `state`.

pub mod absorb;
pub(crate) mod field_conflict;
pub mod fingerprint;
mod fixed_hash;
pub(crate) mod managed_fields;
pub(crate) mod quantity;
pub(crate) mod repairs;
pub(crate) mod stamp;
