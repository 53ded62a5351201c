//! Which resources have lost a child. Either somebody deleted it, or the resource itself is
//! gone: the garbage collector is then sometimes faster than the watch that tells us so, and a
//! child made anew for an owner that is gone is removed at once, made anew, and so on for as
//! long as that watch lags. So whoever finds a child missing that was there asks first whether
//! the resource still is. A set of UIDs; does no I/O.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// UIDs of resources that have lost a child, and of which it is not known since that they are
/// there. At most as many as there are resources.
#[derive(Debug, Default)]
pub(crate) struct Bereaved {
    uids: Mutex<HashSet<Box<str>>>,
}

impl Bereaved {
    /// Notes that a child of the resource `uid` is gone, unless the resource, as far as is
    /// known, is gone as well: nobody would ever ask for it again.
    pub(crate) fn note(&self, uid: &str, is_known: impl FnOnce() -> bool) {
        self.lock().insert(uid.into());
        // Afterwards, since it may be forgotten at this very moment.
        if !is_known() {
            self.forget(uid);
        }
    }

    /// Whether a child of the resource is gone.
    pub(crate) fn contains(&self, uid: &str) -> bool {
        self.lock().contains(uid)
    }

    /// The resource is there after all, or nobody wants its children any more.
    pub(crate) fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<Box<str>>> {
        // Each critical section is one operation of the set.
        self.uids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
