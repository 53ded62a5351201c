//! Resources that have lost a child: a user deleted the child, or the resource was deleted and the
//! garbage collector was faster than this watch. A child that is created for a deleted owner is deleted
//! at once, and would be created again while the watch lags. So a reconcile of a resource in this set
//! that misses a child reads the resource from the API server first. A set of UIDs; no I/O.

use std::collections::HashSet;

use parking_lot::Mutex;

/// UIDs of resources that have lost a child and have not been confirmed since. At most one per
/// resource.
#[derive(Debug, Default)]
pub(crate) struct LostChildren {
    uids: Mutex<HashSet<Box<str>>>,
}

impl LostChildren {
    /// Records that the resource `uid` has lost a child, if it is known. An entry of a deleted resource
    /// would never be removed.
    pub(crate) fn note(&self, uid: &str, is_known: impl Fn() -> bool) {
        // An object that only names this UID, in another namespace, changes no entry.
        if !is_known() {
            return;
        }
        self.uids.lock().insert(uid.into());
        // Checked again after the insert, since the resource may be deleted concurrently.
        if !is_known() {
            self.forget(uid);
        }
    }

    /// Whether the resource has lost a child.
    pub(crate) fn contains(&self, uid: &str) -> bool {
        self.uids.lock().contains(uid)
    }

    /// The resource exists, or its children are no longer wanted.
    pub(crate) fn forget(&self, uid: &str) {
        self.uids.lock().remove(uid);
    }
}
