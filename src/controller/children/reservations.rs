//! Reserves the names of children. The first resource that asks for a name holds it until it is
//! deleted or no longer wants the child. Without this, two resources of different kinds with the
//! same name and namespace would both apply the same Deployment before either saw the other's.
//!
//! One table for the process. Its size is bounded by the number of children. No I/O.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, PoisonError};

use crate::controller::object::ObjectKey;
use crate::operators::ChildKind;

/// The table of reserved names.
#[derive(Debug, Default)]
pub(crate) struct NameReservations {
    owners: Mutex<HashMap<(ChildKind, ObjectKey), Box<str>>>,
}

impl NameReservations {
    /// Reserves the child's name for the resource `uid`; false if another resource has it.
    pub(crate) fn reserve(&self, kind: ChildKind, child: &ObjectKey, uid: &str) -> bool {
        match self.lock().entry((kind, child.clone())) {
            Entry::Occupied(claimed) => claimed.get().as_ref() == uid,
            Entry::Vacant(free) => {
                free.insert(uid.into());
                true
            }
        }
    }

    /// Releases a reservation of `uid`; one of another resource is kept.
    pub(crate) fn release(&self, kind: ChildKind, child: &ObjectKey, uid: &str) {
        if let Entry::Occupied(claimed) = self.lock().entry((kind, child.clone()))
            && claimed.get().as_ref() == uid
        {
            claimed.remove();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<(ChildKind, ObjectKey), Box<str>>> {
        // Nothing can panic while the lock is held, and the table is valid after each step.
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::NameReservations;
    use crate::controller::object::ObjectKey;
    use crate::operators::ChildKind::{Deployment, Service};

    #[test]
    fn the_first_claimant_stays_until_it_gives_the_name_back() {
        let claims = NameReservations::default();
        let name = ObjectKey::new("ns", "one");
        assert!(claims.reserve(Deployment, &name, "first"));
        assert!(
            claims.reserve(Deployment, &name, "first"),
            "claiming again is no conflict"
        );
        assert!(!claims.reserve(Deployment, &name, "second"));
        claims.release(Deployment, &name, "second");
        assert!(
            !claims.reserve(Deployment, &name, "second"),
            "only the holder can release"
        );
        claims.release(Deployment, &name, "first");
        assert!(claims.reserve(Deployment, &name, "second"));
    }

    #[test]
    fn names_are_claimed_per_kind_of_child_and_namespace() {
        let claims = NameReservations::default();
        assert!(claims.reserve(Deployment, &ObjectKey::new("ns", "one"), "first"));
        assert!(claims.reserve(Service, &ObjectKey::new("ns", "one"), "second"));
        assert!(claims.reserve(Deployment, &ObjectKey::new("other", "one"), "second"));
    }
}
