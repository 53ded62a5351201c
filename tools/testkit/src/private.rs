//! A private cluster for a test that would break the shared one. One at a time, because each uses
//! most of a core while it starts.

use std::sync::Arc;

use devcluster::{Cluster, Options};
use tokio::sync::{Mutex, MutexGuard};

static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// A running cluster, deleted when dropped.
pub struct Private {
    /// The cluster.
    pub cluster: Arc<Cluster>,
    _turn: MutexGuard<'static, ()>,
}

/// Starts a cluster without CRDs.
///
/// # Panics
/// If it does not start.
pub async fn private_cluster() -> Private {
    let turn = ONE_AT_A_TIME.lock().await;
    let starting = tokio::task::spawn_blocking(|| Cluster::start(Options::default()));
    let cluster = starting.await.expect("no panic").expect("a cluster");
    Private {
        cluster: Arc::new(cluster),
        _turn: turn,
    }
}
