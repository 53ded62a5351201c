//! The signals that stop the process.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM, which the kubelet sends, and SIGINT, which a terminal sends.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Installs the handlers of both signals for the rest of the process. Call it first, in a runtime:
    /// without it, a signal kills the process, or is ignored if it is the first of its container.
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next signal, and returns its name.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            Some(()) = self.terminate.recv() => "SIGTERM",
            Some(()) = self.interrupt.recv() => "SIGINT",
            else => std::future::pending().await,
        }
    }
}
