//! The target of spans that are made for traces alone: the log never shows them, and without
//! an endpoint for traces they are never made.

/// See above.
pub(crate) const TRACES: &str = "otel";
