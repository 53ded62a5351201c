//! Leadership as the controllers see it: when the workers start, and whether a write may be sent.
//! The election itself is elsewhere.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

#[cfg(test)]
use crate::explorer::twins::{self, Twin};

/// Says whether this process may write to the cluster at this moment.
pub trait MayWrite: Send + Sync {
    /// How long a write that begins now may take, at most; `None`: it must not begin. Once
    /// it is `None` it stays so for the rest of the process's life.
    ///
    /// Asked before and during every write, so it has to be cheap and must not block.
    fn time_left(&self) -> Option<Duration>;
}

/// When the workers start, and until when they may write.
#[derive(Clone)]
pub struct Leadership {
    begun: watch::Receiver<bool>,
    may_write: Arc<dyn MayWrite>,
}

impl Leadership {
    /// The workers wait until `begun` turns true; each write asks `may_write`.
    pub fn new(begun: watch::Receiver<bool>, may_write: Arc<dyn MayWrite>) -> Self {
        Leadership { begun, may_write }
    }

    /// Without an election: immediately and forever.
    pub fn sole() -> Self {
        let (_, begun) = watch::channel(true);
        Leadership::new(begun, Arc::new(Always))
    }

    /// Resolves on election; may never resolve.
    pub(crate) async fn elected(mut self) {
        if self.begun.wait_for(|begun| *begun).await.is_err() {
            // The election has ended.
            std::future::pending().await
        }
    }

    /// See [`MayWrite::time_left`].
    pub(crate) fn time_left(&self) -> Option<Duration> {
        #[cfg(test)]
        if twins::is(Twin::SecondWriter) {
            return Some(Duration::MAX);
        }
        self.may_write.time_left()
    }
}

struct Always;

impl MayWrite for Always {
    fn time_left(&self) -> Option<Duration> {
        Some(Duration::MAX)
    }
}
