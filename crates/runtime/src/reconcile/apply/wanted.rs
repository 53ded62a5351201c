//! The desired children of a resource, and the result of applying them. No I/O.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::object::ObjectKey;
use quartet_applied::fingerprint::{self, Fingerprint};
use quartet_http::Location;
use quartet_workload::{Child, ChildKind, Problem, Resource};

/// The result of applying all children of a resource.
#[derive(Debug, Default)]
pub(crate) struct Ensured {
    /// The state of each child that `Ready` requires.
    pub(crate) expected: Vec<Expected>,
    /// Why a child that is not changed now is not confirmed.
    pub(crate) unconfirmed: Option<Problem>,
    /// When to reconcile again without a new event.
    pub(crate) requeue_after: Option<Duration>,
    /// A problem of a child that stops no other child, and how long it is reported.
    pub(super) problem: Option<(Problem, Duration)>,
}

impl Ensured {
    /// Notes a child that is as desired or applied, with the recent conflict about it.
    pub(super) fn child(&mut self, expected: Expected, conflict: Option<(Problem, Duration)>) {
        self.expected.push(expected);
        self.problem = self.problem.take().or(conflict);
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
pub(super) struct Wanted<'a> {
    pub(super) resource: &'a Resource,
    pub(super) child: &'a Child,
    /// The annotation of the stamp.
    pub(super) stamp: &'static str,
    pub(super) desired: Fingerprint,
    /// For [`Repairs`](crate::repairs::Repairs): the hash of the desired state without
    /// what is kept of an existing object, which is not known while the cache does not show that object.
    pub(super) counted: u64,
}

impl<'a> Wanted<'a> {
    pub(super) fn new(resource: &'a Resource, child: &'a Child, stamp: &'static str) -> Self {
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

    pub(super) fn location(&self) -> Location<'a> {
        self.child
            .kind
            .location(&self.resource.namespace, &self.child.name)
    }

    pub(super) fn key(&self) -> ObjectKey {
        ObjectKey::new(&self.resource.namespace, &self.child.name)
    }

    /// The desired metadata.
    pub(super) fn metadata(&self) -> Map<String, Value> {
        let metadata = self.child.body.get("metadata");
        let metadata = metadata.and_then(Value::as_object);
        metadata.cloned().unwrap_or_default()
    }

    /// The JSON of an apply with this metadata.
    pub(super) fn body(&self, metadata: Map<String, Value>) -> String {
        let members = self.child.body.as_object().into_iter().flatten();
        let mut members: BTreeMap<&str, &Value> =
            members.map(|(name, value)| (&**name, value)).collect();
        let metadata = Value::Object(metadata);
        members.insert("metadata", &metadata);
        serde_json::to_string(&members).unwrap_or_default()
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
