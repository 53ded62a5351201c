//! API servers that several tests use at the same time, with CRDs of one form.

use std::sync::{Arc, OnceLock};

use devcluster::Cluster;
use quartet_operator::packaging;
use tokio::runtime::Runtime;

use crate::environment::TestEnv;
use crate::full_annotations::store_full;
use crate::webhook_server::WebhookServer;

/// A cluster that several tests share, each with unique object names: both versions are served, and
/// the webhooks are called for every write.
pub(crate) struct Shared {
    /// Whether objects with full annotations are stored before any webhook is registered.
    has_full_annotations: bool,
    /// The runtime of the webhook server outlives that of a test.
    begun: OnceLock<(Arc<Cluster>, Arc<WebhookServer>, Runtime)>,
}

/// For tests that write objects and count nothing.
pub(crate) static BOTH_VERSIONS: Shared = Shared::new(true);

impl Shared {
    pub(crate) const fn new(has_full_annotations: bool) -> Self {
        Self {
            has_full_annotations,
            begun: OnceLock::new(),
        }
    }

    pub(crate) async fn test_env(&'static self) -> TestEnv {
        let begun = || {
            let (cluster, webhooks, _) = self.begun.get_or_init(|| self.begin());
            (Arc::clone(cluster), Arc::clone(webhooks))
        };
        let (cluster, webhooks) = tokio::task::spawn_blocking(begun).await.expect("begun");
        TestEnv::of(cluster, webhooks).await
    }

    fn begin(&self) -> (Arc<Cluster>, Arc<WebhookServer>, Runtime) {
        let runtime = Runtime::new().expect("a runtime");
        let env = runtime.block_on(async {
            let env = TestEnv::with_api_server().await;
            env.apply_crds(packaging::both_versions).await;
            if self.has_full_annotations {
                store_full(&env).await;
            }
            env.register_webhooks().await;
            env
        });
        (env.cluster, env.webhooks, runtime)
    }
}
