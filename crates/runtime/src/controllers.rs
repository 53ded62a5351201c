//! All controllers of the process: shared informers of the children; and one informer, work queue and
//! set of workers per kind, connected by event handlers.
//!
//! All parts stop when one of them ends unexpectedly: a manager without one of them looks alive but
//! does nothing.

use std::collections::BTreeSet;
use std::future::ready;
use std::sync::Arc;

use futures::future::join;
use futures::{FutureExt as _, Stream, StreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::watcher::Event;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::cache::cached::{CachedPod, CachedResource};
use crate::cache::decode::{Received, WatchItem};
use crate::cache::informer::{self, Change, Informer, Synced};
use crate::cache::store::Store;
use crate::cache::stored_version;
use crate::children::Children;
use crate::clock::Clock;
use crate::event::{self, Recorder};
use crate::event_handlers::{EventHandlers, QueueHandle};
use crate::metrics::Metrics;
use crate::object::Object;
use crate::reconcile::worker::{self, Fenced};
use crate::reconcile::{Context, FirstRevision, Reconciler};
use quartet_http::{Caller, Leadership};
use quartet_versions::Brand;
use quartet_workload::names::MANAGED_BY_LABEL;
use quartet_workload::{ChildKind, DEPLOYMENT, Legacy, Operator, Settings, owned_by};

/// Configuration of the controllers.
pub struct Options {
    /// The client. It must not retry, and its read timeout must be longer than a watch may be silent, which is
    /// a minute (`WATCH_SECONDS` of the informers).
    pub client: kube::Client,
    /// The names that the operators share.
    pub brand: &'static Brand,
    /// The operators to run.
    pub operators: Vec<&'static dyn Operator>,
    /// The older operators whose objects are taken over.
    pub legacy: Legacy,
    /// Limits and operand images.
    pub settings: Settings,
    /// Maximum number of concurrent reconciles per kind; at least 1.
    pub workers: usize,
    /// Maximum number of concurrent rollouts of changed defaults per kind; 0 means no limit.
    pub max_concurrent_rollouts: usize,
    /// Reconcile only resources in these namespaces; all if empty. A single one is watched alone,
    /// without cluster-wide permissions; with several, the watches are cluster-wide, and resources in
    /// others are not cached.
    pub namespaces: BTreeSet<String>,
    /// The metrics of the process.
    pub metrics: Arc<Metrics>,
    /// The time of conditions and Events.
    pub clock: Clock,
    /// The workers start when this process leads. Caches and queues fill before.
    pub leadership: Leadership,
}

/// A part ended before the stop.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum ControllersError {
    /// It returned or was cancelled.
    #[error("{0} ended although nobody stopped it")]
    Ended(String),
    /// It panicked.
    #[error("a task of the controllers panicked: {0}")]
    Panicked(#[source] tokio::task::JoinError),
    /// [`Options::leadership`] was withdrawn.
    #[error(transparent)]
    Fenced(#[from] Fenced),
}

/// Runs the controllers until `stop` ends; then each running reconcile ends after its request. The
/// next leader, or the next start, reconciles every resource.
///
/// # Errors
/// When a part ends by itself.
pub async fn run(
    options: Options,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), ControllersError> {
    let owned = owned_by(&options.operators);
    let children = Arc::new(Children::new(options.brand, &options.operators));
    let operators = options.operators.iter();
    let controllers = operators.map(|it| QueueHandle::new(it.kind(), &options.metrics));
    let handlers = Arc::new(EventHandlers {
        controllers: controllers.collect(),
        children: Arc::clone(&children),
    });

    let caller = Caller::new(options.client.clone(), options.leadership.clone());
    let stopping = CancellationToken::new();
    let clock = Arc::clone(&options.clock);
    let (recorder, recorded) = Recorder::new(Arc::clone(&clock));
    let (mut informers, mut workers) = (JoinSet::new(), JoinSet::new());
    let events = event::write(recorded, caller.clone());
    informers.spawn(events.map(|()| "the writer of Events".to_owned()));
    let caller = caller.until(stopping.clone());
    // With cluster-wide permissions, any namespace works.
    let namespace = only_namespace(&options).unwrap_or("default");
    let context = Context {
        settings: options.settings.clone(),
        max_concurrent_rollouts: options.max_concurrent_rollouts,
        legacy: options.legacy,
        first_revision: Arc::new(FirstRevision::new(
            caller.clone(),
            owned.first().map_or(DEPLOYMENT, |owned| owned.kind),
            namespace,
        )),
        caller,
        recorder,
        clock,
        children,
        metrics: Arc::clone(&options.metrics),
    };
    let children_synced = watch_children(&options, &handlers, &mut informers);
    for (operator, controller) in options.operators.iter().zip(&handlers.controllers) {
        let name = operator.kind().controller_name();
        let reconciler = Arc::new(Reconciler::new(*operator, context.clone(), controller));
        let mut synced = children_synced.clone();
        synced.push(watch_resources(&options, controller, &mut informers));
        let metrics = &options.metrics;
        metrics.controller_started(&name, operator.owns(), options.workers);
        metrics.resources(&name, Arc::clone(&controller.resources));
        for _ in 0..options.workers {
            let name = name.clone();
            let begun = until_begun(synced.clone(), options.leadership.clone());
            let (queue, metrics) = (Arc::clone(&controller.queue), Arc::clone(&options.metrics));
            let (reconciler, stopping) = (Arc::clone(&reconciler), stopping.clone());
            let first_revision = Arc::clone(&context.first_revision);
            workers.spawn(async move {
                if stopping.run_until_cancelled(begun).await.is_none() {
                    return Ok(());
                }
                // Before all other requests. Workers wait for the answer only if a child is missing or
                // becomes ready.
                let read = stopping.run_until_cancelled(first_revision.read_once());
                let work = worker::work(name, queue, metrics, stopping.clone(), |key| {
                    let reconciler = Arc::clone(&reconciler);
                    async move { reconciler.reconcile(&key).await }
                });
                join(read, work).await.1
            });
        }
    }
    until_stopped(informers, workers, stopping, stop).await
}

/// Waits for `stop`, then for the running requests of the reconciles. `informers` also has the writer of Events;
/// `stopping` ends the workers, and their reconciles before the next request.
///
/// # Errors
/// A part ends earlier, or a worker panics.
async fn until_stopped(
    mut informers: JoinSet<String>,
    mut workers: JoinSet<Result<(), Fenced>>,
    stopping: CancellationToken,
    stop: impl Future<Output = ()>,
) -> Result<(), ControllersError> {
    let mut result = tokio::select! {
        Some(ended) = informers.join_next() => {
            Err(ended.map_or_else(ControllersError::Panicked, ControllersError::Ended))
        }
        Some(ended) = workers.join_next() => match ended {
            Ok(Err(fenced)) => return Err(fenced.into()),
            Ok(Ok(())) => Err(ControllersError::Ended("a worker".to_owned())),
            Err(panic) => Err(ControllersError::Panicked(panic)),
        },
        () = stop => Ok(()),
    };
    // The lease can be released when no reconcile runs. The election reports a loss of leadership.
    stopping.cancel();
    while let Some(ended) = workers.join_next().await {
        let ended = ended.map(|_| ()).map_err(ControllersError::Panicked);
        result = result.and(ended);
    }
    result
}

/// Completes when every informer has its first list, or has ended, and this process leads.
async fn until_begun(synced: Vec<Synced>, leadership: Leadership) {
    for mut synced in synced {
        // An error means that the informer has ended, which stops the process elsewhere, or that the
        // process is stopping.
        let _ = synced.wait_for(|synced| *synced).await;
    }
    leadership.elected().await;
}

/// Starts the shared informers of the children and of their pods.
fn watch_children(
    options: &Options,
    handlers: &Arc<EventHandlers>,
    informers: &mut JoinSet<String>,
) -> Vec<Synced> {
    let (children, namespace) = (&handlers.children, only_namespace(options));
    let brand = options.brand;
    let selector = format!("{MANAGED_BY_LABEL}={}", brand.name);
    let mut synced: Vec<Synced> = Vec::new();
    for &(kind, ref store) in children.stores() {
        let (handlers, children) = (Arc::clone(handlers), Arc::clone(children));
        let (client, resource) = (options.client.clone(), resource_of(kind));
        synced.push(inform(
            options,
            kind.kind,
            Arc::clone(store),
            informer::watch(client, &resource, Some(&selector), namespace),
            informers,
            move |received| children.reported(kind, received),
            move |change, _| handlers.child_changed(&change),
        ));
    }
    let (handlers, store) = (Arc::clone(handlers), Arc::clone(&children.pods));
    let (client, resource) = (options.client.clone(), ApiResource::erase::<Pod>(&()));
    synced.push(inform(
        options,
        &resource.kind,
        store,
        informer::watch(client, &resource, Some(brand.kind_label), namespace),
        informers,
        move |received| CachedPod::decode(brand, &received.object(&["managedFields", "spec"])?),
        move |change, _| handlers.pod_changed(&change),
    ));
    synced
}

/// A type of child, as a kube `ApiResource`.
fn resource_of(kind: ChildKind) -> ApiResource {
    let kind_of_api = GroupVersionKind::gvk(kind.group, kind.version, kind.kind);
    ApiResource::from_gvk_with_plural(&kind_of_api, kind.plural)
}

/// Starts the informer of a custom resource kind.
fn watch_resources(
    options: &Options,
    controller: &QueueHandle,
    informers: &mut JoinSet<String>,
) -> Synced {
    let (kind, store) = (controller.kind, Arc::clone(&controller.resources));
    let controller = controller.clone();
    let handler = move |change: Change<CachedResource>, is_first_list| {
        controller.resource_changed(&change, is_first_list);
    };
    let client = options.client.clone();
    let namespace = only_namespace(options);
    let stream = stored_version::watch(kind, client, namespace);
    let namespaces = options.namespaces.clone();
    let stream = stream.filter(move |event| ready(is_watched(event, &namespaces)));
    let decode = move |received: &Received| CachedResource::decode(kind, received);
    inform(
        options, kind.kind, store, stream, informers, decode, handler,
    )
}

/// Whether an event concerns a resource in `namespaces` (in any, if that is empty), or all resources. What
/// is not cached is not reconciled, whatever else names it.
fn is_watched(event: &WatchItem, namespaces: &BTreeSet<String>) -> bool {
    match event {
        Ok(Event::Apply(object) | Event::InitApply(object) | Event::Delete(object)) => {
            namespaces.is_empty() || namespaces.contains(object.key().namespace())
        }
        Ok(Event::Init | Event::InitDone) | Err(_) => true,
    }
}

/// Starts an informer.
fn inform<T: Object>(
    options: &Options,
    kind: &str,
    store: Arc<Store<T>>,
    stream: impl Stream<Item = WatchItem> + Send + 'static,
    informers: &mut JoinSet<String>,
    decode: impl Fn(&Received) -> Result<T, String> + Send + Sync + 'static,
    handler: impl FnMut(Change<T>, bool) + Send + 'static,
) -> Synced {
    let informer = Informer::new(kind, store, Arc::clone(&options.metrics));
    let synced = informer.synced();
    let running = informer.run(stream, decode, handler);
    informers.spawn(async move { format!("the watch of {}", running.await) });
    synced
}

/// The namespace to watch, if there is only one. With several, the watches are cluster-wide.
fn only_namespace(options: &Options) -> Option<&str> {
    match options.namespaces.iter().collect::<Vec<_>>().as_slice() {
        [one] => Some(one),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
