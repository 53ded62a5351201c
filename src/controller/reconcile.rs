//! One resource, once: its children are made as its operator wants them, and its status tells
//! what is observed. Level-triggered: nothing depends on which event woke it. Knows no kind;
//! the kinds' pure functions come in as an [`Operator`].

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tracing::debug;

use super::apply::{Applier, Ensured, PATIENCE_WITH_WRITES, Setback};
use super::call::{CallError, Caller, Location, Part};
use super::children::Children;
use super::event::Recorder;
use super::lean::LeanResource;
use super::legacy_finalizers;
use super::memory::{Memories, until_next_look};
use super::metrics::Metrics;
use super::object::ObjectKey;
use super::pacing::Pacer;
use super::report::Reporter;
use super::store::Store;
use crate::api::conversion::{self, DATA_ANNOTATION};
use crate::api::{Kind, Version};
#[cfg(test)]
use crate::explorer::twins::{self, Twin};
use crate::operators::{Child, Operator, Problem, Reason, Refused, Resource, Settings, status};

/// How long to wait for a cache that is behind, if no event comes.
const STALE_RETRY: Duration = Duration::from_secs(1);

/// When to look at the resource again without a new event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Not before something changes.
    Rest,
    /// After this time.
    After(Duration),
    /// Not before this time, which the API server asked for: nothing was done.
    Held(Duration),
}

/// A reconcile failed, and is tried again by the back-off.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub(crate) struct Failure {
    /// The cause.
    #[source]
    pub(crate) error: CallError,
    /// When to look again at the latest, however long the back-off.
    pub(crate) look_again: Option<Duration>,
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        Failure {
            error,
            look_again: None,
        }
    }
}

impl Next {
    fn after(delay: Option<Duration>) -> Self {
        delay.map_or(Next::Rest, Next::After)
    }
}

/// What is told of the children, and what follows.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// What makes the resource degraded.
    pub(super) problem: Option<Problem>,
    /// Why the children are not confirmed, though it may pass.
    pub(super) unconfirmed: Option<Problem>,
    /// The cause of another try by the back-off.
    failure: Option<CallError>,
    /// When to look again without a new event.
    look_again: Option<Duration>,
}

impl Outcome {
    fn problem(problem: Problem) -> Self {
        Outcome {
            problem: Some(problem),
            ..Outcome::default()
        }
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
    children: Arc<Children>,
    pacer: Arc<Pacer>,
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
        (pacer, metrics): (Arc<Pacer>, Arc<Metrics>),
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
                (Arc::clone(&pacer), metrics),
            ),
            reporter: Reporter::new(
                operator,
                settings.clone(),
                (caller.clone(), recorder),
                Arc::clone(&resources),
                Arc::clone(&children),
                Arc::clone(&memories),
            ),
            children,
            pacer,
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

    /// From now on, no other manager writes. What this cannot find out now is found out when it
    /// matters.
    pub(crate) async fn begin(&self, namespace: &str) {
        if let Err(error) = self.applier.begin(namespace).await {
            debug!(controller = self.kind.controller_name(), %error, "the revision is not known yet");
        }
    }

    /// As [`Reconciler::begin`], without a request.
    #[cfg(test)]
    pub(super) fn begun_at(&self, revision: u64) {
        self.applier.begun_at(revision);
    }

    /// Makes the cluster hold what the resource asks for.
    ///
    /// # Errors
    /// What is worth another try by the back-off.
    pub(crate) async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Failure> {
        let Some(lean) = self.resources.get(key) else {
            return Ok(Next::Rest);
        };
        let uid = &lean.meta.uid;
        if let Some(left) = self.memories.held(key, uid) {
            return Ok(Next::Held(left));
        }
        let waited = self.pacer.reconcile_begins(key);
        let next = self.reconcile_as_read(&lean).await;
        let is_rolled_out = self.children.is_rolled_out(uid);
        self.pacer.reconcile_ended(key, waited, is_rolled_out);
        if let Some(asked) = next.as_ref().err().and_then(|it| it.error.retry_after()) {
            self.memories.hold(key, uid, asked);
        }
        // Its end may have been announced in the middle of this, before it claimed a name.
        if self
            .resources
            .get(key)
            .is_none_or(|now| now.meta.uid != lean.meta.uid)
        {
            self.forget(&lean);
            // Another of that name is announced by an event of its own.
            return next.map(|_| Next::Rest);
        }
        next
    }

    async fn reconcile_as_read(&self, lean: &LeanResource) -> Result<Next, Failure> {
        self.strip_legacy_finalizers(lean).await?;
        if lean.meta.deleting {
            // Owner references do the cleaning; a child made now would outlive its owner's
            // foreground deletion or hold it up.
            return Ok(Next::Rest);
        }
        let read: Value = serde_json::from_str(&lean.spec).unwrap_or_default();
        let version = self.version_of(lean);
        let resource = self.resource(lean, version, &read);
        let outcome = match self.desired(&resource, version, &read) {
            _ if resource.paused => Ok(Outcome::default()),
            Err(refused) => Ok(Outcome::problem(refused.problem())),
            Ok(children) => {
                let ensured = self.applier.ensure(&resource, &children).await;
                self.outcome(&resource, ensured)
            }
        };
        let mut outcome = match outcome {
            Ok(outcome) => outcome,
            Err(next) => return Ok(next),
        };
        if let Some(error) = outcome.failure.take_if(|error| error.is_fenced()) {
            return Err(error.into());
        }
        let api = format!("/apis/{}", resource.api_version);
        let at = self.location(lean, &api);
        let told = self.reporter.report(at, lean, &resource, &outcome).await;
        match (outcome.failure, told) {
            (Some(error), _) => Err(Failure {
                error,
                look_again: outcome.look_again,
            }),
            (None, Err(error)) => Err(error.into()),
            (None, Ok(settle)) => Ok(Next::after(
                [outcome.look_again, settle].into_iter().flatten().min(),
            )),
        }
    }

    /// What is told of the children, and what follows; `Err` if nothing is.
    fn outcome(
        &self,
        resource: &Resource,
        ensured: Result<Ensured, Setback>,
    ) -> Result<Outcome, Next> {
        let (problem, patience, failure, look_again) = match ensured {
            Ok(ensured) => {
                let is_confirmed = self.applier.is_confirmed(resource, &ensured.expected);
                let changed = || Problem {
                    reason: Reason::RollingOut,
                    message: status::CHILDREN_MISSING.to_owned(),
                };
                let unconfirmed = ensured
                    .unconfirmed
                    .or_else(|| (!is_confirmed).then(changed));
                let look_again = match is_confirmed {
                    true => ensured.look_again,
                    // An event that is on its way brings it back earlier.
                    false => Some(until_next_look()),
                };
                (unconfirmed, None, None, look_again)
            }
            Err(Setback::Blocked(problem, wait)) => {
                self.memories.unconfirmed(resource, None);
                return Ok(Outcome {
                    look_again: Some(wait),
                    ..Outcome::problem(problem)
                });
            }
            Err(Setback::Refused(problem, error)) => {
                self.memories.unconfirmed(resource, None);
                return Ok(Outcome {
                    failure: Some(error),
                    ..Outcome::problem(problem)
                });
            }
            Err(Setback::Pending {
                problem,
                patience,
                look_again,
            }) => (Some(problem), patience, None, Some(look_again)),
            #[cfg(test)]
            Err(Setback::Failed(error)) if twins::is(Twin::StatusAhead) => {
                return Ok(Outcome {
                    failure: Some(error),
                    ..Outcome::default()
                });
            }
            Err(Setback::Failed(error)) => {
                let problem = Problem {
                    reason: Reason::ApplyFailed,
                    message: error.to_string(),
                };
                (Some(problem), Some(PATIENCE_WITH_WRITES), Some(error), None)
            }
            Err(Setback::Stale) => return Err(Next::After(STALE_RETRY)),
            Err(Setback::ResourceGone) => return Err(Next::After(until_next_look())),
            Err(Setback::NamespaceEnding) => return Err(Next::Rest),
        };
        let reason = problem.as_ref().map(|problem| problem.reason);
        let lasted = self.memories.unconfirmed(resource, reason);
        let Some(patience) = patience else {
            return Ok(Outcome {
                unconfirmed: problem,
                failure,
                look_again,
                ..Outcome::default()
            });
        };
        // Another leader may have lost its patience already.
        let was_degraded =
            status::condition(&resource.status, status::DEGRADED).is_some_and(|it| {
                it.status == "True" && reason.is_some_and(|reason| it.reason == reason.as_str())
            });
        let left = patience
            .checked_sub(lasted)
            .filter(|left| !left.is_zero() && !was_degraded);
        let (problem, unconfirmed) = match left {
            Some(_) => (None, problem),
            None => (problem, None),
        };
        Ok(Outcome {
            problem,
            unconfirmed,
            failure,
            look_again: [look_again, left].into_iter().flatten().min(),
        })
    }

    /// The resource is gone: gives back the names it claimed and forgets it.
    pub(crate) fn forget(&self, resource: &LeanResource) {
        let (key, uid) = (&resource.meta.key, &resource.meta.uid);
        self.applier.release(key, uid);
        self.reporter.forget(key);
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
