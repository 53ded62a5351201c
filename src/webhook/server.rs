//! The TLS server: accepts, speaks HTTP/1.1, and stops without dropping a call. hyper is used
//! directly, as for the health server: what the seats need to know of each connection (what it
//! waits for, when to close it) is out of reach behind a ready-made server.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderValue, Request, StatusCode, header};
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::server::ResolvesServerCert;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tower::Service as _;

use super::body::FREE_BYTES;
use super::metrics::Metrics;
use super::routes::Handlers;
use super::seats::{self, Seat, Seats};
use super::tls::{TlsError, TlsVersion, server_config};

/// Most bytes of a request header, and of a body that is read at a time.
const BUFFER_BYTES: usize = 64 * 1024;
/// Pause after a failed accept: the usual cause, too many open files, does not pass at once.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// How long a connection that came last of all has to send its request.
const NEWCOMER_TIME: Duration = Duration::from_secs(1);
/// How long an idle connection is listened to before it is closed: what the kernel has
/// received already is read in that time.
const LAST_LOOK: Duration = Duration::from_millis(20);

/// How long a stop may take.
#[derive(Debug, Clone, Copy)]
pub struct Stopping {
    /// How long new connections are still accepted, while every answer asks its client to
    /// close: until all API servers have learnt that this replica is going.
    pub grace: Duration,
    /// How long calls that are then running may take to end.
    pub drain: Duration,
}

/// Serves `handlers` on `listener` until `shutdown` ends, and then for as long as `stopping`
/// says. Certificates are asked for at each handshake, so that they can change at any time.
///
/// # Errors
/// [`TlsError`], before anything is accepted; never after that.
pub async fn serve(
    listener: TcpListener,
    certificates: Arc<dyn ResolvesServerCert>,
    minimum: TlsVersion,
    handlers: Handlers,
    stopping: Stopping,
    shutdown: impl Future<Output = ()>,
) -> Result<(), TlsError> {
    let tls = TlsAcceptor::from(server_config(certificates, minimum)?);
    let (drain, draining) = watch::channel(false);
    let server = Arc::new(Server {
        tls,
        router: handlers.router(),
        metrics: handlers.metrics().clone(),
        is_closing: AtomicBool::new(false),
        draining,
    });
    let mut connections = Connections {
        seats: Seats::new(server.metrics.clone()),
        server: Arc::clone(&server),
        running: JoinSet::new(),
    };
    connections.accept_until(shutdown, &listener).await;

    let began = Instant::now();
    server.is_closing.store(true, Ordering::Relaxed);
    connections
        .accept_until(sleep(stopping.grace), &listener)
        .await;
    connections.accept_waiting(listener);
    log_phase("webhook grace", began, connections.running.len());

    let began = Instant::now();
    drain.send_replace(true);
    let all_ended = async { while connections.running.join_next().await.is_some() {} };
    let in_time = timeout(stopping.drain, all_ended).await.is_ok();
    let left = connections.running.len();
    log_phase("webhook drain", began, left);
    if !in_time {
        tracing::warn!(connections = left, "webhook calls are cut short");
    }
    Ok(())
}

fn log_phase(phase: &'static str, began: Instant, connections: usize) {
    let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    tracing::info!(phase, took_ms, connections, "a phase of the stop ended");
}

/// What every connection needs.
struct Server {
    tls: TlsAcceptor,
    router: Router,
    metrics: Metrics,
    /// Answers ask their clients to close.
    is_closing: AtomicBool,
    /// Connections end as soon as nothing is running on them.
    draining: watch::Receiver<bool>,
}

/// The connections that are open, and what the next one needs.
struct Connections {
    server: Arc<Server>,
    seats: Arc<Seats>,
    running: JoinSet<()>,
}

impl Connections {
    async fn accept_until(&mut self, end: impl Future<Output = ()>, listener: &TcpListener) {
        let mut end = pin!(end);
        loop {
            tokio::select! {
                biased;
                () = &mut end => return,
                Some(_) = self.running.join_next() => {}
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => self.start(stream, peer),
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a connection");
                        sleep(ACCEPT_RETRY).await;
                    }
                }
            }
        }
    }

    /// Accepts what the kernel has accepted already, and closes the listener, which would
    /// reset those connections.
    fn accept_waiting(&mut self, listener: TcpListener) {
        let Ok(listener) = listener.into_std() else {
            return;
        };
        // The listener does not block: when nobody waits any more, it says so.
        for (stream, peer) in
            std::iter::from_fn(|| listener.accept().ok()).take(seats::MAX_CONNECTIONS)
        {
            let stream = stream.set_nonblocking(true).map(|()| stream);
            if let Ok(stream) = stream.and_then(TcpStream::from_std) {
                self.start(stream, peer);
            }
        }
    }

    fn start(&mut self, stream: TcpStream, peer: SocketAddr) {
        let Some(taker) = self.seats.take() else {
            return;
        };
        let server = Arc::clone(&self.server);
        self.running.spawn(async move {
            tokio::select! {
                () = server.serve_connection(stream, peer, &taker.seat) => {}
                () = taker.seat.is_lost() => {}
            }
            drop(taker);
        });
    }
}

impl Server {
    async fn serve_connection(&self, stream: TcpStream, peer: SocketAddr, seat: &Arc<Seat>) {
        // An answer is one small write; to wait for more to send costs 40 ms a call.
        let _ = stream.set_nodelay(true);
        let stream = match self.tls.accept(stream).await {
            Ok(stream) => stream,
            Err(error) => {
                self.metrics.handshake_errors.inc();
                tracing::debug!(%peer, %error, "a TLS handshake failed");
                return;
            }
        };
        let service = service_fn(|request| self.serve_request(request, seat));
        let connection = http1::Builder::new()
            // The seat sees to the time.
            .header_read_timeout(None)
            .max_buf_size(BUFFER_BYTES)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        let mut draining = self.draining.clone();
        let drained = async {
            drop(draining.wait_for(|draining| *draining).await);
            // hyper closes at once what it has not read a request from, though one may be there
            // or under way.
            let is_new = seat.is_new();
            sleep(if is_new { NEWCOMER_TIME } else { LAST_LOOK }).await;
        };
        let served = tokio::select! {
            biased;
            served = connection.as_mut() => served,
            () = drained => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = served {
            tracing::debug!(%peer, %error, "a connection ended early");
        }
    }

    async fn serve_request(
        &self,
        mut request: Request<Incoming>,
        seat: &Arc<Seat>,
    ) -> Result<axum::response::Response, Infallible> {
        seat.reads_body();
        request.extensions_mut().insert(Arc::clone(seat));
        let mut response = self.router.clone().call(request).await?;
        let is_long = response.body().size_hint().lower() > FREE_BYTES as u64;
        seat.answered(response.status() == StatusCode::OK, is_long);
        if self.is_closing.load(Ordering::Relaxed) {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
        }
        Ok(response)
    }
}
