//! The parts of the process: named tasks that run until the process stops. The end of any part, by
//! return, error or panic, stops the process; this file only reports which part ended and how.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use quartet_http::error_report;

/// A set of running parts. Dropping it aborts them.
#[derive(Debug, Default)]
pub(super) struct Parts {
    tasks: JoinSet<Ended>,
    /// Names of the parts whose end has not been reported.
    running: Vec<&'static str>,
}

/// A part that ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ended {
    /// Its name.
    pub(super) part: &'static str,
    /// Its error or panic; `None` if it returned without one.
    pub(super) failure: Option<String>,
}

impl Parts {
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

    /// Aborts the running parts at their next await point.
    pub(super) fn abort(&mut self) {
        self.tasks.abort_all();
    }

    /// The names of the parts that are still running, sorted.
    pub(super) fn running(&self) -> Vec<&'static str> {
        let mut names = self.running.clone();
        names.sort_unstable();
        names
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
        let mut parts = Parts::default();
        parts.start_on(&Handle::current(), "lasting", pending::<io::Result<()>>());
        parts.start_on(&Handle::current(), "brief", part);
        let ended = parts.next_end().await.unwrap();
        assert_eq!(parts.running(), ["lasting"]);
        ended.to_string()
    }

    #[tokio::test]
    async fn a_part_that_returns_is_named() {
        assert_eq!(
            only_end(async { Ok(()) }).await,
            "brief ended, though it should run for ever"
        );
    }

    #[tokio::test]
    async fn a_part_that_fails_is_named_with_its_error() {
        assert_eq!(
            only_end(async { Err(io::Error::other("no luck")) }).await,
            "brief failed: no luck"
        );
    }

    #[tokio::test]
    async fn a_part_that_panics_is_named_with_its_message() {
        assert_eq!(
            only_end(async { panic!("at {}", "noon") }).await,
            "brief panicked: at noon"
        );
        assert_eq!(
            only_end(async { panic!("plain") }).await,
            "brief panicked: plain"
        );
    }

    #[tokio::test]
    async fn no_part_is_left_after_all_have_ended() {
        let mut parts = Parts::default();
        parts.start_on(&Handle::current(), "one", async { io::Result::Ok(()) });
        parts.start_on(&Handle::current(), "two", async { io::Result::Ok(()) });
        let mut ends = Vec::new();
        while let Some(ended) = parts.next_end().await {
            ends.push(ended.part);
        }
        ends.sort_unstable();
        assert_eq!(ends, ["one", "two"]);
        assert!(parts.running().is_empty());
    }
}
