//! x
pub(crate) mod fingerprint;
pub(crate) mod quantity;
