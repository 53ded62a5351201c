//! The first phase: what the caches say about one resource, and after the writes about its children.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Reconciler;
use super::outcome::Outcome;
use crate::cache::cached::CachedResource;
use crate::object::ObjectKey;
use crate::state::Repaired;
use quartet_versions::{Version, conversion};
use quartet_workload::{Desired, Observed, Resource};

/// A resource, as the cache shows it.
pub(super) struct Seen {
    pub(super) cached: Arc<CachedResource>,
    /// The version in which it was read.
    pub(super) version: &'static Version,
    /// Its spec in that version.
    pub(super) spec: Value,
    /// What its operator gets.
    pub(super) resource: Resource,
}

/// The resource `key`; `None` if the cache has none.
pub(super) fn read(reconciler: &Reconciler, key: &ObjectKey) -> Option<Seen> {
    let cached = reconciler.resources.get(key)?;
    let kind = reconciler.kind;
    // Only versions of this operator are watched.
    let version = kind.version(cached.version).unwrap_or(&kind.spoke);
    let spec = serde_json::from_str(&cached.spec).unwrap_or_default();
    let annotations = cached
        .conversion_data
        .as_ref()
        .map(|data| json!({kind.brand.conversion_data: data}));
    let resource = Resource {
        namespace: key.namespace().to_owned(),
        name: key.name().to_owned(),
        uid: cached.meta.uid.clone().into(),
        generation: cached.meta.generation,
        api_version: kind.api_version(version),
        spec: conversion::hub_spec(kind, version, &spec, annotations.as_ref()),
        // Replaces a status of an older operator that does not fit this type.
        status: serde_json::from_str(&cached.status).unwrap_or_default(),
        paused: cached.paused.as_deref().map(Into::into),
    };
    Some(Seen {
        cached,
        version,
        spec,
        resource,
    })
}

/// The children of a resource at the end of its reconcile.
pub(super) fn observe(
    reconciler: &Reconciler,
    resource: &Resource,
    desired: &Desired,
    outcome: &Outcome,
) -> Observed {
    let desired = desired.as_deref().unwrap_or_default();
    let makes_pods = desired.iter().find(|child| child.kind.has_pods);
    let wanted = makes_pods.map(|child| (child.kind, child.name.as_str()));
    let children = &reconciler.context.children;
    let (workload, pods, others) = children.observed(&resource.namespace, &resource.uid, wanted);
    let now = (reconciler.context.clock)();
    let state = reconciler.state(resource);
    let rewritten = desired.iter().filter_map(|child| {
        let what = Repaired::Child(child.kind, child.name.as_str().into());
        let (_, fields) = state.rewritten.get(&what)?;
        Some(format!("{} {}: {fields}", child.kind.kind, child.name))
    });
    Observed {
        rewritten: rewritten.collect(),
        workload,
        others,
        pods,
        problem: outcome.problem.clone(),
        unconfirmed: outcome.unconfirmed.clone(),
        now: now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    }
}
