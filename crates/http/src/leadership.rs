//! Leadership as seen by the controllers: when the workers start, and whether a write may be sent.
//! Independent of the election.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

/// Tells when the workers may start, and whether a write may be sent.
#[derive(Clone)]
pub struct Leadership {
    begun: watch::Receiver<bool>,
    may_write: Arc<dyn Fn() -> Option<Duration> + Send + Sync>,
}

impl Leadership {
    /// The workers wait until `begun` is true. `may_write` returns the maximum duration of a write that
    /// starts now; `None` if it must not start. Once `None`, always `None`.
    ///
    /// It is called before and during every write, so it must be cheap and must not block.
    pub fn new(
        begun: watch::Receiver<bool>,
        may_write: impl Fn() -> Option<Duration> + Send + Sync + 'static,
    ) -> Self {
        Leadership {
            begun,
            may_write: Arc::new(may_write),
        }
    }

    /// Leadership without an election: held from the start, and never lost.
    pub fn sole() -> Self {
        let (_, begun) = watch::channel(true);
        Leadership::new(begun, || Some(Duration::MAX))
    }

    /// Completes when this process is elected; may never complete.
    pub async fn elected(mut self) {
        if self.begun.wait_for(|begun| *begun).await.is_err() {
            // The election has ended.
            std::future::pending().await
        }
    }

    /// Maximum duration of a write that starts now; see [`Leadership::new`].
    pub fn time_left(&self) -> Option<Duration> {
        (self.may_write)()
    }
}
