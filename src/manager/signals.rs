//! The signals that stop the process.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM, which the kubelet sends, and SIGINT and SIGHUP, which a terminal sends.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    /// Installs the handlers of these signals for the rest of the process. Call it first, in a runtime:
    /// without it, a signal kills the process, or is ignored if it is the first of its container.
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next signal, and returns its name.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            Some(()) = self.terminate.recv() => "SIGTERM",
            Some(()) = self.interrupt.recv() => "SIGINT",
            Some(()) = self.hang_up.recv() => "SIGHUP",
            else => std::future::pending().await,
        }
    }
}
