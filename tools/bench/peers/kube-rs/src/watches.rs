//! One watch of each kind of child, shared by the four controllers.
//!
//! Not `store_shared` and `owns_shared_stream`: these announce no deletes (kube-rs/kube#1590), so a Deployment that
//! somebody deletes would stay away. Each watch is read here instead, and routed to its owner's `reconcile_on`.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures::{Stream, StreamExt, TryStreamExt};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::{self, Store};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource, api::ObjectMeta, core::PartialObjectMeta};
use tokio::sync::oneshot;

use crate::children::{INSTANCE_LABEL, MANAGED_BY_LABEL, MANAGER, NAME_LABEL};

/// What a controller hears of its children.
pub struct Inbox {
    /// Namespace and name of a resource of which a child has changed.
    pub touched: UnboundedReceiver<(String, String)>,
    /// A watch began anew: something may have gone meanwhile, without an event that tells.
    pub relisted: UnboundedReceiver<()>,
    pub relist: UnboundedSender<()>,
}

/// The other ends of the inboxes, by `app.kubernetes.io/name`.
#[derive(Default)]
pub struct Routes(HashMap<&'static str, Outbox>);
type Outbox = (UnboundedSender<(String, String)>, UnboundedSender<()>);

impl Routes {
    pub fn add(&mut self, name: &'static str) -> Inbox {
        let ((touch, touched), (relist, relisted)) = (unbounded(), unbounded());
        self.0.insert(name, (touch, relist.clone()));
        Inbox {
            touched,
            relisted,
            relist,
        }
    }

    fn touched(&self, child: &ObjectMeta) {
        let Some((kind, namespace, instance)) = owner(child) else {
            return;
        };
        if let Some((touch, _)) = self.0.get(kind) {
            let _ = touch.unbounded_send((namespace.into(), instance.into()));
        }
    }

    fn relisted(&self) {
        self.0
            .values()
            .for_each(|(_, relist)| _ = relist.unbounded_send(()));
    }
}

/// Kind, namespace and name of the resource that a child belongs to. (A pod's owner reference names a ReplicaSet.)
fn owner(child: &ObjectMeta) -> Option<(&str, &str, &str)> {
    let labels = child.labels.as_ref()?;
    Some((
        labels.get(NAME_LABEL)?,
        child.namespace.as_deref()?,
        labels.get(INSTANCE_LABEL)?,
    ))
}

/// Names of the pods that are not going away, by owner: a `Store` has no index, and a scan of all pods at each
/// reconciliation is quadratic. The second map is a list in progress.
#[derive(Default)]
pub struct Pods(Mutex<(NamesByOwner, NamesByOwner)>);
type NamesByOwner = HashMap<String, BTreeSet<String>>;

impl Pods {
    pub fn of(&self, kind: &str, namespace: &str, name: &str) -> Vec<String> {
        let pods = self.0.lock().unwrap();
        pods.0
            .get(&format!("{kind}/{namespace}/{name}"))
            .into_iter()
            .flatten()
            .cloned()
            .collect()
    }

    /// False if the event says nothing new.
    fn update(&self, event: &Event<PartialObjectMeta<Pod>>) -> bool {
        let (live, listing) = &mut *self.0.lock().unwrap();
        let (pods, meta, deleted) = match event {
            Event::Apply(pod) => (
                live,
                &pod.metadata,
                pod.metadata.deletion_timestamp.is_some(),
            ),
            Event::Delete(pod) => (live, &pod.metadata, true),
            Event::InitApply(pod) => (
                listing,
                &pod.metadata,
                pod.metadata.deletion_timestamp.is_some(),
            ),
            Event::Init | Event::InitDone => {
                let listed = std::mem::take(listing);
                if let Event::InitDone = event {
                    *live = listed;
                }
                return true;
            }
        };
        let (Some((kind, namespace, instance)), Some(name)) = (owner(meta), &meta.name) else {
            return false;
        };
        let key = format!("{kind}/{namespace}/{instance}");
        if !deleted {
            return pods.entry(key).or_default().insert(name.clone());
        }
        let changed = pods.get_mut(&key).is_some_and(|names| names.remove(name));
        if changed && pods[&key].is_empty() {
            pods.remove(&key);
        }
        changed
    }
}

/// What the controllers share. Everything that is read is read here.
#[derive(Clone)]
pub struct Shared {
    pub client: Client,
    pub deployments: Store<Deployment>,
    pub services: Store<Service>,
    pub pods: Arc<Pods>,
}

/// Drops what nobody reads before it is stored.
pub fn slim<K: Resource>(object: &mut K) {
    let meta = object.meta_mut();
    (meta.managed_fields, meta.annotations) = (None, None);
}

/// Starts the three watches and returns when each has listed.
pub async fn start(client: Client, routes: Routes) -> anyhow::Result<Shared> {
    let routes = Arc::new(routes);
    let ours = watcher::Config::default().labels(&format!("{MANAGED_BY_LABEL}={MANAGER}"));
    let ((deployments, deployment_writer), (services, service_writer)) =
        (reflector::store(), reflector::store());
    let pods = Arc::<Pods>::default();
    let index = pods.clone();
    let deployment_events = watcher(Api::all(client.clone()), ours.clone())
        .default_backoff()
        .modify(slim);
    let service_events = watcher(Api::all(client.clone()), ours.clone())
        .default_backoff()
        .modify(slim);
    let pod_events =
        watcher(Api::<PartialObjectMeta<Pod>>::all(client.clone()), ours).default_backoff();
    tokio::try_join!(
        follow(deployment_events.reflect(deployment_writer), routes.clone()),
        follow(service_events.reflect(service_writer), routes.clone()),
        follow(
            pod_events.try_filter(move |event| std::future::ready(index.update(event))),
            routes
        ),
    )?;
    Ok(Shared {
        client,
        deployments,
        services,
        pods,
    })
}

/// Tells the owners of what changes; the answer comes when the first list is complete.
fn follow<C: Resource<DynamicType = ()>>(
    events: impl Stream<Item = watcher::Result<Event<C>>> + Send + 'static,
    routes: Arc<Routes>,
) -> oneshot::Receiver<()> {
    let (listed, is_listed) = oneshot::channel();
    let mut listed = Some(listed);
    tokio::spawn(events.for_each(move |event| {
        match event {
            Ok(Event::Apply(child) | Event::Delete(child)) => routes.touched(child.meta()),
            Ok(Event::InitDone) => match listed.take() {
                Some(listed) => _ = listed.send(()),
                None => routes.relisted(),
            },
            Ok(Event::Init | Event::InitApply(_)) => {}
            Err(error) => tracing::warn!(kind = %C::kind(&()), %error, "watch"),
        }
        std::future::ready(())
    }));
    is_listed
}
