//! Who may make the child of a name: the first resource that asks, until it is gone or no
//! longer asks. Two resources of different kinds with one name in one namespace want the
//! same Deployment; without this, both would apply it before either saw the other's.
//!
//! One table for the whole process; no I/O. Bounded by the number of children.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, PoisonError};

use super::object::ObjectKey;
use crate::operators::ChildKind;

/// The table of claims.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    owners: Mutex<HashMap<(ChildKind, ObjectKey), Box<str>>>,
}

impl Claims {
    /// Claims the child for the resource `uid`; false when another one has it.
    pub(crate) fn claim(&self, kind: ChildKind, child: &ObjectKey, uid: &str) -> bool {
        match self.lock().entry((kind, child.clone())) {
            Entry::Occupied(claimed) => claimed.get().as_ref() == uid,
            Entry::Vacant(free) => {
                free.insert(uid.into());
                true
            }
        }
    }

    /// Gives one claim of `uid` back; that of another is left alone.
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
    use super::Claims;
    use crate::controller::object::ObjectKey;
    use crate::operators::ChildKind::{Deployment, Service};

    #[test]
    fn the_first_claimant_stays_until_it_gives_the_name_back() {
        let claims = Claims::default();
        let name = ObjectKey::new("ns", "one");
        assert!(claims.claim(Deployment, &name, "first"));
        assert!(
            claims.claim(Deployment, &name, "first"),
            "claiming again is no conflict"
        );
        assert!(!claims.claim(Deployment, &name, "second"));
        claims.release(Deployment, &name, "second");
        assert!(
            !claims.claim(Deployment, &name, "second"),
            "only the holder can release"
        );
        claims.release(Deployment, &name, "first");
        assert!(claims.claim(Deployment, &name, "second"));
    }

    #[test]
    fn names_are_claimed_per_kind_of_child_and_namespace() {
        let claims = Claims::default();
        assert!(claims.claim(Deployment, &ObjectKey::new("ns", "one"), "first"));
        assert!(claims.claim(Service, &ObjectKey::new("ns", "one"), "second"));
        assert!(claims.claim(Deployment, &ObjectKey::new("other", "one"), "second"));
    }
}
