//! API servers that several tests use: some at the same time, with CRDs of one form; others one
//! after the other, with CRDs and webhooks that the test changes.

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use devcluster::Cluster;
use futures::future::LocalBoxFuture;
use quartet_operator::kinds::memcached;
use quartet_operator::packaging::{self, kinds};
use quartet_versions::Kind;
use serde_json::json;
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::environment::{Form, NO_LIMIT, TestEnv, collection, crd_path, list_path, object};
use crate::full_annotations::store_full;
use crate::webhook_server::WebhookServer;

const MEMCACHED: &Kind = &memcached::KIND;

/// Stores objects before any webhook is registered.
type Store = fn(&TestEnv) -> LocalBoxFuture<'_, ()>;

/// A cluster that several tests share, each with unique object names: the CRDs have one form, and
/// the webhooks are called for every write.
pub(crate) struct Shared {
    form: Form,
    max_replicas: u32,
    store: Option<Store>,
    /// The runtime of the webhook server outlives that of a test.
    begun: OnceLock<(Arc<Cluster>, Arc<WebhookServer>, Runtime)>,
}

/// For tests that write objects and count nothing.
pub(crate) static BOTH_VERSIONS: Shared = Shared::new(
    packaging::both_versions,
    NO_LIMIT,
    Some(|env| Box::pin(store_full(env))),
);

impl Shared {
    pub(crate) const fn new(form: Form, max_replicas: u32, store: Option<Store>) -> Self {
        let begun = OnceLock::new();
        Self {
            form,
            max_replicas,
            store,
            begun,
        }
    }

    pub(crate) async fn test_env(&'static self) -> TestEnv {
        let began = || {
            let (cluster, webhooks, _) = self.begun.get_or_init(|| self.begin());
            (Arc::clone(cluster), Arc::clone(webhooks))
        };
        let (cluster, webhooks) = tokio::task::spawn_blocking(began).await.expect("begun");
        TestEnv::of(cluster, webhooks).await
    }

    fn begin(&self) -> (Arc<Cluster>, Arc<WebhookServer>, Runtime) {
        let runtime = Runtime::new().expect("a runtime");
        let env = runtime.block_on(async {
            let env = TestEnv::with(self.max_replicas).await;
            env.apply_crds(self.form).await;
            if let Some(store) = self.store {
                store(&env).await;
            }
            env.register_webhooks().await;
            env
        });
        (env.cluster, env.webhooks, runtime)
    }
}

/// As many as run at a time by default on two processors.
static TURNS: Semaphore = Semaphore::const_new(2);
/// API servers that no test uses at the moment.
static FREE: Mutex<Vec<Arc<Cluster>>> = Mutex::new(Vec::new());

fn free() -> MutexGuard<'static, Vec<Arc<Cluster>>> {
    FREE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An API server that one test uses, without CRDs and webhooks at first. The test applies the
/// CRDs of all kinds and keeps the name of a namespace to itself: no controller deletes namespaces. It
/// dereferences to [`TestEnv`].
pub(crate) struct Exclusive {
    env: TestEnv,
    _turn: SemaphorePermit<'static>,
}

impl Exclusive {
    pub(crate) async fn test_env() -> Self {
        let turn = TURNS.acquire().await.expect("open");
        let used = free().pop();
        let env = match used {
            Some(cluster) => {
                let webhooks = Arc::new(WebhookServer::start(NO_LIMIT).await);
                let env = TestEnv::of(cluster, webhooks).await;
                reset(&env).await;
                env
            }
            None => TestEnv::with_api_server().await,
        };
        Self { env, _turn: turn }
    }
}

impl Deref for Exclusive {
    type Target = TestEnv;

    fn deref(&self) -> &TestEnv {
        &self.env
    }
}

impl Drop for Exclusive {
    /// A failed test may leave anything behind, so its API server has no other test.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            free().push(Arc::clone(&self.env.cluster));
        }
    }
}

/// Removes the CRDs with all their objects, and the webhooks, whose server is gone with its test.
async fn reset(env: &TestEnv) {
    env.remove_webhooks().await;
    // Accepted when the API server no longer calls them.
    let target = collection(MEMCACHED, &MEMCACHED.spoke, "default");
    let memcached = object(MEMCACHED, &MEMCACHED.spoke, "reset", json!({"size": 1}));
    env.until_created(&format!("{target}?dryRun=All"), &memcached)
        .await;
    // The first list after a change of a CRD may be answered with 429. A deletion that gets this answer is
    // repeated only after five minutes (apiextensions-apiserver, pkg/controller/finalizer).
    for kind in kinds() {
        for version in [&kind.spoke, &kind.hub] {
            env.until(&list_path(kind, version), "open", |_| true).await;
        }
    }
    for kind in kinds() {
        env.delete(&crd_path(kind)).await.expect("deleted");
    }
    for kind in kinds() {
        env.until_gone(&crd_path(kind)).await;
        // The handler and discovery follow a moment later.
        for version in [&kind.spoke, &kind.hub] {
            env.until_gone(&list_path(kind, version)).await;
            let group = format!("/apis/{}", kind.api_version(version));
            env.until_gone(&group).await;
        }
    }
    // kubectl remembers which kinds were served.
    let _ = std::fs::remove_dir_all(env.cluster.dir().join("kubectl-cache"));
}
