//! Remembers what was applied for a spec. A reconcile that finds the children as they were applied
//! neither validates the spec nor computes the children again.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::wanted::{Ensured, Expected};
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
    children: Box<[AppliedChild]>,
}

/// A child as it was applied.
#[derive(Debug)]
struct AppliedChild {
    expected: Expected,
    replicas: Option<i64>,
}

impl AppliedChild {
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
            problem: None,
            failure: None,
        } = ensured
        else {
            return;
        };
        // One for each child, in the same order.
        if expected.len() != children.len() {
            return;
        }
        let applied = expected
            .iter()
            .zip(children)
            .map(|(expected, child)| AppliedChild {
                expected: expected.clone(),
                replicas: child.replicas(),
            });
        let memo = Memo {
            spec,
            children: applied.collect(),
        };
        self.by_resource
            .lock()
            .insert(resource.uid.as_str().into(), memo);
    }

    /// The children that were applied to the resource `uid` for this `spec`.
    pub(super) fn of(&self, uid: &str, spec: u64) -> Option<(Vec<Expected>, Vec<ChildSummary>)> {
        let memos = self.by_resource.lock();
        let memo = memos.get(uid).filter(|memo| memo.spec == spec)?;
        Some(memo.children.iter().map(AppliedChild::read).unzip())
    }

    /// The resource `uid` was deleted.
    pub(crate) fn forget(&self, uid: &str) {
        self.by_resource.lock().remove(uid);
    }
}
