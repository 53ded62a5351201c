//! What makes the process stop (a signal, or the end of any part) and the order in which it
//! does, each phase within its bound and with a line in the log:
//!
//! 1. `/readyz` answers 503, `/healthz` still 200.
//! 2. Side by side: webhook calls are taken for a time of grace and then drained; running
//!    reconciles end, and after the last of them the lease is given away.
//! 3. The servers that tell of all this, health and metrics.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::RunError;
use super::parts::{How, Parts};
use super::shutdown::{Shutdown, Stopper, shutdown};
use crate::webhook::Stopping;

/// How the webhook server stops behind a Service: until every node has learnt that this
/// replica goes, new calls come in. kube-proxy writes its rules at most once a second, and
/// takes some on a large cluster.
pub(super) const BEHIND_A_SERVICE: Stopping = Stopping {
    grace: Duration::from_secs(5),
    // The API server waits 5 s for an admission and 30 s for a conversion; all but the largest
    // lists take milliseconds.
    drain: Duration::from_millis(2500),
};
/// How it stops when the API server calls a URL, which is taken back at the first signal.
pub(super) const AT_A_URL: Stopping = Stopping {
    grace: Duration::from_secs(1),
    ..BEHIND_A_SERVICE
};

/// How long the webhooks have to stop: their own bounds, and a moment for what surrounds them.
const WEBHOOKS_STOP: Duration = BEHIND_A_SERVICE
    .grace
    .saturating_add(BEHIND_A_SERVICE.drain)
    .saturating_add(Duration::from_millis(500));
/// How long running reconciles have to end. Less than the 5 s for which a lease that was lost
/// is still nobody else's.
const CONTROLLERS_STOP: Duration = Duration::from_secs(4);
/// How long the lease's release may take.
const LEASE_STOP: Duration = Duration::from_secs(2);
/// How long the other servers then have to answer running requests.
const SERVERS_STOP: Duration = Duration::from_millis(500);

/// Everything that runs.
pub(super) struct Process {
    /// What answers the API server.
    pub(super) webhooks: Group,
    /// What writes: whatever needs the lease.
    pub(super) controllers: Group,
    /// What holds the lease, and gives it away when it is told to stop: after the controllers.
    pub(super) lease: Group,
    /// What tells of the rest.
    pub(super) servers: Group,
}

/// Parts that are told to stop together.
pub(super) struct Group {
    /// What the log calls their stop.
    phase: &'static str,
    /// How long that may take.
    limit: Duration,
    // Dropped before the stopper, so that nothing is told to stop by the end of the process.
    parts: Parts,
    stopper: Stopper,
    shutdown: Shutdown,
}

impl Process {
    pub(super) fn new() -> Self {
        Self {
            webhooks: Group::new("webhooks", WEBHOOKS_STOP),
            controllers: Group::new("controllers", CONTROLLERS_STOP),
            lease: Group::new("lease", LEASE_STOP),
            servers: Group::new("servers", SERVERS_STOP),
        }
    }

    /// What hears of the stop first.
    pub(super) fn stopping(&self) -> Shutdown {
        self.webhooks.shutdown()
    }

    /// Waits for a signal or for the end of a part, and then stops everything in order. A
    /// further signal ends it at once.
    ///
    /// `next_signal` waits for the next signal and returns its name.
    pub(super) async fn supervise(
        mut self,
        mut next_signal: impl AsyncFnMut() -> &'static str,
    ) -> Result<(), RunError> {
        let died = tokio::select! {
            signal = next_signal() => {
                tracing::info!(signal, "stopping");
                None
            }
            Some(ended) = self.webhooks.parts.next_end() => Some(ended),
            Some(ended) = self.controllers.parts.next_end() => Some(ended),
            Some(ended) = self.lease.parts.next_end() => Some(ended),
            Some(ended) = self.servers.parts.next_end() => Some(ended),
        };
        if let Some(ended) = &died {
            tracing::error!(part = ended.part, "{ended}; stopping");
        }
        let stopped = tokio::select! {
            signal = next_signal() => Err(RunError::Interrupted(signal)),
            stopped = self.stop_in_order() => stopped,
        };
        match died {
            Some(ended) => Err(RunError::Died(ended.to_string())),
            None => stopped,
        }
    }

    /// The order of the stop: see the top of this file.
    async fn stop_in_order(&mut self) -> Result<(), RunError> {
        let (webhooks, controllers, lease) =
            (&mut self.webhooks, &mut self.controllers, &mut self.lease);
        let (calls, reconciles) = tokio::join!(webhooks.stop(), release(controllers, lease));
        let servers = self.servers.stop().await;
        calls.and(reconciles).and(servers)
    }
}

/// Ends the reconciles and then gives the lease away, as soon as nothing writes any more. If a
/// reconcile had to be cut short, its last request may still be under way: then the lease is
/// kept, until it expires.
async fn release(controllers: &mut Group, lease: &mut Group) -> Result<(), RunError> {
    let reconciles = controllers.stop().await;
    if matches!(reconciles, Err(RunError::Stuck(_))) {
        lease.parts.abort();
        return reconciles;
    }
    reconciles.and(lease.stop().await)
}

impl Group {
    fn new(phase: &'static str, limit: Duration) -> Self {
        let (stopper, shutdown) = shutdown();
        Self {
            phase,
            limit,
            parts: Parts::default(),
            stopper,
            shutdown,
        }
    }

    /// What tells its parts to stop.
    pub(super) fn shutdown(&self) -> Shutdown {
        self.shutdown.clone()
    }

    /// Starts a part, which is to end soon after [`Group::shutdown`] said so.
    pub(super) fn start<E>(
        &mut self,
        name: &'static str,
        part: impl Future<Output = Result<(), E>> + Send + 'static,
    ) where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.parts.start(name, part);
    }

    /// Tells the parts to stop and waits for them; those that do not in time are aborted. A
    /// part that fails while it stops has died.
    async fn stop(&mut self) -> Result<(), RunError> {
        let began = Instant::now();
        self.stopper.stop();
        if self.parts.running().is_empty() {
            return Ok(());
        }
        let mut died = None;
        let all_ended = self.parts.all_ended(|ended| {
            if ended.how != How::Returned {
                tracing::error!(part = ended.part, "{ended}");
                died.get_or_insert(RunError::Died(ended.to_string()));
            }
        });
        let in_time = timeout(self.limit, all_ended).await.is_ok();
        let took_ms = millis(began.elapsed());
        if !in_time {
            let running = self.parts.running().join(", ");
            let phase = self.phase;
            tracing::error!(phase, took_ms, running, "a phase of the stop was cut short");
            self.parts.abort();
            return Err(RunError::Stuck(running));
        }
        tracing::info!(phase = self.phase, took_ms, "a phase of the stop ended");
        died.map_or(Ok(()), Err)
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::io;
    use std::sync::{Arc, Mutex};

    use tokio::time::sleep;

    use super::*;

    /// What the scaffold's manifest allows, `terminationGracePeriodSeconds: 10`.
    const GRACE_PERIOD: Duration = Duration::from_secs(10);
    const NEVER: Duration = Duration::from_secs(3600);

    /// A part that ends `delay` after it is told to.
    async fn obedient(shutdown: Shutdown, delay: Duration) -> io::Result<()> {
        shutdown.stopped().await;
        sleep(delay).await;
        Ok(())
    }

    /// One signal after a second, then one each `interval`.
    fn signals(interval: Duration) -> impl AsyncFnMut() -> &'static str {
        let mut wait = Duration::from_secs(1);
        async move || {
            sleep(std::mem::replace(&mut wait, interval)).await;
            "SIGTERM"
        }
    }

    /// Which part ended when, in milliseconds after the signal.
    type Ends = Arc<Mutex<Vec<(&'static str, u64)>>>;

    /// One part in each group, each of which takes so long to stop.
    fn process(
        webhooks: Duration,
        controllers: Duration,
        lease: Duration,
        servers: Duration,
    ) -> (Process, Ends) {
        let ends = Ends::default();
        let mut process = Process::new();
        let origin = Instant::now() + Duration::from_secs(1);
        for (group, name, delay) in [
            (&mut process.webhooks, "webhooks", webhooks),
            (&mut process.controllers, "controllers", controllers),
            (&mut process.lease, "lease", lease),
            (&mut process.servers, "servers", servers),
        ] {
            let (ends, shutdown) = (Arc::clone(&ends), group.shutdown());
            group.start(name, async move {
                obedient(shutdown, delay).await?;
                let end = (name, millis(origin.elapsed()));
                ends.lock().unwrap().push(end);
                io::Result::Ok(())
            });
        }
        (process, ends)
    }

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[tokio::test(start_paused = true)]
    async fn the_lease_waits_for_the_controllers_only_and_the_servers_for_all() {
        let (process, ends) = process(ms(7000), ms(30), ms(5), ms(1));
        process.supervise(signals(NEVER)).await.unwrap();
        let expected = [
            ("controllers", 30),
            ("lease", 35),
            ("webhooks", 7000),
            ("servers", 7001),
        ];
        assert_eq!(*ends.lock().unwrap(), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn what_just_keeps_its_bounds_still_stops_within_the_grace_period_of_a_pod() {
        let nearly = |limit: Duration| limit - ms(10);
        let (process, ends) = process(
            nearly(WEBHOOKS_STOP),
            nearly(CONTROLLERS_STOP),
            nearly(LEASE_STOP),
            nearly(SERVERS_STOP),
        );
        let began = Instant::now();
        process.supervise(signals(NEVER)).await.unwrap();
        assert_eq!(ends.lock().unwrap().len(), 4);
        let since_signal = began.elapsed() - Duration::from_secs(1);
        assert!(since_signal < GRACE_PERIOD, "{since_signal:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn parts_that_never_stop_are_aborted_and_named_within_the_grace_period() {
        let mut process = Process::new();
        for group in [
            &mut process.webhooks,
            &mut process.controllers,
            &mut process.servers,
        ] {
            group.start("stuck", pending::<io::Result<()>>());
        }
        let began = Instant::now();
        let error = process.supervise(signals(NEVER)).await.unwrap_err();
        assert_eq!(error.to_string(), "did not stop in time: stuck");
        let since_signal = began.elapsed() - Duration::from_secs(1);
        assert!(since_signal < GRACE_PERIOD, "{since_signal:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_lease_is_kept_when_a_reconcile_was_cut_short() {
        let (mut process, ends) = process(ms(1), ms(1), ms(1), ms(1));
        process
            .controllers
            .start("stuck", pending::<io::Result<()>>());
        let error = process.supervise(signals(NEVER)).await.unwrap_err();
        assert_eq!(error.to_string(), "did not stop in time: stuck");
        let ends = ends.lock().unwrap();
        assert!(ends.iter().all(|(part, _)| *part != "lease"), "{ends:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_part_that_dies_stops_the_others_in_order_and_is_named() {
        let (mut process, ends) = process(ms(1), ms(2), ms(3), ms(4));
        process
            .webhooks
            .start("dying", async { Err(io::Error::other("no luck")) });
        let error = process.supervise(signals(NEVER)).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "a part of the process died: dying failed: no luck"
        );
        assert_eq!(error.exit_code(), 1);
        let ends = ends.lock().unwrap();
        let order: Vec<_> = ends.iter().map(|(part, _)| *part).collect();
        assert_eq!(order, ["webhooks", "controllers", "lease", "servers"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_part_that_panics_while_it_stops_fails_the_stop() {
        let mut process = Process::new();
        let shutdown = process.controllers.shutdown();
        process.controllers.start("clumsy", async move {
            obedient(shutdown, Duration::ZERO).await?;
            panic!("tripped");
            #[allow(unreachable_code)]
            io::Result::Ok(())
        });
        let error = process.supervise(signals(NEVER)).await.unwrap_err();
        assert!(
            error.to_string().ends_with("clumsy panicked: tripped"),
            "{error}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_signal_ends_the_stop_at_once() {
        let mut process = Process::new();
        process
            .controllers
            .start("stuck", pending::<io::Result<()>>());
        let began = Instant::now();
        let error = process.supervise(signals(ms(10))).await.unwrap_err();
        assert!(matches!(error, RunError::Interrupted("SIGTERM")), "{error}");
        assert_eq!(began.elapsed(), ms(1010));
    }
}
