//! One resource, once: its children are made as its operator wants them, and its status tells
//! what is observed. Level-triggered: nothing depends on which event woke it. Knows no kind;
//! the kinds' pure functions come in as an [`Operator`].

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::apply::{Applier, Setback};
use super::call::{CallError, Caller, Location, Part};
use super::children::Children;
use super::event::Recorder;
use super::lean::LeanResource;
use super::legacy_finalizers;
use super::memory::Memories;
use super::metrics::Metrics;
use super::object::ObjectKey;
use super::report::Reporter;
use super::store::Store;
use crate::api::conversion::{self, DATA_ANNOTATION};
use crate::api::{Kind, Version};
use crate::operators::{Child, Operator, Refused, Resource, Settings};

/// When to look at the resource again without a new event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Not before something changes.
    Rest,
    /// After this time.
    After(Duration),
}

impl Next {
    fn after(delay: Option<Duration>) -> Self {
        delay.map_or(Next::Rest, Next::After)
    }
}

/// Reconciles the resources of one kind.
pub(crate) struct Reconciler {
    operator: &'static dyn Operator,
    kind: &'static Kind,
    settings: Settings,
    caller: Caller,
    resources: Arc<Store<LeanResource>>,
    memories: Arc<Memories>,
    applier: Applier,
    reporter: Reporter,
}

impl Reconciler {
    /// A reconciler of the resources that `resources` holds, each in the version in which it
    /// was read: there it is written, and so do its children name it.
    pub(crate) fn new(
        operator: &'static dyn Operator,
        settings: Settings,
        (caller, recorder): (Caller, Recorder),
        resources: Arc<Store<LeanResource>>,
        children: Arc<Children>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let kind = operator.kind();
        let memories = Arc::<Memories>::default();
        Reconciler {
            operator,
            kind,
            applier: Applier::new(
                kind,
                (caller.clone(), recorder.clone()),
                Arc::clone(&resources),
                Arc::clone(&children),
                Arc::clone(&memories),
                metrics,
            ),
            reporter: Reporter::new(
                operator,
                settings.clone(),
                (caller.clone(), recorder),
                Arc::clone(&resources),
                children,
                Arc::clone(&memories),
            ),
            settings,
            caller,
            resources,
            memories,
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
        let next = self.reconcile_as_read(&lean).await;
        // Its end may have been announced in the middle of this, before it claimed a name.
        if self
            .resources
            .get(key)
            .is_none_or(|now| now.meta.uid != lean.meta.uid)
        {
            self.forget(&lean);
        }
        next
    }

    async fn reconcile_as_read(&self, lean: &LeanResource) -> Result<Next, CallError> {
        self.strip_legacy_finalizers(lean).await?;
        if lean.meta.deleting {
            // Owner references do the cleaning; a child made now would outlive its owner's
            // foreground deletion or hold it up.
            return Ok(Next::Rest);
        }
        let read: Value = serde_json::from_str(&lean.spec).unwrap_or_default();
        let version = self.version_of(lean);
        let resource = self.resource(lean, version, &read);
        let (mut problem, mut retry, mut failure) = (None, None, None);
        if !resource.paused {
            match self.desired(&resource, version, &read) {
                Err(refused) => problem = Some(refused.problem()),
                Ok(children) => match self.applier.ensure(&resource, &children).await {
                    Ok(()) => {}
                    Err(Setback::Blocked(blocker, wait)) => {
                        problem = Some(blocker);
                        retry = Some(wait);
                    }
                    // The status tells of the rollout, and the Deployment wakes the resource.
                    Err(Setback::Waiting(wait)) => retry = Some(wait),
                    Err(Setback::Refused(refused, error)) => {
                        problem = Some(refused);
                        failure = Some(error);
                    }
                    Err(Setback::Failed(error)) => failure = Some(error),
                    Err(Setback::NamespaceEnding | Setback::ResourceGone) => return Ok(Next::Rest),
                },
            }
        }
        let api = format!("/apis/{}", resource.api_version);
        let at = self.location(lean, &api);
        let settle = self.reporter.report(at, lean, &resource, problem).await?;
        match failure {
            Some(error) => Err(error),
            None => Ok(Next::after([retry, settle].into_iter().flatten().min())),
        }
    }

    /// The resource is gone: gives back the names it claimed and forgets it.
    pub(crate) fn forget(&self, resource: &LeanResource) {
        let (key, uid) = (&resource.meta.key, &resource.meta.uid);
        self.applier.release(key, uid);
        self.memories.forget(key, uid);
    }

    /// The resource as the operators see it: the hub's spec, whatever was `read`.
    fn resource(&self, lean: &LeanResource, version: &Version, read: &Value) -> Resource {
        let annotations = lean
            .conversion_data
            .as_ref()
            .map(|data| json!({DATA_ANNOTATION: data}));
        Resource {
            namespace: lean.meta.key.namespace().to_owned(),
            name: lean.meta.key.name().to_owned(),
            uid: lean.meta.uid.clone().into(),
            generation: lean.meta.generation,
            api_version: self.kind.api_version(version),
            spec: conversion::hub_spec(self.kind, version, read, annotations.as_ref()),
            // An older operator may have stored what our type cannot hold; it is replaced.
            status: serde_json::from_str(&lean.status).unwrap_or_default(),
            paused: lean.paused,
        }
    }

    /// The children that the resource asks for. The spec is checked in the version that was
    /// read first, so that what is wrong is told in its words, and once more in the hub's.
    fn desired(
        &self,
        resource: &Resource,
        version: &Version,
        read: &Value,
    ) -> Result<Vec<Child>, Refused> {
        let errors = (version.validate)(read);
        if errors.is_empty() {
            self.operator.desired(resource, &self.settings)
        } else {
            Err(Refused::Invalid(errors))
        }
    }

    /// Finalizers that an older operator left: nobody else would ever remove them.
    async fn strip_legacy_finalizers(&self, lean: &LeanResource) -> Result<(), CallError> {
        let version = self.version_of(lean);
        let Some(operations) = legacy_finalizers::removal(self.kind, version, lean) else {
            return Ok(());
        };
        let manager = self.kind.field_manager;
        let api = format!("/apis/{}", self.kind.api_version(version));
        let at = self.location(lean, &api);
        match self
            .caller
            .json_patch(at, Part::Object, manager, &operations)
            .await
        {
            Ok(_) => Ok(()),
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The version in which the resource was read: one of ours, since no other is watched.
    fn version_of(&self, lean: &LeanResource) -> &'static Version {
        self.kind.version(lean.version).unwrap_or(&self.kind.seed)
    }

    fn location<'a>(&'a self, lean: &'a LeanResource, api: &'a str) -> Location<'a> {
        Location {
            api,
            plural: self.kind.plural,
            namespace: lean.meta.key.namespace(),
            name: lean.meta.key.name(),
        }
    }
}
