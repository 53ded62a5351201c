//! Clusters that tests change as a whole, with CRDs, webhooks or outages. Several tests use each in
//! turn, because its start costs more than most of them.
//!
//! A test has a namespace of its own. It may find the CRDs and the objects of the tests before, and
//! leaves a cluster in which all components run and no webhook is registered.

use std::sync::Arc;

use devcluster::Cluster;
use tokio::sync::{Mutex, MutexGuard};

/// For outages, and for changes of the CRDs that serve the spoke versions.
pub(crate) static OUTAGES: Shared = Shared::for_tests(3);

/// For managers that register the URL of their webhooks, for all namespaces.
pub(crate) static WEBHOOKS: Shared = Shared::for_tests(7);

/// A cluster from its first turn to its last one.
pub(crate) struct Shared(Mutex<State>);

struct State {
    cluster: Option<Arc<Cluster>>,
    /// Turns to come in a run of all tests. If it is too small, the cluster is started once more.
    left: usize,
}

/// The cluster, which no other test uses meanwhile.
pub(crate) struct Turn {
    pub(crate) cluster: Arc<Cluster>,
    state: MutexGuard<'static, State>,
}

impl Shared {
    const fn for_tests(left: usize) -> Self {
        Self(Mutex::const_new(State {
            cluster: None,
            left,
        }))
    }

    pub(crate) async fn turn(&'static self) -> Turn {
        let mut state = self.0.lock().await;
        let cluster = match state.cluster.clone() {
            Some(cluster) => cluster,
            None => testkit::private_cluster().await.cluster,
        };
        state.cluster = Some(Arc::clone(&cluster));
        Turn { cluster, state }
    }
}

impl Drop for Turn {
    /// Deletes the cluster after the last turn, and if the test failed: nothing may run then, or
    /// everything may be paused.
    fn drop(&mut self) {
        self.state.left = self.state.left.saturating_sub(1);
        if self.state.left == 0 || std::thread::panicking() {
            self.state.cluster = None;
        }
    }
}
