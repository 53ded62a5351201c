//! What the types of all kinds share: the settings of pods, and the status. Data only.

pub mod status;
pub mod workload;

pub use status::{Condition, Status};
