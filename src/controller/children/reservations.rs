//! Reserves the names of children. The first resource that reserves a name holds it until it is
//! deleted or no longer wants the child. Without this, two resources of different kinds with the
//! same name and namespace would both apply the same Deployment before either saw the other's.
//!
//! One table for the process. Its size is bounded by the number of children. No I/O.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::controller::object::ObjectKey;
use crate::operators::ChildKind;

/// A name of a child.
pub(crate) type ChildName = (ChildKind, ObjectKey);

/// The table of reserved names.
#[derive(Debug, Default)]
pub(crate) struct NameReservations {
    reserved: Mutex<Reserved>,
}

/// Both maps hold the same pairs.
#[derive(Debug, Default)]
struct Reserved {
    owners: HashMap<ChildName, Arc<str>>,
    names: HashMap<Arc<str>, Vec<ChildName>>,
}

impl NameReservations {
    /// Reserves the child's name for the resource `uid`; false if another resource has it.
    pub(crate) fn reserve(&self, kind: ChildKind, child: &ObjectKey, uid: &str) -> bool {
        let mut reserved = self.reserved.lock();
        let Reserved { owners, names } = &mut *reserved;
        match owners.entry((kind, child.clone())) {
            Entry::Occupied(owner) => **owner.get() == *uid,
            Entry::Vacant(free) => {
                let known = names.get_key_value(uid).map(|(known, _)| Arc::clone(known));
                let uid = known.unwrap_or_else(|| uid.into());
                let name = free.key().clone();
                // Exact-sized: most resources have one child.
                let its_names = names.entry(Arc::clone(&uid));
                its_names
                    .or_insert_with(|| Vec::with_capacity(1))
                    .push(name);
                free.insert(uid);
                true
            }
        }
    }

    /// Releases a reservation of `uid`; one of another resource is kept.
    pub(crate) fn release(&self, kind: ChildKind, child: &ObjectKey, uid: &str) {
        let mut reserved = self.reserved.lock();
        let name = (kind, child.clone());
        if let Some(names) = reserved.names.get_mut(uid) {
            names.retain(|it| *it != name);
            if names.is_empty() {
                reserved.names.remove(uid);
            }
        }
        if let Entry::Occupied(owner) = reserved.owners.entry(name)
            && **owner.get() == *uid
        {
            owner.remove();
        }
    }

    /// The names that `uid` has reserved.
    pub(crate) fn of(&self, uid: &str) -> Vec<ChildName> {
        let names = self.reserved.lock().names.get(uid).cloned();
        names.unwrap_or_default()
    }

    /// Releases all reservations of `uid`, and returns their names.
    pub(crate) fn release_all(&self, uid: &str) -> Vec<ChildName> {
        let mut reserved = self.reserved.lock();
        let names = reserved.names.remove(uid).unwrap_or_default();
        for name in &names {
            reserved.owners.remove(name);
        }
        names
    }
}

#[cfg(test)]
mod tests {
    use super::NameReservations;
    use crate::controller::object::ObjectKey;
    use crate::operators::{DEPLOYMENT, SERVICE};

    #[test]
    fn the_first_holder_stays_until_it_gives_the_name_back() {
        let reservations = NameReservations::default();
        let name = ObjectKey::new("ns", "one");
        assert!(reservations.reserve(DEPLOYMENT, &name, "first"));
        assert!(
            reservations.reserve(DEPLOYMENT, &name, "first"),
            "reserving again is no conflict"
        );
        assert!(!reservations.reserve(DEPLOYMENT, &name, "second"));
        reservations.release(DEPLOYMENT, &name, "second");
        assert!(
            !reservations.reserve(DEPLOYMENT, &name, "second"),
            "only the holder can release"
        );
        reservations.release(DEPLOYMENT, &name, "first");
        assert!(reservations.reserve(DEPLOYMENT, &name, "second"));
    }

    #[test]
    fn all_names_of_a_resource_are_released_at_once_and_no_others() {
        let reservations = NameReservations::default();
        let [one, two] = ["one", "two"].map(|name| ObjectKey::new("ns", name));
        assert!(
            reservations.reserve(DEPLOYMENT, &one, "first")
                && reservations.reserve(SERVICE, &two, "first")
        );
        assert!(reservations.reserve(SERVICE, &one, "second"));
        let released = reservations.release_all("first");
        assert_eq!(
            released,
            [(DEPLOYMENT, one.clone()), (SERVICE, two.clone())]
        );
        assert!(
            reservations.reserve(DEPLOYMENT, &one, "third")
                && reservations.reserve(SERVICE, &two, "third")
        );
        assert!(!reservations.reserve(SERVICE, &one, "third"));
        assert_eq!(reservations.release_all("first"), []);
    }

    #[test]
    fn names_are_reserved_per_kind_of_child_and_namespace() {
        let reservations = NameReservations::default();
        assert!(reservations.reserve(DEPLOYMENT, &ObjectKey::new("ns", "one"), "first"));
        assert!(reservations.reserve(SERVICE, &ObjectKey::new("ns", "one"), "second"));
        assert!(reservations.reserve(DEPLOYMENT, &ObjectKey::new("other", "one"), "second"));
    }
}
