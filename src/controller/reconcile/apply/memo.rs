//! Remembers what was applied for a spec. A reconcile that finds the children as they were applied
//! neither validates the spec nor computes the children again.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::wanted::{Ensured, Expected};
use crate::controller::reconcile::Reconciler;
use crate::operators::{Child, ChildSummary, Resource};

/// The memos of all resources of one kind: about 200 bytes each.
#[derive(Debug, Default)]
pub(crate) struct Memos {
    /// By UID of the resource.
    by_resource: Mutex<HashMap<Box<str>, Memo>>,
}

#[derive(Debug)]
struct Memo {
    /// Hash of what the children were computed from.
    spec: u64,
    children: Box<[Settled]>,
}

/// A child as it was applied.
#[derive(Debug)]
struct Settled {
    expected: Expected,
    replicas: Option<i64>,
}

impl Settled {
    fn read(&self) -> (Expected, ChildSummary) {
        let summary = ChildSummary {
            kind: self.expected.kind,
            name: self.expected.key.name().to_owned(),
            replicas: self.replicas,
        };
        (self.expected.clone(), summary)
    }
}

impl Memos {
    /// Remembers the applied children, if none waits for anything.
    pub(super) fn remember(
        &self,
        resource: &Resource,
        spec: u64,
        children: &[Child],
        ensured: &Ensured,
    ) {
        let Ensured {
            expected,
            unconfirmed: None,
            requeue_after: None,
        } = ensured
        else {
            return;
        };
        // One for each child, in the same order.
        if expected.len() != children.len() {
            return;
        }
        let settled = expected
            .iter()
            .zip(children)
            .map(|(expected, child)| Settled {
                expected: expected.clone(),
                replicas: child.replicas(),
            });
        let memo = Memo {
            spec,
            children: settled.collect(),
        };
        self.by_resource
            .lock()
            .insert(resource.uid.as_str().into(), memo);
    }

    /// The resource `uid` was deleted.
    pub(super) fn forget(&self, uid: &str) {
        self.by_resource.lock().remove(uid);
    }
}

impl Reconciler {
    /// The children that were applied for this `spec`, if the caches show all of them as they were
    /// applied, and no others: what [`Reconciler::ensure`] would find.
    pub(crate) fn remembered(
        &self,
        resource: &Resource,
        spec: u64,
    ) -> Option<(Vec<ChildSummary>, Ensured)> {
        let memos = self.memos.by_resource.lock();
        let memo = memos.get(&*resource.uid);
        let memo = memo.filter(|memo| memo.spec == spec && !resource.paused)?;
        let (expected, children): (Vec<_>, Vec<_>) =
            memo.children.iter().map(Settled::read).unzip();
        drop(memos);
        let is_wanted = |kind, name: &str| {
            let mut children = children.iter();
            children.any(|child| child.kind == kind && child.name == name)
        };
        let is_in_conflict = |expected: &Expected| {
            let child = (expected.kind, expected.key.clone());
            let desired = expected.fingerprint.fields;
            self.repairs.settled(&child, desired).is_some()
        };
        let is_as_applied = self.is_confirmed(resource, &expected)
            && self.unwanted(resource, is_wanted).is_empty()
            && !expected.iter().any(is_in_conflict);
        if !is_as_applied {
            return None;
        }
        self.states.unblock(resource);
        let ensured = Ensured {
            expected,
            ..Ensured::default()
        };
        Some((children, ensured))
    }
}
