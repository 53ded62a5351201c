//! The kind of cluster to start.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The nodes on which pods run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nodes {
    /// This many simulated nodes of kwok, each with 1000 CPUs and room for a million pods.
    Simulated(usize),
    /// One node that runs containers; only where [`crate::is_inside`] holds.
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

/// The kind of cluster to start.
#[derive(Debug, Clone)]
pub struct Options {
    /// The nodes on which pods run.
    pub nodes: Nodes,
    /// Set by the caller to abort a start in progress.
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
