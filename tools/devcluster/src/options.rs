//! What kind of cluster to start.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// What pods run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nodes {
    /// So many of kwok's, each with room for 1000 CPUs and a million pods.
    Simulated(usize),
    /// One that runs containers; only where [`crate::is_inside`] holds.
    Real,
}

impl Nodes {
    pub(crate) fn count(self) -> usize {
        match self {
            Self::Simulated(count) => count,
            Self::Real => 1,
        }
    }
}

/// What kind of cluster to start.
#[derive(Debug, Clone)]
pub struct Options {
    /// What pods run on.
    pub nodes: Nodes,
    /// Set by somebody else to give up a start that is under way.
    pub interrupted: Arc<AtomicBool>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            nodes: Nodes::Simulated(2),
            interrupted: Arc::default(),
        }
    }
}
