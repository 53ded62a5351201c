//! Stops the process after a signal or the end of any part. The phases, each with a bound and a line
//! in the log:
//!
//! 1. `/readyz` answers 503, `/healthz` still 200.
//! 2. At the same time: webhook calls are accepted for a grace period and then drained; running
//!    reconciles end after their current request, and then the lease is released (`controllers`).
//! 3. The servers of health and metrics stop.
//! 4. The last traces are exported, if any are.
//!
//! If the controllers have ended by themselves, after the loss of the lease or an error, the bounds are
//! shorter: another replica takes over, and this process must have exited by then.

use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::error::RunError;
use super::parts::Parts;
use super::traces::LAST_EXPORT;
use crate::budget::Limits;
use crate::server::{Counters, Serving};
use crate::webhook::Stopping;

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
/// Bound for the running requests of the other servers.
const SERVERS_STOP: Duration = Duration::from_millis(500);
/// Bound for the export of the last traces: its own bound and a margin.
const TRACES_STOP: Duration = LAST_EXPORT.saturating_add(Duration::from_millis(200));

/// Everything that runs.
pub(super) struct Process {
    /// The webhook server.
    pub(super) webhooks: Group,
    /// The controllers, which write, and the election, which releases the lease after them.
    pub(super) controllers: Group,
    /// Health and metrics servers.
    pub(super) servers: Group,
    /// The exporter of the traces.
    pub(super) traces: Group,
}

/// Parts that stop together.
pub(super) struct Group {
    /// Name of the phase in the log.
    phase: &'static str,
    /// Bound of the phase.
    limit: Duration,
    pub(super) parts: Parts,
    /// Cancelled when the group stops.
    stopping: CancellationToken,
}

impl Process {
    pub(super) fn new() -> Self {
        Self {
            webhooks: Group::new("webhooks", WEBHOOKS_STOP),
            controllers: Group::new("controllers", CONTROLLERS_STOP),
            servers: Group::new("servers", SERVERS_STOP),
            traces: Group::new("traces", TRACES_STOP),
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
            Some(ended) = self.webhooks.parts.next_end() => (Some(ended), Duration::MAX),
            Some(ended) = self.controllers.parts.next_end() => (Some(ended), CUT_SHORT_STOP),
            Some(ended) = self.servers.parts.next_end() => (Some(ended), Duration::MAX),
            Some(ended) = self.traces.parts.next_end() => (Some(ended), Duration::MAX),
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
        // From here on an aborted task loses no data. A process that got no CPU time for half a second
        // still stops cleanly.
        let servers = ignore_timeout(self.servers.stop().await);
        let traces = ignore_timeout(self.traces.stop().await);
        calls.and(reconciles).and(servers).and(traces)
    }
}

/// Ignores the timeout of a phase that loses no data. It is logged.
fn ignore_timeout(phase: Result<(), RunError>) -> Result<(), RunError> {
    match phase {
        Err(RunError::Stuck(_)) => Ok(()),
        phase => phase,
    }
}

impl Group {
    fn new(phase: &'static str, limit: Duration) -> Self {
        Self {
            phase,
            limit,
            parts: Parts::default(),
            stopping: CancellationToken::new(),
        }
    }

    /// The stop signal of its parts.
    pub(super) fn stopping(&self) -> CancellationToken {
        self.stopping.clone()
    }

    /// Starts a part, which ends soon after the signal of [`Group::stopping`].
    pub(super) fn start<E>(
        &mut self,
        name: &'static str,
        part: impl Future<Output = Result<(), E>> + Send + 'static,
    ) where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.parts.start_on(&Handle::current(), name, part);
    }

    /// Signals the parts to stop and waits for them. Aborts parts that exceed the bound. An error of a
    /// part while it stops is an error of the process.
    async fn stop(&mut self) -> Result<(), RunError> {
        let began = Instant::now();
        self.stopping.cancel();
        if self.parts.running().is_empty() {
            return Ok(());
        }
        let mut died = None;
        let all_ended = async {
            while let Some(ended) = self.parts.next_end().await {
                if ended.failure.is_some() {
                    tracing::error!(part = ended.part, "{ended}");
                    died.get_or_insert(RunError::Died(ended.to_string()));
                }
            }
        };
        let in_time = timeout(self.limit, all_ended).await.is_ok();
        let took_ms = millis(began.elapsed());
        if !in_time {
            let running = self.parts.running().join(", ");
            let phase = self.phase;
            tracing::error!(
                phase,
                took_ms,
                running,
                "stop phase timed out; its parts are aborted"
            );
            self.parts.abort();
            return Err(RunError::Stuck(running));
        }
        tracing::info!(phase = self.phase, took_ms, "stop phase completed");
        died.map_or(Ok(()), Err)
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
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
