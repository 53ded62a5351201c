//! The HTTP/1.1 server behind all three listeners: health, metrics and webhooks. It is
//! axum-server with a listener, a stream and a service of our own, which share one record per
//! connection: that bounds how many connections there are, decides which gives way, and ends
//! them without failing a call. Knows no route; the listeners differ in their [`Limits`].

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
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsAcceptor;

use connections::Connections;
pub(crate) use connections::{MIN_BYTES, Slot, WINDOW};
pub(crate) use glue::long_body;
use glue::{Acceptor, Listener, Peer};

/// How long an idle connection is still listened to in a drain: what the kernel has received
/// already is read in that time.
const LAST_LOOK: Duration = Duration::from_millis(20);
/// How long a connection that has sent no request yet has for its first one in a drain.
const NEWCOMER_TIME: Duration = Duration::from_secs(1);
/// Answers from this length on are watched until the client has taken them.
pub(crate) const LONG_ANSWER: usize = crate::budget::FREE_BYTES;

/// What one listener allows. `docs/memory.md` adds the bytes up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Most open connections.
    pub(crate) connections: usize,
    /// Most bytes of a request header, and of a body that is read at a time.
    pub(crate) header_bytes: usize,
    /// From accept to the end of the first request's header, TLS handshake included.
    pub(crate) first_header: Duration,
    /// Longest wait for the next request.
    pub(crate) idle: Duration,
    /// Longest time for a client to take a long answer.
    pub(crate) take: Duration,
}

/// How long a stop may take.
#[derive(Debug, Clone, Copy)]
pub struct Stopping {
    /// How long new connections are still accepted, while every answer asks its client to
    /// close: until all API servers have learnt that this replica is going.
    pub grace: Duration,
    /// How long calls that are then running may take to end.
    pub drain: Duration,
}

/// What a listener counts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counters {
    /// Open connections, in their handshake or after it.
    pub(crate) connections: Gauge,
    /// Connections that were closed to make room for others.
    pub(crate) evicted: Counter,
    /// TLS handshakes that failed.
    pub(crate) handshake_errors: Counter,
}

/// One server that was not started.
pub(crate) struct Serving {
    /// Names it in the log: `webhook`, `health`, `metrics`.
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
    /// Serves until `shutdown` ends, and then for as long as `stopping` says. Requests carry
    /// the [`Slot`] of their connection as an extension.
    ///
    /// # Errors
    /// What the system says when the listener cannot be set up; never after that.
    pub(crate) async fn run(self, shutdown: impl Future<Output = ()>) -> io::Result<()> {
        let connections = Connections::new(self.limits, self.counters);
        let listener = Listener::new(self.name, self.listener, Arc::clone(&connections))?;
        let handle = axum_server::Handle::new();
        let server = Server::<Peer>::from_listener(listener).handle(handle.clone());
        let stop = async {
            shutdown.await;
            stop(self.name, &connections, self.stopping).await;
            // Cuts short whatever is left.
            handle.shutdown();
            std::future::pending::<Infallible>().await
        };
        let tls = self.tls.map(TlsAcceptor::from);
        let mut server = server.acceptor(Acceptor { tls }).http1_only();
        let http = &mut server.http_builder().http1();
        // The connections see to the time.
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

/// Grace, then drain. axum-server's own graceful shutdown would reset the connections in the
/// kernel's queue, and close those that it has read nothing from though a request may be under
/// way; so connections are ended by an end of file on their stream instead.
async fn stop(name: &'static str, connections: &Connections, stopping: Stopping) {
    let began = Instant::now();
    connections.ask_to_close();
    sleep(stopping.grace).await;
    connections.close_listener().await;
    log_phase(name, "grace", began, connections.len());

    let began = Instant::now();
    let drain = async {
        sleep(LAST_LOOK).await;
        connections.end_idle(|is_validated| is_validated);
        let newcomers = async {
            sleep(NEWCOMER_TIME.min(stopping.drain / 2)).await;
            connections.end_idle(|_| true);
            std::future::pending().await
        };
        tokio::select! {
            () = connections.all_left() => {}
            () = newcomers => {}
        }
    };
    let in_time = timeout(stopping.drain, drain).await.is_ok();
    let left = connections.len();
    log_phase(name, "drain", began, left);
    if !in_time {
        tracing::warn!(server = name, connections = left, "calls are cut short");
    }
}

fn log_phase(server: &'static str, step: &str, began: Instant, connections: usize) {
    // The stop of the other servers is one phase of the process's, and is logged as such.
    if server != "webhook" {
        return;
    }
    let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let phase = format!("{server} {step}");
    tracing::info!(phase, took_ms, connections, "a phase of the stop ended");
}
