//! All controllers of the process together: shared informers of the children, one informer,
//! work queue and set of workers per kind, and who is woken by which change.
//!
//! Any part that ends before it was asked to ends the whole, since a manager without one of
//! them looks alive and does nothing.

use std::sync::Arc;

use kube::core::ApiResource;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::info;

use super::call::Caller;
use super::children::Children;
use super::informer::{self, Change, Synced};
use super::lean::{ChildState, LeanChild, LeanPod, LeanResource, Owner};
use super::metrics::Metrics;
use super::queue::{Priority, Queue};
use super::reconcile::Reconciler;
use super::store::{Object, ObjectKey, Store};
use super::worker;
use crate::operators::{Operator, Settings};

/// Label that selects the children in the shared watches; every child and every pod has it.
const CHILD_SELECTOR: &str = "app.kubernetes.io/managed-by=quartet-operator";

/// What the controllers are started with.
pub struct Options {
    /// Client of all requests but watches; must not retry.
    pub client: kube::Client,
    /// Client of watches; must have no read timeout.
    pub watch_client: kube::Client,
    /// The operators to run.
    pub operators: Vec<&'static dyn Operator>,
    /// Limits and operand images.
    pub settings: Settings,
    /// Reconciles at once, per kind; at least 1.
    pub workers: usize,
    /// Only this namespace is watched; all if absent.
    pub namespace: Option<String>,
    /// Where everything is counted.
    pub metrics: Arc<Metrics>,
}

/// A part of the machinery ended that must not.
#[derive(Debug, thiserror::Error)]
pub enum ControllersError {
    /// It returned or was cancelled.
    #[error("{0} ended although nobody stopped it")]
    Ended(String),
    /// It panicked.
    #[error("a task of the controllers panicked: {0}")]
    Panicked(#[source] tokio::task::JoinError),
}

/// One kind's queue and cache, as far as waking it is concerned.
struct Controller {
    group: &'static str,
    kind: &'static str,
    queue: Arc<Queue<ObjectKey>>,
    resources: Arc<Store<LeanResource>>,
}

/// Whom a change of a child wakes.
struct Wakers {
    controllers: Vec<Controller>,
    children: Arc<Children>,
}

/// Runs the controllers until `stop` turns true; then the running reconciles are finished.
///
/// # Errors
/// When a part ends by itself.
pub async fn run(options: Options, mut stop: watch::Receiver<bool>) -> Result<(), ControllersError> {
    let children = Arc::new(Children::default());
    let controllers: Vec<Controller> = options
        .operators
        .iter()
        .map(|operator| {
            let kind = operator.kind();
            Controller {
                group: kind.group,
                kind: kind.kind,
                queue: Arc::new(Queue::new(&kind.controller_name(), &options.metrics)),
                resources: Arc::default(),
            }
        })
        .collect();
    let wakers = Arc::new(Wakers { controllers, children: Arc::clone(&children) });

    let mut tasks = JoinSet::new();
    let children_synced = watch_children(&options, &wakers, &mut tasks);
    for (operator, controller) in options.operators.iter().zip(&wakers.controllers) {
        let resource_synced = watch_resources(&options, *operator, controller, &children, &mut tasks);
        let mut synced = children_synced.clone();
        synced.push(resource_synced.synced);
        for worker in 0..options.workers {
            let name = format!("worker {worker} of {}", controller.kind);
            let (queue, metrics) = (Arc::clone(&controller.queue), Arc::clone(&options.metrics));
            let reconciler = Arc::clone(&resource_synced.reconciler);
            let synced = synced.clone();
            let controller = operator.kind().controller_name();
            tasks.spawn(async move {
                for mut synced in synced {
                    if synced.wait_for(|synced| *synced).await.is_err() {
                        return name;
                    }
                }
                worker::work(controller, queue, metrics, |key| {
                    let reconciler = Arc::clone(&reconciler);
                    async move { reconciler.reconcile(&key).await }
                })
                .await;
                name
            });
        }
    }

    let stopped = async {
        // A sender that is gone stops the controllers, too.
        let _ = stop.wait_for(|stop| *stop).await;
    };
    tokio::select! {
        ended = tasks.join_next() => Err(match ended {
            Some(Ok(name)) => ControllersError::Ended(name),
            Some(Err(panic)) => ControllersError::Panicked(panic),
            None => ControllersError::Ended("every controller".to_owned()),
        }),
        () = stopped => {
            for controller in &wakers.controllers {
                controller.queue.shut_down();
            }
            let workers = options.workers * options.operators.len();
            finish(&mut tasks, workers).await
        }
    }
}

/// Waits for the workers to finish what they are at; informers are cut off when the set drops.
async fn finish(tasks: &mut JoinSet<String>, workers: usize) -> Result<(), ControllersError> {
    for _ in 0..workers {
        if let Some(Err(panic)) = tasks.join_next().await {
            return Err(ControllersError::Panicked(panic));
        }
    }
    info!("every reconcile is finished");
    Ok(())
}

impl Wakers {
    /// The owner of a child, if it still is the one that the child names.
    fn wake_owner(&self, namespace: &str, owner: &Owner) {
        let of_kind = |controller: &&Controller| {
            *owner.kind == *controller.kind && *owner.group == *controller.group
        };
        let Some(controller) = self.controllers.iter().find(of_kind) else { return };
        let key = ObjectKey::new(namespace, &owner.name);
        let resource = controller.resources.get(&key);
        if resource.is_some_and(|resource| resource.meta.uid == owner.uid) {
            controller.queue.add(key, Priority::Normal);
        }
    }

    /// Every resource that may want a child of this name: it became free, or its owner changed.
    fn wake_namesakes(&self, child: &ObjectKey) {
        for controller in &self.controllers {
            if controller.resources.get(child).is_some() {
                controller.queue.add(child.clone(), Priority::Normal);
            }
        }
    }

    fn child_changed<S: ChildState>(&self, change: &Change<LeanChild<S>>) {
        let (before, after) = (change.old(), change.new());
        if let (Some(before), Some(after)) = (before, after)
            && before.is_as(after)
        {
            return;
        }
        for child in [before, after].into_iter().flatten() {
            if let Some(owner) = &child.owner {
                self.wake_owner(child.meta.key.namespace(), owner);
            }
        }
        let owner_of = |child: Option<&LeanChild<S>>| child.and_then(|child| child.owner.clone());
        if before.is_some() && owner_of(before) != owner_of(after) {
            if let Some(child) = before {
                self.wake_namesakes(&child.meta.key);
            }
        }
    }

    fn pod_changed(&self, change: &Change<LeanPod>) {
        let (before, after) = (change.old(), change.new());
        if let (Some(before), Some(after)) = (before, after)
            && (before.live, before.ready, &before.deployment) == (after.live, after.ready, &after.deployment)
        {
            return;
        }
        for pod in [before, after].into_iter().flatten() {
            let Some((_, deployment)) = pod.deployment.as_deref().and_then(|index| index.split_once('/')) else {
                continue;
            };
            let key = ObjectKey::new(pod.meta.key.namespace(), deployment);
            if let Some(deployment) = self.children.deployments.get(&key)
                && let Some(owner) = &deployment.owner
            {
                self.wake_owner(key.namespace(), owner);
            }
        }
    }
}
