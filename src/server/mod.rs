//! The HTTP/1.1 server of the three listeners: health, metrics and webhooks. It is axum-server with a
//! custom listener, stream and service, which share one record per connection. They limit the number of
//! connections, choose which one to close, and end connections without failing requests. Contains no
//! routes; the listeners differ in their [`Limits`].
//! Used by `manager` and `webhook`.

mod connections;
mod glue;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum_server::Server;
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep, timeout};

use crate::budget::Limits;
use connections::Connections;
pub(crate) use connections::{Counters, MIN_BYTES, Slot, WINDOW};
pub(crate) use glue::long_body;
use glue::{Acceptor, Listener, Peer};

/// How long an idle connection stays open in a drain, to read requests that the kernel has already
/// received.
const LAST_LOOK: Duration = Duration::from_millis(20);
/// How long a connection that has sent no request yet stays open in a drain.
const NEWCOMER_TIME: Duration = Duration::from_secs(1);
/// Time limits of a stop.
#[derive(Debug, Clone, Copy)]
pub struct Stopping {
    /// How long new connections are still accepted, while every response asks its client to close:
    /// until all API servers know that this replica is stopping.
    pub grace: Duration,
    /// How long requests in progress may take after that.
    pub drain: Duration,
}

/// A server that has not been started.
pub(crate) struct Serving {
    /// Its name in the log: `webhook`, `health`, `metrics`.
    pub(crate) name: &'static str,
    pub(crate) listener: TcpListener,
    /// `None`: plain HTTP.
    pub(crate) tls: Option<Arc<ServerConfig>>,
    pub(crate) router: Router,
    pub(crate) limits: Limits,
    pub(crate) counters: Counters,
    pub(crate) stopping: Stopping,
}

impl Serving {
    /// Serves until `shutdown` completes, and then for at most `stopping`. Requests carry the [`Slot`]
    /// of their connection as an extension.
    ///
    /// # Errors
    /// The error of the operating system if the listener cannot be set up. No later errors.
    pub(crate) async fn run(self, shutdown: impl Future<Output = ()>) -> io::Result<()> {
        let connections = Connections::new(self.limits, self.counters);
        let listener = Listener::new(self.name, self.listener, Arc::clone(&connections))?;
        let handle = axum_server::Handle::new();
        let server = Server::<Peer>::from_listener(listener).handle(handle.clone());
        let stop = async {
            shutdown.await;
            stop(self.name, &connections, self.stopping).await;
            // Ends the remaining connections.
            handle.shutdown();
            std::future::pending::<Infallible>().await
        };
        let mut server = server.acceptor(Acceptor::new(self.tls)).http1_only();
        let http = &mut server.http_builder().http1();
        // The connections enforce the time limits.
        http.max_buf_size(self.limits.header_bytes)
            .header_read_timeout(None);
        let serve = server.serve(self.router.into_make_service());
        tokio::select! {
            served = serve => served,
            never = stop => match never {},
            never = connections.enforce_deadlines() => match never {},
        }
    }
}

/// Grace period, then drain. axum-server's graceful shutdown would reset the connections in the
/// kernel's queue, and close those that it has not read from, although a request may be on its way. So
/// connections are ended by an end of file on their stream.
async fn stop(name: &'static str, connections: &Connections, stopping: Stopping) {
    let began = Instant::now();
    connections.closing.cancel();
    sleep(stopping.grace).await;
    connections.close_listener.cancel();
    connections.listener_closed.cancelled().await;
    log_phase(name, "grace", began, connections.len());

    let began = Instant::now();
    let drain = async {
        sleep(LAST_LOOK).await;
        connections.end_idle(|is_validated| is_validated);
        let newcomers = NEWCOMER_TIME.min(stopping.drain / 2);
        let _ = timeout(newcomers, connections.wait_for(|open| open == 0)).await;
        connections.end_idle(|_| true);
        connections.wait_for(|open| open == 0).await;
    };
    let in_time = timeout(stopping.drain, drain).await.is_ok();
    let connections = connections.len();
    log_phase(name, "drain", began, connections);
    if !in_time {
        let server = name;
        tracing::warn!(server, connections, "requests in progress are aborted");
    }
}

fn log_phase(server: &'static str, step: &str, began: Instant, connections: usize) {
    // The stop of the other servers is one phase of the stop of the process, and is logged there.
    if server != "webhook" {
        return;
    }
    let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let phase = format!("{server} {step}");
    tracing::info!(phase, took_ms, connections, "stop phase completed");
}
