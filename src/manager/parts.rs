//! The parts of the process: named tasks that run until the process stops, in groups that stop together. The
//! end of any part, by return, error or panic, stops the process; this file only reports which part ended and
//! how.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use quartet_http::error_report;

use super::error::RunError;

/// Parts that stop together. Dropping it aborts them.
pub(super) struct Group {
    /// Name of the phase in the log.
    phase: &'static str,
    /// Bound of the phase.
    limit: Duration,
    tasks: JoinSet<Ended>,
    /// Names of the parts whose end has not been reported.
    running: Vec<&'static str>,
    /// Cancelled when the group stops.
    stopping: CancellationToken,
}

/// A part that ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// Its name.
    pub(super) part: &'static str,
    /// Its error or panic; `None` if it returned without one.
    failure: Option<String>,
}

impl Group {
    pub(super) fn new(phase: &'static str, limit: Duration) -> Self {
        Self {
            phase,
            limit,
            tasks: JoinSet::new(),
            running: Vec::new(),
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
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.start_on(&Handle::current(), name, part);
    }

    /// Starts a part that never ends by itself, and is dropped at the stop.
    pub(super) fn start_endless<E>(
        &mut self,
        name: &'static str,
        part: impl Future<Output = Result<(), E>> + Send + 'static,
    ) where
        E: Into<Box<dyn Error + Send + Sync>> + 'static,
    {
        let stopping = self.stopping();
        let until_stop = async move { stopping.run_until_cancelled(part).await.unwrap_or(Ok(())) };
        self.start(name, until_stop);
    }

    /// Starts a part on `runtime`.
    pub(super) fn start_on<E>(
        &mut self,
        runtime: &Handle,
        name: &'static str,
        part: impl Future<Output = Result<(), E>> + Send + 'static,
    ) where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.running.push(name);
        let part = AssertUnwindSafe(part).catch_unwind();
        let ended = async move {
            let failure = match part.await {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(format!("failed: {}", error_report(&*error.into()))),
                Err(panic) => Some(format!("panicked: {}", panic_message(&*panic))),
            };
            Ended {
                part: name,
                failure,
            }
        };
        self.tasks.spawn_on(ended, runtime);
    }

    /// Waits for the next part to end; `None` when none is left. Cancel-safe.
    pub(super) async fn next_end(&mut self) -> Option<Ended> {
        // An error only after an abort.
        let ended = self.tasks.join_next().await?.ok()?;
        self.running.retain(|name| *name != ended.part);
        Some(ended)
    }

    /// Signals the parts to stop and waits for them. Aborts parts that exceed the bound. An error of a
    /// part while it stops is an error of the process.
    pub(super) async fn stop(&mut self) -> Result<(), RunError> {
        let began = Instant::now();
        self.stopping.cancel();
        if self.running.is_empty() {
            return Ok(());
        }
        let (phase, limit) = (self.phase, self.limit);
        let mut died = None;
        let all_ended = async {
            while let Some(ended) = self.next_end().await {
                if ended.failure.is_some() {
                    tracing::error!(part = ended.part, "{ended}");
                    died.get_or_insert(RunError::Died(ended.to_string()));
                }
            }
        };
        let in_time = timeout(limit, all_ended).await.is_ok();
        let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        if in_time {
            tracing::info!(phase, took_ms, "stop phase completed");
            return died.map_or(Ok(()), Err);
        }
        self.running.sort_unstable();
        let running = self.running.join(", ");
        tracing::error!(
            phase,
            took_ms,
            running,
            "stop phase timed out; its parts are aborted"
        );
        self.tasks.abort_all();
        Err(RunError::Stuck(running))
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("not text")
}

impl fmt::Display for Ended {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failure = self.failure.as_deref();
        let how = failure.unwrap_or("ended, though it should run for ever");
        write!(formatter, "{} {how}", self.part)
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::io;

    use super::*;

    async fn only_end(part: impl Future<Output = io::Result<()>> + Send + 'static) -> String {
        let mut group = Group::new("test", Duration::ZERO);
        group.start("lasting", pending::<io::Result<()>>());
        group.start("brief", part);
        let ended = group.next_end().await.unwrap();
        assert_eq!(group.running, ["lasting"]);
        ended.to_string()
    }

    #[tokio::test]
    async fn a_part_that_ends_is_named_with_its_error_or_panic() {
        assert_eq!(
            only_end(async { Ok(()) }).await,
            "brief ended, though it should run for ever"
        );
        let fails = async { Err(io::Error::other("no luck")) };
        assert_eq!(only_end(fails).await, "brief failed: no luck");
        let panics = async { panic!("at {}", "noon") };
        assert_eq!(only_end(panics).await, "brief panicked: at noon");
        let panics = async { panic!("plain") };
        assert_eq!(only_end(panics).await, "brief panicked: plain");
    }
}
