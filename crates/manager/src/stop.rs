//! The parts of the process: tasks that run until the process stops, in groups that stop together. A signal,
//! or the end of any part, stops all. The phases, each with a bound and a line in the log:
//!
//! 1. `/readyz` answers 503, `/healthz` still 200.
//! 2. At the same time: webhook calls are accepted for a grace period and then drained; running
//!    reconciles end after their current request, and then the lease is released (`controllers`).
//! 3. The servers of health and metrics stop, and the last traces are exported, if any are.
//!
//! If the controllers have ended by themselves, after the loss of the lease or an error, the bounds are
//! shorter: another replica takes over, and this process must have exited by then.

use std::future::Future;
use std::net::TcpListener;
use std::time::Duration;

use axum::Router;
use quartet_http::error_report;
use quartet_http::server::{Counters, Limits, Serving};
use quartet_webhook::Stopping;
use tokio::runtime::Handle;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tower::BoxError;

use super::RunError;
use super::traces::LAST_EXPORT;

/// Stop of the webhook server behind a Service. New calls arrive until every node knows that this
/// replica stops. kube-proxy writes its rules at most once a second, and needs several seconds on a
/// large cluster.
pub(super) const BEHIND_A_SERVICE: Stopping = Stopping {
    grace: Duration::from_secs(5),
    // The API server waits 5 s for an admission and 30 s for a conversion; all but the largest
    // lists take milliseconds.
    drain: Duration::from_millis(2500),
};
/// Stop of the servers of health and metrics, at once.
const AT_ONCE: Stopping = Stopping {
    grace: Duration::ZERO,
    drain: Duration::from_millis(450),
};

/// Bound for the webhooks: their own bounds and a margin.
const WEBHOOKS_STOP: Duration = BEHIND_A_SERVICE
    .grace
    .saturating_add(BEHIND_A_SERVICE.drain)
    .saturating_add(Duration::from_millis(500));
/// Bound for the last requests of running reconciles and the release of the lease. Less than the 5 s
/// between the loss of a lease and its expiry.
const CONTROLLERS_STOP: Duration = Duration::from_secs(4);
/// Bound for the whole stop once the controllers have ended by themselves. Less than the 5 s between
/// the loss of a lease and its expiry.
const CUT_SHORT_STOP: Duration = Duration::from_secs(2);
/// Bound for the running requests of the other servers and the export of the last traces: the bound of
/// the latter and a margin.
const SERVERS_STOP: Duration = LAST_EXPORT.saturating_add(Duration::from_millis(200));

/// How a part ended: its name, or its name and error; or it panicked.
type Ended = Result<Result<&'static str, String>, JoinError>;

/// Parts that stop together. Dropping it aborts them.
pub(super) struct Group {
    /// Name of the phase in the log.
    phase: &'static str,
    /// Bound of the phase.
    limit: Duration,
    tasks: JoinSet<Result<&'static str, String>>,
    /// Cancelled when the group stops.
    stopping: CancellationToken,
}

impl Group {
    fn new(phase: &'static str, limit: Duration) -> Self {
        Self {
            phase,
            limit,
            tasks: JoinSet::new(),
            stopping: CancellationToken::new(),
        }
    }

    /// The stop signal of its parts.
    pub(super) fn stopping(&self) -> CancellationToken {
        self.stopping.clone()
    }

    /// Starts a part, which ends soon after the signal of [`Group::stopping`].
    pub(super) fn start<E: Into<BoxError>>(
        &mut self,
        name: &'static str,
        part: impl Future<Output = Result<(), E>> + Send + 'static,
    ) {
        self.start_on(&Handle::current(), name, part);
    }

    /// Starts a part on `runtime`.
    pub(super) fn start_on<E: Into<BoxError>>(
        &mut self,
        runtime: &Handle,
        name: &'static str,
        part: impl Future<Output = Result<(), E>> + Send + 'static,
    ) {
        let part = async move {
            let failed = |error: E| format!("{name} failed: {}", error_report(&*error.into()));
            part.await.map(|()| name).map_err(failed)
        };
        self.tasks.spawn_on(part, runtime);
    }

    /// Starts a part that never ends by itself, and is dropped at the stop.
    pub(super) fn start_endless<E: Into<BoxError> + 'static>(
        &mut self,
        name: &'static str,
        part: impl Future<Output = Result<(), E>> + Send + 'static,
    ) {
        let stopping = self.stopping();
        self.start(name, async move {
            stopping.run_until_cancelled(part).await.unwrap_or(Ok(()))
        });
    }

    /// Signals the parts to stop and waits for them. Aborts parts that exceed the bound. An error of a
    /// part while it stops is an error of the process.
    async fn stop(&mut self) -> Result<(), RunError> {
        let (phase, began, mut result) = (self.phase, Instant::now(), Ok(()));
        self.stopping.cancel();
        let all_ended = async {
            while let Some(ended) = self.tasks.join_next().await {
                if !matches!(ended, Ok(Ok(_))) {
                    let failure = description(ended);
                    tracing::error!(failure, "a part failed while it stopped");
                    result = Err(RunError::Died(failure));
                }
            }
        };
        if timeout(self.limit, all_ended).await.is_err() {
            tracing::error!(phase, "stop phase timed out; its parts are aborted");
            self.tasks.abort_all();
            return Err(RunError::Stuck(phase));
        }
        let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::info!(phase, took_ms, "stop phase completed");
        result
    }
}

/// How a part ended.
fn description(ended: Ended) -> String {
    match ended {
        Ok(Ok(name)) => format!("{name} ended, though it should run for ever"),
        Ok(Err(failure)) => failure,
        Err(panic) => panic.to_string(),
    }
}

/// Everything that runs.
pub(super) struct Process {
    /// The webhook server.
    pub(super) webhooks: Group,
    /// The controllers, which write, and the election, which releases the lease after them.
    pub(super) controllers: Group,
    /// Health and metrics servers, and the exporter of the traces.
    pub(super) servers: Group,
}

impl Process {
    pub(super) fn new() -> Self {
        Self {
            webhooks: Group::new("webhooks", WEBHOOKS_STOP),
            controllers: Group::new("controllers", CONTROLLERS_STOP),
            servers: Group::new("servers", SERVERS_STOP),
        }
    }

    /// Waits for a signal or for the end of a part, and then stops all groups in order. A further
    /// signal ends the process at once.
    ///
    /// `next_signal` waits for the next signal and returns its name.
    pub(super) async fn supervise(
        mut self,
        mut next_signal: impl AsyncFnMut() -> &'static str,
    ) -> Result<(), RunError> {
        let (ended, limit) = tokio::select! {
            signal = next_signal() => {
                tracing::info!(signal, "stopping");
                (None, Duration::MAX)
            }
            Some(ended) = self.webhooks.tasks.join_next() => (Some(ended), Duration::MAX),
            Some(ended) = self.controllers.tasks.join_next() => (Some(ended), CUT_SHORT_STOP),
            Some(ended) = self.servers.tasks.join_next() => (Some(ended), Duration::MAX),
        };
        let died = ended.map(description);
        if let Some(failure) = &died {
            tracing::error!(failure, "a part of the process died; stopping");
        }
        let stopped = tokio::select! {
            signal = next_signal() => Err(RunError::Interrupted(signal)),
            // A limit follows the end of the controllers, which is the result then.
            stopped = timeout(limit, self.stop_in_order()) => stopped.unwrap_or(Ok(())),
        };
        died.map_or(stopped, |failure| Err(RunError::Died(failure)))
    }

    /// Stops the groups in order: see the top of this file.
    async fn stop_in_order(&mut self) -> Result<(), RunError> {
        let (calls, reconciles) = tokio::join!(self.webhooks.stop(), self.controllers.stop());
        let stopped = calls.and(reconciles);
        // An aborted server loses no data. A process that got no CPU time for half a second still stops
        // cleanly.
        match self.servers.stop().await {
            Err(RunError::Stuck(_)) => stopped,
            servers => stopped.and(servers),
        }
    }
}

/// A server without TLS that stops at once.
pub(super) fn plain(
    name: &'static str,
    listener: TcpListener,
    router: Router,
    limits: Limits,
) -> Result<Serving, RunError> {
    let listener = tokio::net::TcpListener::from_std(listener);
    Ok(Serving {
        name,
        listener: listener.map_err(RunError::system("use a listener"))?,
        tls: None,
        router,
        limits,
        counters: Counters::default(),
        stopping: AT_ONCE,
    })
}

#[cfg(test)]
mod tests;
