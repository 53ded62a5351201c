//! Wires the operators to the controllers: passes client, settings, leadership and shutdown to the
//! reconcilers. With an election, of several replicas the one that holds the Lease reconciles.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::registry::Registry;
use quartet_lease::{Election, LeaseLock, TIMING, identity};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tower::BoxError;

use super::cluster::Cluster;
use super::{Application, RunError};
use crate::config::Config;
use quartet_runtime::{ControllersError, Leadership, Metrics, Options};

/// Time limit for the release of the lease. If it fails, other replicas wait until the lease expires,
/// as after a crash.
const RELEASE: Duration = Duration::from_secs(2);

/// The election of the configuration, if any. Registers its metrics.
///
/// # Errors
/// The namespace of the lease is not known.
pub(super) fn election(
    application: &Application,
    config: &Config,
    cluster: &Cluster,
    registry: &mut Registry,
) -> Result<Option<Election>, RunError> {
    if !config.leader_elect {
        return Ok(None);
    }
    let given = Some(&config.leader_election_namespace).filter(|name| !name.is_empty());
    let Some(namespace) = given.or(cluster.pod_namespace.as_ref()) else {
        let problem = "--leader-elect: the namespace of the lease is not known outside a pod; pass \
                       --leader-election-namespace=NAMESPACE or set POD_NAMESPACE";
        return Err(RunError::Configuration(problem.to_owned(), None));
    };
    let lock = LeaseLock {
        client: cluster.client.clone(),
        namespace: namespace.clone(),
        name: application.brand.domain.to_owned(),
        field_manager: application.named("leader-election"),
        identity: identity(),
        timing: TIMING,
        flags: format!(
            "--controllers={:?} --watch-namespace={:?}",
            config.operators, config.namespaces
        ),
        flags_annotation: application.brand.lease_flags,
    };
    Ok(Some(Election::new(lock, registry)))
}

/// Registers the metrics of the selected controllers. Returns the future that runs them until shutdown,
/// while this process leads if there is an election.
pub(super) fn run(
    application: &Application,
    config: &Config,
    cluster: &Cluster,
    election: Option<Election>,
    registry: &mut Registry,
    stop: CancellationToken,
) -> impl Future<Output = Result<(), BoxError>> + Send + 'static {
    let leadership = election.as_ref().map(Election::leadership);
    let options = Options {
        client: cluster.client.clone(),
        brand: application.brand,
        operators: config.operators.clone(),
        legacy: application.legacy,
        settings: config.settings.clone(),
        workers: config.max_concurrent_reconciles.into(),
        max_concurrent_rollouts: config.max_concurrent_rollouts.into(),
        namespaces: config.namespaces.clone(),
        metrics: Arc::new(Metrics::register(registry, &application.metrics_prefix())),
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
) -> Result<(), BoxError> {
    let resign = CancellationToken::new();
    // A separate task, so that the controllers cannot delay a renewal. It is aborted with this set.
    let mut election_task = JoinSet::new();
    election_task.spawn(election.run(resign.clone().cancelled_owned()));
    let ended = tokio::select! {
        biased;
        Some(ended) = election_task.join_next() => return Ok(ended??),
        ended = controllers => ended,
    };
    // The fence depends on the time, so it may close before the election reports the loss.
    if !matches!(ended, Err(ControllersError::Fenced(_))) {
        resign.cancel();
    }
    match timeout(RELEASE, election_task.join_next()).await {
        Ok(election) => election.transpose()?.transpose()?.unwrap_or_default(),
        Err(_elapsed) => tracing::warn!(
            "the lease was not released in time; other replicas wait until it expires"
        ),
    }
    Ok(ended?)
}
