//! The HTTP/1.1 server of the three listeners: health, metrics and webhooks. It accepts connections up to a
//! limit, serves each in a task with hyper, closes those that keep it waiting, and stops without failing
//! requests. Contains no routes; the listeners differ in their [`Limits`].
//! Used by `manager` and `webhook`.

mod connection;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::budget::Limits;
use crate::log_limit::LogLimit;
pub(crate) use connection::held_by;
use connection::{Connection, Phase, Served, Stage};

/// Length of the accept queue. The kernel drops connections beyond that, and the client retries a second
/// later, which is too late for a probe.
const BACKLOG: i32 = 4096;
/// Pause after a failed accept. The usual cause is too many open files, which lasts a while.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// Time between two checks of the deadlines.
const SWEEP: Duration = Duration::from_millis(250);
/// If all connections are taken, one that waits for its client is closed for a new one, but not before
/// this time. So each client has time for a handshake and a request, and a flood has a limited rate.
const LEAST_TIME: Duration = Duration::from_secs(1);
/// At the end of the grace period, the listener closes when nobody has connected for this time.
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

/// Metrics of a listener.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counters {
    /// Open connections, including those in their handshake.
    pub(crate) connections: Gauge,
    /// Connections that were closed for new ones.
    pub(crate) evicted: Counter,
    /// Failed TLS handshakes.
    pub(crate) handshake_errors: Counter,
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

/// The open connections of a listener.
struct Connections {
    name: &'static str,
    served: Served,
    limits: Limits,
    counters: Counters,
    stage: watch::Sender<Stage>,
    /// The task of each connection. A connection that was closed counts until its task has ended.
    tasks: JoinSet<()>,
    open: HashMap<Id, (AbortHandle, Arc<Connection>)>,
    /// A new connection that waits until another one has ended.
    waiting: Option<(TcpStream, SocketAddr)>,
}

impl Serving {
    /// Serves until `shutdown` completes, and then for at most `stopping`. Requests carry the address of
    /// their client, a `SocketAddr`, as an extension.
    ///
    /// # Errors
    /// The error of the operating system if the listener cannot be set up. No later errors.
    pub(crate) async fn run(self, shutdown: impl Future<Output = ()>) -> io::Result<()> {
        rustix::net::listen(&self.listener, BACKLOG)?;
        let (stage, stages) = watch::channel(Stage::Open);
        let mut connections = Connections {
            name: self.name,
            served: Served {
                router: self.router,
                tls: self.tls.map(TlsAcceptor::from),
                header_bytes: self.limits.header_bytes,
                handshake_errors: self.counters.handshake_errors.clone(),
                stage: stages,
            },
            limits: self.limits,
            counters: self.counters,
            stage,
            tasks: JoinSet::new(),
            open: HashMap::new(),
            waiting: None,
        };
        connections.accept_until(shutdown, &self.listener).await;
        connections.stop(self.listener, self.stopping).await;
        Ok(())
    }
}

impl Connections {
    /// Accepts connections, and closes those whose time is over, until `end`.
    async fn accept_until(&mut self, end: impl Future<Output = ()>, listener: &TcpListener) {
        let mut end = std::pin::pin!(end);
        let mut sweep = interval(SWEEP);
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.admit();
            tokio::select! {
                biased;
                () = &mut end => return,
                Some(ended) = self.tasks.join_next_with_id() => self.remove(ended),
                _ = sweep.tick() => self.close_overdue(),
                accepted = listener.accept(), if self.waiting.is_none() => self.accepted(accepted).await,
            }
        }
    }

    async fn accepted(&mut self, accepted: io::Result<(TcpStream, SocketAddr)>) {
        static FAILED: LogLimit = LogLimit::new();
        match accepted {
            Ok(accepted) => self.waiting = Some(accepted),
            Err(error) => {
                if let Some(omitted) = FAILED.admit() {
                    let server = self.name;
                    tracing::warn!(server, %error, omitted, "cannot accept a connection");
                }
                sleep(ACCEPT_RETRY).await;
            }
        }
    }

    /// Serves the new connection if there is room, or closes another one for it.
    fn admit(&mut self) {
        let Some((socket, peer)) = self.waiting.take() else {
            return;
        };
        if self.tasks.len() >= self.limits.connections {
            self.waiting = Some((socket, peer));
            return self.evict();
        }
        // A response is one small write. Nagle's algorithm would delay it by up to 40 ms.
        let _ = socket.set_nodelay(true);
        let connection = Arc::new(Connection::new(peer));
        let serve = self.served.clone().serve(socket, Arc::clone(&connection));
        let task = self.tasks.spawn(serve);
        self.open.insert(task.id(), (task, connection));
        self.counters.connections.inc();
    }

    fn remove(&mut self, ended: Result<(Id, ()), JoinError>) {
        let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
        self.open.remove(&id);
        self.counters.connections.dec();
    }

    /// Closes the connection that has waited longest for its client, of those without a request if there
    /// is any. Closes none if the last one that was closed has not ended, or if all are new or busy.
    fn evict(&mut self) {
        if self.open.len() < self.tasks.len() {
            return;
        }
        let now = Instant::now();
        let waiting = self.open.iter().filter_map(|(id, (_, connection))| {
            let (phase, since) = connection.phase();
            let is_due = phase != Phase::Busy && now.duration_since(since) >= LEAST_TIME;
            is_due.then_some(((phase, since), *id))
        });
        let Some((_, id)) = waiting.min() else {
            return;
        };
        if let Some((task, _)) = self.open.remove(&id) {
            task.abort();
            self.counters.evicted.inc();
        }
    }

    fn close_overdue(&self) {
        let now = Instant::now();
        for (task, connection) in self.open.values() {
            let (phase, since) = connection.phase();
            let limit = match phase {
                Phase::Handshake => self.limits.handshake,
                Phase::New | Phase::Idle => self.limits.idle,
                Phase::Busy => self.limits.request,
            };
            if now.duration_since(since) >= limit {
                task.abort();
            }
        }
    }

    /// Grace period, then drain.
    async fn stop(mut self, listener: TcpListener, stopping: Stopping) {
        let began = Instant::now();
        self.stage.send_replace(Stage::Grace);
        self.accept_until(sleep(stopping.grace), &listener).await;
        self.log_phase("grace", began);

        let began = Instant::now();
        let drain = async {
            // Without this, the kernel would reset the connections in the queue.
            while self.waiting.is_none()
                && let Ok(accepted) = timeout(LAST_LOOK, listener.accept()).await
            {
                self.accepted(accepted).await;
                self.admit();
            }
            drop(listener);
            self.stage.send_replace(Stage::NoIdle);
            let newcomers = NEWCOMER_TIME.min(stopping.drain / 2);
            let _ = timeout(newcomers, self.all_ended()).await;
            self.stage.send_replace(Stage::NoNew);
            self.all_ended().await;
        };
        let in_time = timeout(stopping.drain, drain).await.is_ok();
        self.log_phase("drain", began);
        if !in_time {
            let (server, connections) = (self.name, self.tasks.len());
            tracing::warn!(server, connections, "requests in progress are aborted");
        }
        // The tasks that are left end with their set.
        self.counters.connections.dec_by(self.tasks.len() as i64);
    }

    async fn all_ended(&mut self) {
        while let Some(ended) = self.tasks.join_next_with_id().await {
            self.remove(ended);
        }
    }

    fn log_phase(&self, step: &str, began: Instant) {
        // The stop of the other servers is one phase of the stop of the process, and is logged there.
        if self.name != "webhook" {
            return;
        }
        let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let phase = format!("{} {step}", self.name);
        let connections = self.tasks.len();
        tracing::info!(phase, took_ms, connections, "stop phase completed");
    }
}

#[cfg(test)]
mod tests;
