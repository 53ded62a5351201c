//! Many resources behind one manager and one proxy, in one namespace: a cache of what is stored,
//! fed by watches, so that hundreds of plans may wait without asking; and a manager that is
//! started again whenever it ends, as the kubelet does it.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use faultproxy::{Callback, Proxy};
use futures::StreamExt as _;
use kube::api::DynamicObject;
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use serde_json::Value;
use tokio::task::JoinSet;

use super::TOGETHER;
use super::life::{KINDS, Stored};
use crate::oracle::process::{Process, Seen};
use crate::oracle::status::Statuses;
use crate::rig::{CONTROLLERS, STRANGER, WATCHED, stranger};
use testkit::Manager;
use testkit::{DEADLINE, DEPLOYMENT, Kind, Limit, NAMESPACE, SERVICE, TestEnv};

/// How often it is looked whether something is so, which asks nobody.
pub(crate) const POLL: Duration = Duration::from_millis(100);

/// See the top of this file.
pub(crate) struct Fleet {
    pub(crate) stage: TestEnv,
    pub(crate) proxy: Proxy,
    pub(crate) statuses: Statuses,
    /// A Deployment of somebody else, as it was in the beginning.
    pub(crate) stranger: Value,
    cache: Cache,
    managers: Mutex<Managers>,
    /// Plans may kill the manager.
    may_end: bool,
    /// The process that a plan may kill; zero while none runs.
    id: Arc<AtomicU32>,
    _watching: JoinSet<()>,
}

/// The manager that runs, and those that have ended.
#[derive(Default)]
struct Managers {
    running: Option<Manager>,
    starts: u32,
    /// Their exit codes, and whether they were to end.
    ends: Vec<(Option<i32>, bool)>,
    logs: String,
    baseline: Option<Process>,
}

type Cache = Arc<Mutex<HashMap<(&'static str, String), Value>>>;

impl Fleet {
    /// A manager at rest, without resources.
    pub(crate) async fn set(name: &str, seed: u64, may_end: bool) -> Self {
        let stage = TestEnv::without_manager(name).await;
        let kubeconfig = kube::config::Kubeconfig::read_from(stage.kubeconfig());
        let proxy = Proxy::start(kubeconfig.expect("a kubeconfig")).await;
        let proxy = proxy.expect("a proxy");
        proxy.seed(seed);
        let cache = Cache::default();
        let mut watching = JoinSet::new();
        for kind in KINDS.into_iter().chain([DEPLOYMENT, SERVICE]) {
            let (client, namespace) = (stage.api.client.clone(), stage.namespace.clone());
            watching.spawn(follow(client, namespace, kind, Arc::clone(&cache)));
        }
        let fleet = Fleet {
            statuses: Statuses::watch(&stage.api.client, &stage.namespace),
            stranger: stranger(&stage).await,
            stage,
            proxy,
            cache,
            managers: Mutex::default(),
            may_end,
            id: Arc::default(),
            _watching: watching,
        };
        fleet.start(&mut fleet.managers());
        fleet.until_watching().await;
        let id = fleet.id.load(Ordering::SeqCst);
        fleet.managers().baseline = Some(Process::of(id));
        fleet
    }

    fn managers(&self) -> MutexGuard<'_, Managers> {
        self.managers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self, managers: &mut Managers) {
        managers.starts += 1;
        let namespace = &self.stage.namespace;
        let user = format!("{namespace}-{}", managers.starts);
        let config = self.proxy.kubeconfig(&user, &["system:masters"]);
        let file = std::env::temp_dir().join(format!("{user}.kubeconfig"));
        std::fs::write(&file, config.to_string()).expect("written");
        let flags = [
            format!("--watch-namespace={namespace}"),
            CONTROLLERS.to_owned(),
            // A call without an answer keeps a worker from the other plans for ten seconds.
            format!("--max-concurrent-reconciles={TOGETHER}"),
        ];
        let manager = Manager::start(&file, &flags);
        self.id.store(manager.id(), Ordering::SeqCst);
        managers.running = Some(manager);
    }

    /// Waits until the manager that runs watches everything. It may be killed meanwhile: by a plan whose request
    /// was on its way.
    pub(crate) async fn until_watching(&self) {
        let mut limit = Limit::new(DEADLINE);
        loop {
            self.keep_running();
            let user = format!("{}-{}", self.stage.namespace, self.managers().starts);
            let journal = self.proxy.journal();
            let watches = |resource: &str| {
                journal.requests.iter().any(|entry| {
                    entry.user == user
                        && entry.target.verb == "watch"
                        && entry.target.resource == *resource
                        && entry.answered == Some(200)
                })
            };
            if WATCHED.iter().all(|it| watches(it)) {
                return;
            }
            limit.pause(|| format!("no watches:\n{}", self.log())).await;
        }
    }

    /// What all managers have written.
    pub(crate) fn log(&self) -> String {
        let managers = self.managers();
        let running = managers.running.as_ref().map(Manager::log);
        format!("{}{}", managers.logs, running.unwrap_or_default())
    }

    /// Starts the manager again if it has ended, as the kubelet does.
    pub(crate) fn keep_running(&self) {
        let mut managers = self.managers();
        let Some(manager) = managers.running.as_mut() else {
            return;
        };
        if manager.runs() {
            return;
        }
        let (code, log) = (manager.code(), manager.log());
        managers.ends.push((code, self.may_end));
        managers.logs += &log;
        self.start(&mut managers);
    }

    /// Kills the manager, and starts the next.
    pub(crate) fn restart(&self) {
        let mut managers = self.managers();
        if let Some(mut manager) = managers.running.take() {
            managers.logs += &manager.log();
            manager.kill();
        }
        managers.ends.push((None, self.may_end));
        self.start(&mut managers);
    }

    /// How many managers have ended.
    pub(crate) fn ended(&self) -> usize {
        self.managers().ends.len()
    }

    /// A function that kills the manager that runs when it is called.
    pub(crate) fn killer(&self) -> Callback {
        let id = Arc::clone(&self.id);
        Callback::new(move || {
            let id = id.swap(0, Ordering::SeqCst);
            if id != 0 {
                let _ = std::process::Command::new("kill")
                    .args(["-KILL", &id.to_string()])
                    .status();
            }
        })
    }

    /// What is stored now of the resource of this name and its children.
    pub(crate) fn stored(&self, kind: Kind, name: &str) -> Stored {
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let find = |plural: &'static str| cache.get(&(plural, name.to_owned())).cloned();
        Stored {
            resource: find(kind.plural),
            deployment: find(DEPLOYMENT.plural),
            service: find(SERVICE.plural),
        }
    }

    /// What became of the managers, for O9.
    pub(crate) fn seen(&self, may_grow: bool) -> Seen {
        let log = self.log();
        let mut managers = self.managers();
        let runs = managers.running.as_mut().is_some_and(Manager::runs);
        let id = self.id.load(Ordering::SeqCst);
        Seen {
            log,
            ends: managers.ends.clone(),
            now: runs.then(|| Process::of(id)),
            before: managers.baseline,
            may_grow,
        }
    }

    /// The stranger's Deployment now.
    pub(crate) async fn stranger_now(&self) -> Value {
        let found = self.stage.get(DEPLOYMENT, STRANGER).await;
        found.unwrap_or_default()
    }

    /// Stops the manager as Kubernetes does, and gives the namespace back.
    pub(crate) async fn stop(&self) {
        let manager = self.managers().running.take();
        if let Some(manager) = manager {
            let stopping = tokio::task::spawn_blocking(|| manager.stop());
            stopping.await.expect("no panic");
        }
        let namespace = self.stage.namespace.clone();
        for start in 1..=self.managers().starts {
            let file = format!("{namespace}-{start}.kubeconfig");
            let _ = std::fs::remove_file(std::env::temp_dir().join(file));
        }
        self.stage.delete(NAMESPACE, &namespace).await;
    }
}

async fn follow(client: Client, namespace: String, kind: Kind, cache: Cache) {
    let (group, version) = kind
        .api_version
        .split_once('/')
        .unwrap_or(("", kind.api_version));
    let of = GroupVersionKind::gvk(group, version, kind.kind);
    let resource = ApiResource::from_gvk_with_plural(&of, kind.plural);
    let api: Api<DynamicObject> = Api::namespaced_with(client, &namespace, &resource);
    let mut events = pin!(watcher(api, watcher::Config::default()).default_backoff());
    while let Some(event) = events.next().await {
        let mut cache = cache.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Ok(Event::Apply(object) | Event::InitApply(object)) => {
                let name = object.metadata.name.clone().unwrap_or_default();
                let object = serde_json::to_value(object).expect("JSON");
                cache.insert((kind.plural, name), object);
            }
            Ok(Event::Delete(object)) => {
                let name = object.metadata.name.unwrap_or_default();
                cache.remove(&(kind.plural, name));
            }
            Ok(Event::Init) => cache.retain(|(plural, _), _| *plural != kind.plural),
            Ok(Event::InitDone) | Err(_) => {}
        }
    }
}
