//! The resources that are created: a quarter of each kind, in ten namespaces, by a client
//! that is not the manager's. Tells when all of them are Ready.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use hyper::header::{HeaderValue, USER_AGENT};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::Result;
use crate::audit::FLEET;
use crate::promises::Load;

const NAMESPACES: u32 = 10;

/// Creations under way at a time: more than the manager's workers, so that there always is
/// something for them to do, and few enough to leave the API server to them.
const CONCURRENCY: usize = 8;

/// How long a changed Deployment stays as it is before the next is changed.
const PAUSE: Duration = Duration::from_millis(15);

/// The first port of a cluster's default range.
const FIRST_NODE_PORT: u32 = 30_000;

/// Group, version, kind and plural.
struct Kind(&'static str, &'static str, &'static str, &'static str);

const KINDS: [Kind; 4] = [
    Kind("cache.example.com", "v1alpha1", "Memcached", "memcacheds"),
    Kind("proxy.example.com", "v1alpha1", "Nginx", "nginxes"),
    Kind("elasticweb.example.com", "v1", "ElasticWeb", "elasticwebs"),
    Kind("test.jiaozi.com", "v1alpha1", "HelloWorld", "helloworlds"),
];

impl Kind {
    fn resource(&self) -> ApiResource {
        let Self(group, version, kind, plural) = self;
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
    }

    fn spec(&self, number: u32, pods: u32) -> Value {
        match self.2 {
            "Nginx" => json!({"count": pods}),
            "ElasticWeb" => json!({
                "image": "nginx:1.17.1",
                "port": FIRST_NODE_PORT + number / 4,
                "singlePodsQPS": 100,
                "totalQPS": 100 * pods,
            }),
            _ => json!({"size": pods}),
        }
    }
}

/// A client of our own, and what it is to create.
pub(crate) struct Fleet {
    client: Client,
    load: Load,
}

impl Fleet {
    /// What `load` says, in the cluster of `kubeconfig`.
    pub(crate) async fn new(kubeconfig: &Path, load: Load) -> Result<Self> {
        let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
        let mut config =
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        let agent = (USER_AGENT, HeaderValue::from_static(FLEET));
        config.headers.push(agent);
        let client = Client::try_from(config)?;
        Ok(Self { client, load })
    }

    /// Creates the namespaces.
    pub(crate) async fn prepare(&self) -> Result<()> {
        let api: Api<Namespace> = Api::all(self.client.clone());
        for number in 0..NAMESPACES {
            let mut object = Namespace::default();
            object.metadata.name = Some(namespace(number));
            api.create(&PostParams::default(), &object).await?;
        }
        Ok(())
    }

    /// Creates everything. Returns how long it took until all was Ready.
    pub(crate) async fn create(&self, limit: Duration) -> Result<Duration> {
        let began = Instant::now();
        let creation = stream::iter((0..self.load.resources).map(Ok))
            .try_for_each_concurrent(CONCURRENCY, |number| self.create_one(number));
        let both = futures::future::try_join(creation, self.until_ready());
        let late = |_| format!("not all resources are Ready within {limit:?}");
        timeout(limit, both).await.map_err(late)??;
        Ok(began.elapsed())
    }

    async fn create_one(&self, number: u32) -> Result<()> {
        let kind = &KINDS[number as usize % KINDS.len()];
        let name = format!("r{number}");
        let namespace = namespace(number % NAMESPACES);
        let resource = kind.resource();
        let mut object = DynamicObject::new(&name, &resource);
        object.data = json!({"spec": kind.spec(number, self.load.pods)});
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &namespace, &resource);
        let created = api.create(&PostParams::default(), &object).await;
        created.map_err(|error| format!("creating {name}: {error}"))?;
        Ok(())
    }

    /// Changes a label of the Deployment of one resource of each kind, in turns. Never ends.
    pub(crate) async fn disturb(self: Arc<Self>) {
        for turn in 0_u64.. {
            let number = (turn % KINDS.len() as u64) as u32;
            let namespace = namespace(number % NAMESPACES);
            let api: Api<Deployment> = Api::namespaced(self.client.clone(), &namespace);
            let labels = json!({"app.kubernetes.io/name": format!("turn-{turn}")});
            let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
            let name = format!("r{number}");
            if let Err(error) = api.patch(&name, &PatchParams::default(), &patch).await {
                eprintln!("bench: changing the Deployment {name}: {error}");
            }
            sleep(PAUSE).await;
        }
    }

    /// Follows all four kinds until as many resources as there should be are Ready.
    async fn until_ready(&self) -> Result<()> {
        let watches = KINDS.iter().map(|kind| {
            let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &kind.resource());
            watcher(api, watcher::Config::default()).boxed()
        });
        let mut events = stream::select_all(watches);
        let mut ready = HashSet::new();
        while ready.len() < self.load.resources as usize {
            match events.next().await {
                Some(Ok(Event::Apply(object) | Event::InitApply(object))) => {
                    let key = object.metadata.uid.clone().unwrap_or_default();
                    if is_ready(&object) {
                        ready.insert(key);
                    } else {
                        ready.remove(&key);
                    }
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => eprintln!("bench: {error}"),
                None => break,
            }
        }
        Ok(())
    }
}

fn namespace(number: u32) -> String {
    format!("bench-{number}")
}

fn is_ready(object: &DynamicObject) -> bool {
    let conditions = object.data.pointer("/status/conditions");
    let ready = conditions
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
    let generation = object.data.pointer("/status/observedGeneration");
    ready && generation.and_then(Value::as_i64) == object.metadata.generation
}
