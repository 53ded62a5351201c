//! The parts of the process: named tasks that run until the process stops. The end of any part, by
//! return, error or panic, stops the process; this file only reports which part ended and how.

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::future::Future;

use tokio::runtime::Handle;
use tokio::task::{Id, JoinError, JoinSet};

use quartet_http::error_report;

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

/// A set of running parts. Dropping it aborts them.
#[derive(Debug, Default)]
pub(super) struct Parts {
    tasks: JoinSet<Outcome>,
    /// Names of the tasks whose end has not been reported.
    names: HashMap<Id, &'static str>,
}

/// A part that ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ended {
    /// Its name.
    pub(super) part: &'static str,
    /// The kind of its end.
    pub(super) how: How,
}

/// How a part ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum How {
    /// It returned without an error.
    Returned,
    /// It returned this error.
    Failed(String),
    /// It panicked with this message.
    Panicked(String),
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
        let part = async move { part.await.map_err(Into::into) };
        let task = self.tasks.spawn_on(part, runtime);
        self.names.insert(task.id(), name);
    }

    /// Waits for the next part to end; `None` when none is left. Cancel-safe.
    pub(super) async fn next_end(&mut self) -> Option<Ended> {
        let (id, how) = match self.tasks.join_next_with_id().await? {
            Ok((id, Ok(()))) => (id, How::Returned),
            Ok((id, Err(error))) => (id, How::Failed(error_report(error.as_ref()))),
            Err(error) => (error.id(), How::Panicked(panic_message(error))),
        };
        Some(Ended {
            part: self.names.remove(&id).unwrap_or("unnamed"),
            how,
        })
    }

    /// Aborts the running parts at their next await point.
    pub(super) fn abort(&mut self) {
        self.tasks.abort_all();
    }

    /// The names of the parts that are still running, sorted.
    pub(super) fn running(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = self.names.values().copied().collect();
        names.sort_unstable();
        names
    }
}

fn panic_message(error: JoinError) -> String {
    let Ok(payload) = error.try_into_panic() else {
        return "aborted".to_owned();
    };
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
    text.unwrap_or("not text").to_owned()
}

impl fmt::Display for Ended {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = self.part;
        match &self.how {
            How::Returned => write!(formatter, "{part} ended, though it should run for ever"),
            How::Failed(error) => write!(formatter, "{part} failed: {error}"),
            How::Panicked(message) => write!(formatter, "{part} panicked: {message}"),
        }
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
