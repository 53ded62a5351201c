//! The changes that a cache reports.

use std::sync::Arc;

/// A change of an object.
#[derive(Debug)]
pub enum Change<T> {
    /// The object was added.
    Added(Arc<T>),
    /// The object was updated.
    Updated {
        /// The state before.
        old: Arc<T>,
        /// The state after.
        new: Arc<T>,
    },
    /// The object was deleted, or no longer matches the watch's selector; the last known state.
    Deleted(Arc<T>),
}

impl<T> Change<T> {
    /// The state before, if it existed.
    pub fn before(&self) -> Option<&T> {
        match self {
            Change::Added(_) => None,
            Change::Updated { old, .. } | Change::Deleted(old) => Some(old),
        }
    }

    /// The state after, if it exists.
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
