//! Leadership as seen by the controllers: when the workers start, and whether a write may be sent.
//! Independent of the election.
//! Used by `call` and `controllers`.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

#[cfg(test)]
use crate::explorer::twins::{self, Twin};

/// Whether this process may write to the cluster now.
pub trait MayWrite: Send + Sync {
    /// Maximum duration of a write that starts now; `None` if it must not start. Once `None`, always
    /// `None`.
    ///
    /// Called before and during every write, so it must be cheap and must not block.
    fn time_left(&self) -> Option<Duration>;
}

/// When the workers start, and until when they may write.
#[derive(Clone)]
pub struct Leadership {
    begun: watch::Receiver<bool>,
    may_write: Arc<dyn MayWrite>,
}

impl Leadership {
    /// The workers wait until `begun` is true; each write checks `may_write`.
    pub fn new(begun: watch::Receiver<bool>, may_write: Arc<dyn MayWrite>) -> Self {
        Leadership { begun, may_write }
    }

    /// Without an election: immediately and forever.
    pub fn sole() -> Self {
        let (_, begun) = watch::channel(true);
        Leadership::new(begun, Arc::new(Always))
    }

    /// Completes when this process is elected; may never complete.
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
