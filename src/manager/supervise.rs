//! The order in which the process stops, and what makes it stop: a signal, or the end of
//! any part. The work (controllers) goes first, the servers that tell of it last.

use std::time::Duration;

use tokio::time::timeout;

use super::RunError;
use super::parts::{How, Parts};
use super::shutdown::Stopper;

/// How long the work has to end: to finish running reconciles. With [`SERVERS_STOP`] it
/// stays below the 5 s in which the whole process is to stop.
const WORK_STOP: Duration = Duration::from_secs(4);
/// How long the servers then have to answer running requests.
const SERVERS_STOP: Duration = Duration::from_millis(500);

/// Parts that are told to stop together.
pub(super) struct Group {
    /// The parts, each of which ends soon after `stopper` was used.
    pub(super) parts: Parts,
    /// What tells them.
    pub(super) stopper: Stopper,
}

/// Waits for a signal or for the end of a part, and then stops everything in order. A
/// further signal ends it at once.
///
/// `next_signal` waits for the next signal and returns its name.
pub(super) async fn supervise(
    mut work: Group,
    mut servers: Group,
    mut next_signal: impl AsyncFnMut() -> &'static str,
) -> Result<(), RunError> {
    let died = tokio::select! {
        signal = next_signal() => {
            tracing::info!(signal, "stopping");
            None
        }
        Some(ended) = work.parts.next_end() => Some(ended),
        Some(ended) = servers.parts.next_end() => Some(ended),
    };
    if let Some(ended) = &died {
        tracing::error!(part = ended.part, "{ended}; stopping");
    }
    let stopped = tokio::select! {
        signal = next_signal() => Err(RunError::Interrupted(signal)),
        stopped = stop_in_order(&mut work, &mut servers) => stopped,
    };
    match died {
        Some(ended) => Err(RunError::Died(ended.to_string())),
        None => stopped,
    }
}

async fn stop_in_order(work: &mut Group, servers: &mut Group) -> Result<(), RunError> {
    let work = stop(work, WORK_STOP).await;
    let servers = stop(servers, SERVERS_STOP).await;
    work.and(servers)
}

/// Tells a group to stop and waits for it. A part that fails while it stops has died.
async fn stop(group: &mut Group, limit: Duration) -> Result<(), RunError> {
    group.stopper.stop();
    let mut died = None;
    let all_ended = group.parts.all_ended(|ended| {
        if ended.how != How::Returned {
            tracing::error!(part = ended.part, "{ended}");
            died.get_or_insert(RunError::Died(ended.to_string()));
        }
    });
    if timeout(limit, all_ended).await.is_err() {
        return Err(RunError::Stuck(group.parts.running().join(", ")));
    }
    died.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::io;
    use std::sync::{Arc, Mutex};

    use tokio::time::{Instant, sleep};

    use super::super::shutdown::{Shutdown, shutdown};
    use super::*;

    /// A group, and what its parts listen to.
    fn group() -> (Group, Shutdown) {
        let (stopper, shutdown) = shutdown();
        (
            Group {
                parts: Parts::default(),
                stopper,
            },
            shutdown,
        )
    }

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

    const NEVER: Duration = Duration::from_secs(3600);

    #[tokio::test(start_paused = true)]
    async fn the_servers_answer_until_the_work_has_ended() {
        let ((mut work, work_shutdown), (mut servers, servers_shutdown)) = (group(), group());
        let order = Arc::new(Mutex::new(Vec::new()));
        let note = |name, shutdown, delay| {
            let order = Arc::clone(&order);
            async move {
                obedient(shutdown, delay).await?;
                order.lock().unwrap().push(name);
                io::Result::Ok(())
            }
        };
        work.parts
            .start("work", note("work", work_shutdown, Duration::from_secs(3)));
        servers
            .parts
            .start("server", note("server", servers_shutdown, Duration::ZERO));
        supervise(work, servers, signals(NEVER)).await.unwrap();
        assert_eq!(*order.lock().unwrap(), ["work", "server"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_part_that_dies_stops_the_others_and_is_named() {
        let ((mut work, work_shutdown), (servers, _)) = (group(), group());
        work.parts
            .start("dying", async { Err(io::Error::other("no luck")) });
        work.parts
            .start("healthy", obedient(work_shutdown, Duration::ZERO));
        let error = supervise(work, servers, signals(NEVER)).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "a part of the process died: dying failed: no luck"
        );
        assert_eq!(error.exit_code(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_part_that_panics_while_it_stops_fails_the_stop() {
        let ((mut work, work_shutdown), (servers, _)) = (group(), group());
        work.parts.start("clumsy", async move {
            obedient(work_shutdown, Duration::ZERO).await?;
            panic!("tripped");
            #[allow(unreachable_code)]
            io::Result::Ok(())
        });
        let error = supervise(work, servers, signals(NEVER)).await.unwrap_err();
        assert!(
            error.to_string().ends_with("clumsy panicked: tripped"),
            "{error}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn parts_that_never_stop_are_named_within_five_seconds() {
        let ((mut work, _work), (mut servers, _servers)) = (group(), group());
        work.parts.start("stuck", pending::<io::Result<()>>());
        servers
            .parts
            .start("also stuck", pending::<io::Result<()>>());
        let began = Instant::now();
        let error = supervise(work, servers, signals(NEVER)).await.unwrap_err();
        assert_eq!(error.to_string(), "did not stop in time: stuck");
        let since_signal = began.elapsed() - Duration::from_secs(1);
        assert!(since_signal < Duration::from_secs(5), "{since_signal:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_signal_ends_the_stop_at_once() {
        let ((mut work, _work), (servers, _)) = (group(), group());
        work.parts.start("stuck", pending::<io::Result<()>>());
        let began = Instant::now();
        let error = supervise(work, servers, signals(Duration::from_millis(10)))
            .await
            .unwrap_err();
        assert!(matches!(error, RunError::Interrupted("SIGTERM")), "{error}");
        assert_eq!(began.elapsed(), Duration::from_millis(1010));
    }
}
