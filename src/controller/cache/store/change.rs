//! What a cache announces.

use std::sync::Arc;

/// One step in the life of an object.
#[derive(Debug)]
pub enum Change<T> {
    /// It appeared.
    Added(Arc<T>),
    /// Its state changed.
    Updated {
        /// What it was.
        old: Arc<T>,
        /// What it is.
        new: Arc<T>,
    },
    /// It is gone, or does not match the watch's selector any more; the last known state.
    Deleted(Arc<T>),
}

impl<T> Change<T> {
    /// The state before, if it was there.
    pub fn before(&self) -> Option<&T> {
        match self {
            Change::Added(_) => None,
            Change::Updated { old, .. } | Change::Deleted(old) => Some(old),
        }
    }

    /// The state now, if it is there.
    pub fn after(&self) -> Option<&T> {
        match self {
            Change::Added(new) | Change::Updated { new, .. } => Some(new),
            Change::Deleted(_) => None,
        }
    }

    /// The last known state.
    pub fn latest(&self) -> &T {
        match self {
            Change::Added(object) | Change::Updated { new: object, .. } => object,
            Change::Deleted(object) => object,
        }
    }
}
