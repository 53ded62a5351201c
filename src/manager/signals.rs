//! The stop signal of the process: sent once, final, with any number of receivers. Independent of the
//! parts that stop.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// The sender. Dropping it also sends the signal, so that no task outlives its owner.
#[derive(Debug)]
pub struct Stopper {
    sender: watch::Sender<bool>,
}

/// The receiver. Clones receive the same signal.
#[derive(Debug, Clone)]
pub struct Shutdown {
    receiver: watch::Receiver<bool>,
}

/// A new sender and receiver.
pub fn shutdown() -> (Stopper, Shutdown) {
    let (sender, receiver) = watch::channel(false);
    (Stopper { sender }, Shutdown { receiver })
}

impl Stopper {
    /// Sends the stop signal. A second call has no effect.
    pub fn stop(&self) {
        self.sender.send_replace(true);
    }
}

impl Shutdown {
    /// Whether the signal was sent.
    pub fn is_stopping(&self) -> bool {
        *self.receiver.borrow() || self.receiver.has_changed().is_err()
    }

    /// Waits for the signal; returns at once if it was sent already.
    pub async fn stopped(mut self) {
        // An error means that the sender was dropped, which also signals the stop.
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
    /// Installs the handlers of both signals for the rest of the process. Call it before other parts
    /// start: without it, a signal kills the process.
    pub(super) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next signal, and returns its name.
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
