//! How the process is told to stop: once, for good, seen by any number of listeners.
//! Knows nothing of what stops.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// The side that stops. Dropping it stops too, so that nothing outlives its owner.
#[derive(Debug)]
pub struct Stopper {
    sender: watch::Sender<bool>,
}

/// The side that listens; clones hear the same.
#[derive(Debug, Clone)]
pub struct Shutdown {
    receiver: watch::Receiver<bool>,
}

/// A new pair of the two sides.
pub fn shutdown() -> (Stopper, Shutdown) {
    let (sender, receiver) = watch::channel(false);
    (Stopper { sender }, Shutdown { receiver })
}

impl Stopper {
    /// Tells every listener to stop. A second call changes nothing.
    pub fn stop(&self) {
        self.sender.send_replace(true);
    }
}

impl Shutdown {
    /// Whether it has been told to stop.
    pub fn is_stopping(&self) -> bool {
        *self.receiver.borrow() || self.receiver.has_changed().is_err()
    }

    /// Ends when it is told to stop, at once if that has happened.
    pub async fn stopped(mut self) {
        // An error means that the stopper is gone, which stops as well.
        let _ = self.receiver.wait_for(|stopping| *stopping).await;
    }
}

/// SIGTERM, which the kubelet sends, and SIGINT, which a terminal sends.
#[derive(Debug)]
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Takes over both signals for the rest of the process's life. To be called before
    /// anything starts, or an early signal ends the process in the middle of it.
    pub(super) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next of them; returns its name.
    pub(super) async fn next(&mut self) -> &'static str {
        tokio::select! {
            Some(()) = self.terminate.recv() => "SIGTERM",
            Some(()) = self.interrupt.recv() => "SIGINT",
            else => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_clone_hears_a_stop_even_one_that_listens_later() {
        let (stopper, shutdown) = shutdown();
        assert!(!shutdown.is_stopping());
        stopper.stop();
        assert!(shutdown.is_stopping());
        shutdown.clone().stopped().await;
        shutdown.stopped().await;
    }

    #[tokio::test]
    async fn a_dropped_stopper_stops() {
        let (stopper, shutdown) = shutdown();
        drop(stopper);
        assert!(shutdown.is_stopping());
        shutdown.stopped().await;
    }
}
