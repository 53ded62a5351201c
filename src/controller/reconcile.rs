//! One resource, once: what its operator wants is compared with the caches, what differs is
//! applied, and the status is written when it differs. Level-triggered: nothing depends on
//! which event woke it. Knows no kind; the kinds' pure functions come in as an [`Operator`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::call::{CallError, Caller, Location, Part};
use super::children::{Children, Standing, taken};
use super::event;
use super::fingerprint::{self, Fingerprint};
use super::lean::{CONVERSION_DATA, LeanResource, Owner};
use super::metrics::Metrics;
use super::object::ObjectKey;
use super::pending_status::PendingStatus;
use super::store::Store;
use super::takeover;
use super::verdict::{self, Verdict};
use super::watched::Lean;
use crate::api::{Kind, Status, Version, conversion};
use crate::operators::{
    Child, ChildKind, Observed, Operator, Problem, Resource, Settings, names, status,
};

/// How long a blocker outside (a foreign name, a taken port, a quota) is left alone before it
/// is looked at again; ± 20 %, so that many of them do not come at once.
const BLOCKED_RETRY: Duration = Duration::from_secs(15);

/// When to look at the resource again without a new event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Not before something changes.
    Rest,
    /// After this time.
    After(Duration),
}

/// What happens to the children of one resource.
#[derive(Default)]
struct Outcome {
    problem: Option<Problem>,
    retry: Option<Duration>,
    error: Option<CallError>,
    ending: bool,
}

/// What a controller remembers of a resource between two passes. Kept only while there is
/// something to remember, dropped with the resource.
#[derive(Debug, Default)]
struct Memory {
    /// UID it is about, so that a namesake created later starts afresh.
    uid: Box<str>,
    /// What the API server made of an apply that it changed: (child, desired, as answered).
    /// As long as both are the same nothing is sent, or the two would alternate for ever.
    rewritten: Vec<(ChildKind, Fingerprint, Fingerprint)>,
    /// A status that differs from the stored one and is not written yet.
    pending: Option<PendingStatus>,
}

/// Reconciles the resources of one kind.
pub(crate) struct Reconciler {
    operator: &'static dyn Operator,
    kind: &'static Kind,
    version: &'static Version,
    /// URL of the group and version, e.g. `/apis/cache.example.com/v1`.
    api: String,
    controller: String,
    settings: Settings,
    caller: Caller,
    resources: Arc<Store<LeanResource>>,
    children: Arc<Children>,
    metrics: Arc<Metrics>,
    memories: Mutex<HashMap<ObjectKey, Memory>>,
}

impl Reconciler {
    /// A reconciler of the resources that `resources` holds, read in `version`.
    pub(crate) fn new(
        operator: &'static dyn Operator,
        version: &'static Version,
        settings: Settings,
        caller: Caller,
        resources: Arc<Store<LeanResource>>,
        children: Arc<Children>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let kind = operator.kind();
        Reconciler {
            operator,
            kind,
            version,
            api: format!("/apis/{}", kind.api_version(version)),
            controller: kind.controller_name(),
            settings,
            caller,
            resources,
            children,
            metrics,
            memories: Mutex::default(),
        }
    }

    /// The cache of the resources.
    pub(crate) fn resources(&self) -> Arc<Store<LeanResource>> {
        Arc::clone(&self.resources)
    }

    /// Makes the cluster hold what the resource asks for.
    ///
    /// # Errors
    /// What is worth another try by the back-off.
    pub(crate) async fn reconcile(&self, key: &ObjectKey) -> Result<Next, CallError> {
        let Some(lean) = self.resources.get(key) else {
            return Ok(Next::Rest);
        };
        self.strip_legacy_finalizers(&lean).await?;
        if lean.meta.deleting {
            // Owner references do the cleaning; a child made now would outlive its owner's
            // foreground deletion or hold it up.
            return Ok(Next::Rest);
        }
        let resource = self.resource(&lean);
        let outcome = if resource.paused {
            Outcome::default()
        } else {
            match self.operator.desired(&resource, &self.settings) {
                Ok(children) => self.ensure_all(&resource, &children).await,
                Err(refused) => Outcome {
                    problem: Some(refused.problem()),
                    ..Outcome::default()
                },
            }
        };
        if outcome.ending {
            return Ok(Next::Rest);
        }
        let settle = self.write_status(&lean, &resource, outcome.problem).await?;
        if let Some(error) = outcome.error {
            return Err(error);
        }
        Ok(match (outcome.retry, settle) {
            (Some(retry), Some(settle)) => Next::After(retry.min(settle)),
            (Some(after), None) | (None, Some(after)) => Next::After(after),
            (None, None) => Next::Rest,
        })
    }

    /// The resource is gone: gives back the names it claimed and forgets it.
    pub(crate) fn forget(&self, resource: &LeanResource) {
        let uid = &resource.meta.uid;
        let key = &resource.meta.key;
        let name = names::child_name(key.name());
        for kind in [ChildKind::Deployment, ChildKind::Service] {
            let child = ObjectKey::new(key.namespace(), &name);
            self.children.claims.release(kind, &child, uid);
        }
        let mut memories = self.memories();
        if memories.get(key).is_some_and(|memory| memory.uid == *uid) {
            memories.remove(key);
        }
    }

    /// The resource as the operators see it: the hub's spec, whatever was read.
    fn resource(&self, lean: &LeanResource) -> Resource {
        let spec = serde_json::from_str(&lean.spec).unwrap_or(Value::Null);
        let annotations = lean
            .conversion_data
            .as_ref()
            .map(|data| json!({CONVERSION_DATA: data}));
        Resource {
            namespace: lean.meta.key.namespace().to_owned(),
            name: lean.meta.key.name().to_owned(),
            uid: lean.meta.uid.clone().into(),
            generation: lean.meta.generation,
            api_version: self.kind.api_version(self.version),
            spec: conversion::hub_spec(self.kind, self.version, &spec, annotations.as_ref()),
            // An older operator may have stored what our type cannot hold; it is replaced whole.
            status: serde_json::from_str(&lean.status).unwrap_or_default(),
            paused: lean.paused,
        }
    }

    async fn ensure_all(&self, resource: &Resource, children: &[Child]) -> Outcome {
        for child in children {
            let outcome = self.ensure(resource, child).await;
            if outcome.problem.is_some() || outcome.error.is_some() || outcome.ending {
                return outcome;
            }
        }
        self.delete_services_not_asked_for(resource, children).await
    }

    /// Brings one child to what is desired, with at most one apply when it is ours.
    async fn ensure(&self, resource: &Resource, child: &Child) -> Outcome {
        let key = ObjectKey::new(&resource.namespace, &child.name);
        let owner = Owner {
            group: self.kind.group.into(),
            kind: self.kind.kind.into(),
            name: resource.name.as_str().into(),
            uid: resource.uid.as_str().into(),
        };
        let standing = self.children.standing(child.kind, &key, &owner);
        if let Standing::Foreign(problem) = standing {
            return blocked(problem);
        }
        if !self.children.claims.claim(child.kind, &key, &resource.uid) {
            return blocked(taken(child.kind, &key, None));
        }
        let desired = fingerprint::of_desired(&child.body);
        match standing {
            Standing::Ours { uid, fingerprint } => {
                let Some(fingerprint) = fingerprint else {
                    return self.look_whose(resource, child, desired).await;
                };
                if fingerprint == desired
                    || self.is_rewritten(resource, child, desired, fingerprint)
                {
                    return Outcome::default();
                }
                self.apply(resource, child, desired, Some(&uid)).await
            }
            Standing::Unknown => self.apply(resource, child, desired, None).await,
            Standing::Ending | Standing::Foreign(_) => Outcome::default(),
        }
    }

    /// Applies a child: with force and its uid when it is known to be ours, else without.
    async fn apply(
        &self,
        resource: &Resource,
        child: &Child,
        desired: Fingerprint,
        ours: Option<&str>,
    ) -> Outcome {
        let at = Location::of_child(child.kind, &resource.namespace, &child.name);
        let answer = match ours {
            None => {
                self.caller
                    .apply(at, self.kind.field_manager, false, &child.body)
                    .await
            }
            Some(uid) => {
                let body = with_uid(&child.body, uid);
                self.caller
                    .apply(at, self.kind.field_manager, true, &body)
                    .await
            }
        };
        let error = match answer {
            Ok(object) => {
                self.applied(resource, child, desired, &object);
                return Outcome::default();
            }
            Err(error) => error,
        };
        match error.refusal().map(verdict::of_apply) {
            Some(Verdict::AskWhose) if ours.is_none() => {
                debug!(controller = self.controller, %error, "asking whose the child is");
                Box::pin(self.look_whose(resource, child, desired)).await
            }
            Some(Verdict::AskWhose | Verdict::Transient) | None => Outcome {
                error: Some(error),
                ..Outcome::default()
            },
            Some(Verdict::Blocked(problem)) => blocked(problem),
            Some(Verdict::Duplicate { field, problem }) => {
                match self.absorb_list(resource, child, ours, &field).await {
                    Ok(true) => Box::pin(self.apply(resource, child, desired, ours)).await,
                    Ok(false) => Outcome {
                        problem: Some(problem),
                        error: Some(error),
                        ..Outcome::default()
                    },
                    Err(error) => Outcome {
                        error: Some(error),
                        ..Outcome::default()
                    },
                }
            }
            Some(Verdict::Refused(problem)) => Outcome {
                problem: Some(problem),
                error: Some(error),
                ..Outcome::default()
            },
            Some(Verdict::NamespaceEnding) => {
                debug!(controller = self.controller, %error, "the namespace is going away");
                Outcome {
                    ending: true,
                    ..Outcome::default()
                }
            }
        }
    }

    /// One GET decides: is the object this very resource's (its label was removed, an older
    /// operator made it), or somebody else's?
    async fn look_whose(
        &self,
        resource: &Resource,
        child: &Child,
        desired: Fingerprint,
    ) -> Outcome {
        let at = Location::of_child(child.kind, &resource.namespace, &child.name);
        let object = match self.caller.get(at).await {
            Ok(object) => object,
            Err(error) => {
                return Outcome {
                    error: Some(error),
                    ..Outcome::default()
                };
            }
        };
        let owner = Owner::of(&object);
        if owner
            .as_ref()
            .is_none_or(|owner| *owner.uid != *resource.uid)
        {
            let key = ObjectKey::new(&resource.namespace, &child.name);
            return blocked(taken(child.kind, &key, owner.as_ref()));
        }
        let manager = self.kind.field_manager;
        if fingerprint::of_observed(&object, manager).is_none()
            && let Some(patch) = takeover::patch(&object, manager, &resource.uid)
            && let Err(error) = self
                .caller
                .json_patch(at, Part::Object, manager, &patch)
                .await
        {
            return Outcome {
                error: Some(error),
                ..Outcome::default()
            };
        }
        let uid = object.pointer("/metadata/uid").and_then(Value::as_str);
        self.apply(resource, child, desired, uid).await
    }

    /// Makes us the only owner of a list of our own child in which others' items stand in the
    /// way of ours. False if there is nothing to absorb.
    async fn absorb_list(
        &self,
        resource: &Resource,
        child: &Child,
        ours: Option<&str>,
        field: &str,
    ) -> Result<bool, CallError> {
        if ours.is_none() {
            return Ok(false);
        }
        let at = Location::of_child(child.kind, &resource.namespace, &child.name);
        let object = self.caller.get(at).await?;
        let manager = self.kind.field_manager;
        let Some(patch) = takeover::absorb_list(&object, manager, field) else {
            return Ok(false);
        };
        self.caller
            .json_patch(at, Part::Object, manager, &patch)
            .await?;
        Ok(true)
    }

    /// Takes the answer to an apply into the cache, and remembers it if it is not what was sent.
    fn applied(&self, resource: &Resource, child: &Child, desired: Fingerprint, object: &Value) {
        let answered = self.children.put_written(child.kind, object);
        info!(
            controller = self.controller,
            namespace = resource.namespace,
            name = resource.name,
            child = ?child.kind,
            "applied"
        );
        let mut memories = self.memories();
        let memory = memory_of(&mut memories, resource);
        memory.rewritten.retain(|(kind, ..)| *kind != child.kind);
        if let Some(answered) = answered.filter(|answered| *answered != desired) {
            memory.rewritten.push((child.kind, desired, answered));
            drop(memories);
            self.metrics.rewritten(&self.controller, child.kind.name());
        }
    }

    fn is_rewritten(
        &self,
        resource: &Resource,
        child: &Child,
        desired: Fingerprint,
        observed: Fingerprint,
    ) -> bool {
        let memories = self.memories();
        let key = ObjectKey::new(&resource.namespace, &resource.name);
        memories.get(&key).is_some_and(|memory| {
            *memory.uid == *resource.uid
                && memory.rewritten.contains(&(child.kind, desired, observed))
        })
    }

    /// The one delete there is: a Service of ours that the spec no longer asks for.
    async fn delete_services_not_asked_for(
        &self,
        resource: &Resource,
        wanted: &[Child],
    ) -> Outcome {
        for service in self.children.services(&resource.uid) {
            let key = &service.meta.key;
            let asked_for =
                |child: &Child| child.kind == ChildKind::Service && child.name == key.name();
            if service.meta.deleting || wanted.iter().any(asked_for) {
                continue;
            }
            let at = Location::of_child(ChildKind::Service, key.namespace(), key.name());
            let uid = &service.meta.uid;
            match self
                .caller
                .delete(at, uid, service.meta.resource_version)
                .await
            {
                Ok(_) => info!(
                    controller = self.controller,
                    service = key.name(),
                    "deleted, no longer asked for"
                ),
                Err(error) if error.refusal().is_some_and(|refusal| refusal.code == 404) => {}
                Err(error) => {
                    return Outcome {
                        error: Some(error),
                        ..Outcome::default()
                    };
                }
            }
            self.children
                .claims
                .release(ChildKind::Service, key, &resource.uid);
        }
        Outcome::default()
    }

    /// Writes the status if it differs and has settled, or has differed for long enough.
    /// Returns how long to wait if not yet.
    async fn write_status(
        &self,
        lean: &LeanResource,
        resource: &Resource,
        problem: Option<Problem>,
    ) -> Result<Option<Duration>, CallError> {
        let mut observed = Observed {
            service: self.children.service(&resource.uid),
            problem,
            now: jiff::Timestamp::now()
                .strftime("%Y-%m-%dT%H:%M:%SZ")
                .to_string(),
            ..Observed::default()
        };
        if let Some((key, deployment)) = self.children.deployment(&resource.uid) {
            observed.pods = self.children.pods(&key);
            observed.deployment = Some(deployment);
        }
        let wanted = self.operator.status(resource, &self.settings, &observed);
        let wanted_json = serde_json::to_value(&wanted).unwrap_or_default();
        let wanted_text = wanted_json.to_string();
        if *wanted_text == *lean.status {
            self.status_is_written(resource);
            return Ok(None);
        }
        if let Some(wait) = self.status_differs(resource, observed) {
            return Ok(Some(wait));
        }
        let operations = json!([
            {"op": "test", "path": "/metadata/uid", "value": resource.uid},
            {"op": "add", "path": "/status", "value": wanted_json},
        ]);
        let at = self.location(lean);
        match self
            .caller
            .json_patch(at, Part::Status, self.kind.field_manager, &operations)
            .await
        {
            Ok(object) => {
                self.status_is_written(resource);
                if let Ok(written) = LeanResource::from_json(&object) {
                    self.resources.put_written(written);
                }
                self.tell(resource, &wanted).await;
                Ok(None)
            }
            // Gone, or a namesake: the watch tells the rest.
            Err(error)
                if error
                    .refusal()
                    .is_some_and(|refusal| refusal.code == 404 || is_failed_test(refusal)) =>
            {
                debug!(controller = self.controller, %error, "the resource is gone");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Notes that the status differs; returns how long its write still has to wait.
    fn status_differs(&self, resource: &Resource, observed: Observed) -> Option<Duration> {
        let mut memories = self.memories();
        let memory = memory_of(&mut memories, resource);
        let pending = memory
            .pending
            .get_or_insert_with(|| PendingStatus::new(Instant::now()));
        pending.wait(observed, Instant::now())
    }

    fn status_is_written(&self, resource: &Resource) {
        let mut memories = self.memories();
        let key = ObjectKey::new(&resource.namespace, &resource.name);
        if let Some(memory) = memories.get_mut(&key) {
            memory.pending = None;
            if memory.rewritten.is_empty() {
                memories.remove(&key);
            }
        }
    }

    /// One line in the log for each transition, and an Event for those that want a human.
    async fn tell(&self, resource: &Resource, wanted: &Status) {
        let (before, after) = (
            status::condition(&resource.status, status::READY),
            status::condition(wanted, status::READY),
        );
        let summary = |condition: Option<&crate::api::Condition>| {
            condition.map(|condition| (condition.status.clone(), condition.reason.clone()))
        };
        if let Some(ready) = after.filter(|_| summary(before) != summary(after)) {
            info!(
                controller = self.controller,
                namespace = resource.namespace,
                name = resource.name,
                ready = ready.status,
                reason = ready.reason,
                message = ready.message,
                "status"
            );
        }
        let degraded = |of: &Status| {
            let condition = status::condition(of, status::DEGRADED)
                .filter(|condition| condition.status == "True");
            condition.map(|condition| (condition.reason.clone(), condition.message.clone()))
        };
        let (before, after) = (degraded(&resource.status), degraded(wanted));
        let Some((reason, note)) = after else { return };
        if before.is_none_or(|(before, _)| before != reason) {
            let published = event::publish(&self.caller, self.kind, resource, &reason, &note).await;
            if let Err(error) = published {
                warn!(controller = self.controller, %error, "the Event was not written");
            }
        }
    }

    /// Finalizers that an older operator left: nobody else would ever remove them.
    async fn strip_legacy_finalizers(&self, lean: &LeanResource) -> Result<(), CallError> {
        let legacy = |finalizer: &str| self.kind.legacy_finalizers.contains(&finalizer);
        if !lean.finalizers.iter().any(|finalizer| legacy(finalizer)) {
            return Ok(());
        }
        let kept: Vec<_> = lean
            .finalizers
            .iter()
            .filter(|finalizer| !legacy(finalizer))
            .collect();
        let operations = json!([
            {"op": "test", "path": "/metadata/uid", "value": lean.meta.uid},
            {"op": "test", "path": "/metadata/finalizers", "value": lean.finalizers},
            {"op": "replace", "path": "/metadata/finalizers", "value": kept},
        ]);
        let at = self.location(lean);
        match self
            .caller
            .json_patch(at, Part::Object, self.kind.field_manager, &operations)
            .await
        {
            Ok(_) => Ok(()),
            Err(error) if error.refusal().is_some_and(|refusal| refusal.code == 404) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn location<'a>(&'a self, lean: &'a LeanResource) -> Location<'a> {
        Location {
            api: &self.api,
            plural: self.kind.plural,
            namespace: lean.meta.key.namespace(),
            name: lean.meta.key.name(),
        }
    }

    fn memories(&self) -> MutexGuard<'_, HashMap<ObjectKey, Memory>> {
        // Each critical section leaves the map valid at every step.
        self.memories.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn memory_of<'a>(
    memories: &'a mut HashMap<ObjectKey, Memory>,
    resource: &Resource,
) -> &'a mut Memory {
    let key = ObjectKey::new(&resource.namespace, &resource.name);
    let memory = memories.entry(key).or_default();
    if *memory.uid != *resource.uid {
        *memory = Memory {
            uid: resource.uid.as_str().into(),
            ..Memory::default()
        };
    }
    memory
}

fn blocked(problem: Problem) -> Outcome {
    let retry = BLOCKED_RETRY.mul_f64(0.8 + 0.4 * fastrand::f64());
    Outcome {
        problem: Some(problem),
        retry: Some(retry),
        ..Outcome::default()
    }
}

/// The body, meant for the object with this uid and no other of its name.
fn with_uid(body: &Value, uid: &str) -> Value {
    let mut body = body.clone();
    if let Some(Value::Object(metadata)) = body.get_mut("metadata") {
        metadata.insert("uid".to_owned(), uid.into());
    }
    body
}

/// A `test` operation of a JSON patch did not hold.
fn is_failed_test(refusal: &kube::core::Status) -> bool {
    refusal.code == 422 && refusal.message.contains("testing path")
}
