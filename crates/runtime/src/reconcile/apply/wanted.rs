//! The desired children of a resource, and the result of applying them. No I/O.

use std::time::Duration;

use serde_json::Value;

use super::error::Blocker;
use crate::cache::cached::CachedChild;
use crate::object::ObjectKey;
use crate::state::hash_of;
use quartet_applied::fingerprint::{self, Fingerprint};
use quartet_applied::stamp::Stamp;
use quartet_http::Location;
use quartet_workload::{Child, ChildKind, Resource};

/// The result of applying all children of a resource.
#[derive(Debug, Default)]
pub(crate) struct Ensured {
    /// The state of each child that `Ready` requires.
    pub(crate) expected: Vec<Expected>,
    /// Why a child is not as desired; of several, the one that is tolerated for the shortest time.
    pub(crate) blocker: Option<Blocker>,
    /// When to reconcile again without a new event.
    pub(crate) requeue_after: Option<Duration>,
}

impl Ensured {
    /// Notes why a child is not as desired.
    pub(super) fn blocked(&mut self, blocker: Blocker) {
        let before = self.blocker.as_ref();
        if before.is_none_or(|before| before.patience > blocker.patience) {
            self.blocker = Some(blocker);
        }
    }
}

/// The state of a child that `Ready` requires.
#[derive(Debug, Clone)]
pub(crate) struct Expected {
    pub(super) kind: ChildKind,
    pub(super) key: ObjectKey,
    pub(super) fingerprint: Fingerprint,
}

/// A child, and the fingerprint of its desired state.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(super) resource: &'a Resource,
    pub(super) child: &'a Child,
    /// The annotation of the stamp.
    pub(super) stamp: &'static str,
    pub(crate) desired: Fingerprint,
    /// For [`Repairs`](crate::repairs::Repairs): the hash of the desired state without
    /// what is kept of an existing object, which is not known while the cache does not show that object.
    pub(super) counted: u64,
}

impl<'a> Wanted<'a> {
    pub(crate) fn new(resource: &'a Resource, child: &'a Child, stamp: &'static str) -> Self {
        let desired = fingerprint::of_desired(&child.body, stamp);
        Wanted {
            resource,
            child,
            stamp,
            desired,
            counted: desired.fields,
        }
    }

    /// The same child with what is `kept` of the existing object.
    pub(super) fn keeping(self, kept: &'a Child) -> Self {
        Wanted {
            child: kept,
            desired: fingerprint::of_desired(&kept.body, self.stamp),
            ..self
        }
    }

    /// A hash of the inputs of an attempt to apply the child, with what the cache holds under its name. Another
    /// attempt with the same inputs would fail the same way. The generation of the resource counts even if
    /// this child does not change, since the user waits for the result; that of a `found` object with pods
    /// instead of its version, since its status has no effect on an apply.
    pub(crate) fn attempt(&self, found: Option<&CachedChild>) -> u64 {
        let found = found.map(|found| {
            let version = if self.child.kind.has_pods {
                found.meta.generation.unsigned_abs()
            } else {
                found.meta.resource_version
            };
            (&found.meta.uid, &found.owner, version)
        });
        let (kind, name) = (self.child.kind, &self.child.name);
        hash_of(&(kind, name, self.desired, self.resource.generation, found))
    }

    pub(super) fn location(&self) -> Location<'a> {
        self.child
            .kind
            .location(&self.resource.namespace, &self.child.name)
    }

    pub(super) fn key(&self) -> ObjectKey {
        ObjectKey::new(&self.resource.namespace, &self.child.name)
    }

    /// The JSON of an apply, with the stamp. An `existing` child is a precondition.
    pub(super) fn body(&self, existing: Option<Existing<'_>>) -> String {
        let mut body = self.child.body.clone();
        if let Some(Value::Object(metadata)) = body.get_mut("metadata") {
            let resource = self.resource;
            let rollout = existing.and_then(|it| it.rollout);
            Stamp::new(resource.generation, &resource.spec, self.desired, rollout)
                .put_on(metadata, self.stamp);
            if let Some(existing) = existing {
                let version = existing.resource_version.to_string();
                metadata.insert("uid".to_owned(), existing.uid.into());
                metadata.insert("resourceVersion".to_owned(), version.into());
            }
        }
        body.to_string()
    }

    pub(super) fn expected(&self) -> Expected {
        Expected {
            kind: self.child.kind,
            key: self.key(),
            fingerprint: self.desired,
        }
    }
}

/// The preconditions of a write to an existing child.
#[derive(Clone, Copy)]
pub(super) struct Existing<'a> {
    pub(super) uid: &'a str,
    /// The write fails at another version, so it never overwrites an edit or a newer write of another
    /// leader that the cache does not show.
    pub(super) resource_version: u64,
    /// The generation that the write makes, in a paced rollout.
    pub(super) rollout: Option<i64>,
}
