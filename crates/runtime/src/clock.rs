//! The clock of conditions and Events.
//! Used by `controllers`, `event` and `reconcile`.

use std::sync::Arc;

use jiff::Timestamp;

/// Returns the current time.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;
