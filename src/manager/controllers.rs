//! Wires the operators to the controllers: passes clients, settings, leadership and shutdown to the
//! reconcilers.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::registry::Registry;
use quartet_lease::{Election, ElectionLost, LeaseLock};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::cluster::Clients;
use crate::config::Config;
use crate::kinds::BRAND;
use crate::legacy::LEGACY;
use quartet_runtime::{ControllersError, Leadership, Metrics, Options};

/// Time limit for the release of the lease. If it fails, other replicas wait until the lease expires,
/// as after a crash.
const RELEASE: Duration = Duration::from_secs(2);

/// Why the controllers ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum Ended {
    #[error(transparent)]
    Controllers(#[from] ControllersError),
    #[error(transparent)]
    Lost(#[from] ElectionLost),
    #[error("the leader election panicked: {0}")]
    Panicked(#[from] tokio::task::JoinError),
}

/// Registers the metrics of the selected controllers. Returns the future that runs them until shutdown,
/// while this process leads if there is an election.
pub(super) fn run(
    config: &Config,
    clients: &Clients,
    lock: Option<LeaseLock>,
    registry: &mut Registry,
    stop: CancellationToken,
) -> impl Future<Output = Result<(), Ended>> + Send + 'static {
    let election = lock.map(|lock| Election::new(lock, registry));
    let leadership = election.as_ref().map(Election::leadership);
    let options = Options {
        client: clients.calls.clone(),
        watch_client: clients.watches.clone(),
        brand: &BRAND,
        operators: config.operators.clone(),
        legacy: LEGACY,
        settings: config.settings.clone(),
        workers: config.max_concurrent_reconciles,
        max_concurrent_rollouts: config.max_concurrent_rollouts,
        namespaces: config.watch_namespaces.clone(),
        metrics: Arc::new(Metrics::register(registry)),
        clock: Arc::new(Timestamp::now),
        leadership: leadership.unwrap_or_else(Leadership::sole),
    };
    async move {
        let controllers = quartet_runtime::run(options, stop.cancelled_owned());
        match election {
            Some(election) => run_elected(election, controllers).await,
            None => Ok(controllers.await?),
        }
    }
}

/// Runs the controllers and the election. The lease is released after the last reconcile has ended. If
/// the election is lost, the controllers are aborted. If this future is dropped, the last request of a
/// reconcile may still be in progress: then the lease is not released, and expires.
pub(super) async fn run_elected(
    election: Election,
    controllers: impl Future<Output = Result<(), ControllersError>>,
) -> Result<(), Ended> {
    let resign = CancellationToken::new();
    // A separate task, so that the controllers cannot delay a renewal.
    let election = election.run(resign.clone().cancelled_owned());
    let mut election = Aborted(tokio::spawn(election));
    let ended = tokio::select! {
        biased;
        ended = &mut election.0 => return Ok(ended??),
        ended = controllers => ended,
    };
    // The fence depends on the time, so it may close before the election reports the loss.
    if !matches!(ended, Err(ControllersError::Fenced(_))) {
        resign.cancel();
    }
    match timeout(RELEASE, &mut election.0).await {
        Ok(election) => election??,
        Err(_elapsed) => tracing::warn!(
            "the lease was not released in time; other replicas wait until it expires"
        ),
    }
    Ok(ended?)
}

/// A task that is aborted when its owner is dropped.
struct Aborted<T>(JoinHandle<T>);

impl<T> Drop for Aborted<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
