//! The status of a resource: when it is written, and how.

pub(in crate::controller) mod debounce;
pub(in crate::controller) mod writer;
