//! Stops the process after a signal or the end of any part. The phases, each with a bound and a line
//! in the log:
//!
//! 1. `/readyz` answers 503, `/healthz` still 200.
//! 2. At the same time: webhook calls are accepted for a grace period and then drained; running
//!    reconciles end after their current request, and then the lease is released (`controllers`).
//! 3. The servers of health and metrics stop, and the last traces are exported, if any are.
//!
//! If the controllers have ended by themselves, after the loss of the lease or an error, the bounds are
//! shorter: another replica takes over, and this process must have exited by then.

use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::error::RunError;
use super::parts::Group;
use super::traces::LAST_EXPORT;
use quartet_http::server::Limits;
use quartet_http::server::{Counters, Serving};
use quartet_webhook::Stopping;

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
pub(super) const AT_ONCE: Stopping = Stopping {
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

    /// Notified of the stop first.
    pub(super) fn stopping(&self) -> CancellationToken {
        self.webhooks.stopping()
    }

    /// Waits for a signal or for the end of a part, and then stops all groups in order. A further
    /// signal ends the process at once.
    ///
    /// `next_signal` waits for the next signal and returns its name.
    pub(super) async fn supervise(
        mut self,
        mut next_signal: impl AsyncFnMut() -> &'static str,
    ) -> Result<(), RunError> {
        let (died, limit) = tokio::select! {
            signal = next_signal() => {
                tracing::info!(signal, "stopping");
                (None, Duration::MAX)
            }
            Some(ended) = self.webhooks.next_end() => (Some(ended), Duration::MAX),
            Some(ended) = self.controllers.next_end() => (Some(ended), CUT_SHORT_STOP),
            Some(ended) = self.servers.next_end() => (Some(ended), Duration::MAX),
        };
        if let Some(ended) = &died {
            tracing::error!(part = ended.part, "{ended}; stopping");
        }
        let stopped = tokio::select! {
            signal = next_signal() => Err(RunError::Interrupted(signal)),
            // A limit follows the end of the controllers, which is the result then.
            stopped = timeout(limit, self.stop_in_order()) => stopped.unwrap_or(Ok(())),
        };
        match died {
            Some(ended) => Err(RunError::Died(ended.to_string())),
            None => stopped,
        }
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
) -> Serving {
    Serving {
        name,
        listener,
        tls: None,
        router,
        limits,
        counters: Counters::default(),
        stopping: AT_ONCE,
    }
}

#[cfg(test)]
mod tests;
