//! The HTTP/1.1 server of the three listeners: health, metrics and webhooks. It is axum-server with a limit of
//! connections, time limits for the clients, and a stop that fails no request. Contains no routes; the
//! listeners differ in their [`Limits`].

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody as _};
use axum::http::{HeaderValue, Method, Request, Response, StatusCode, header};
use axum_server::accept::Accept;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use axum_server::{Handle, Server};
use futures::future::BoxFuture;
use futures::{FutureExt as _, TryFutureExt as _};
use hyper::body::Incoming;
use hyper_util::rt::TokioTimer;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::ResolvesServerCert;
use rustls::version::{TLS12, TLS13};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};
use tower::{ServiceExt as _, service_fn};

use crate::metric::Counted;

/// Length of the accept queue. The kernel drops connections beyond that, and the client retries a second
/// later, which is too late for a probe.
const BACKLOG: i32 = 4096;
/// Maximum time of a TLS handshake.
pub const HANDSHAKE: Duration = Duration::from_secs(10);
/// The kernel closes a connection whose client takes no more of a response for this time, in ms.
const UNREAD_MS: u32 = 10_000;

/// Limits of one listener.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Maximum number of open connections. Further ones wait in the kernel's queue.
    pub connections: usize,
    /// Maximum bytes of a request header, and of one read of a body.
    pub header_bytes: usize,
    /// Maximum wait for the header of the first or the next request.
    pub idle: Duration,
}

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
pub struct Counters {
    /// Open connections, including those in their handshake.
    pub connections: Gauge,
    /// Failed TLS handshakes.
    pub handshake_errors: Counter,
}

/// A server that has not been started.
pub struct Serving {
    /// Its name in the log: `webhook`, `health`, `metrics`.
    pub name: &'static str,
    /// Its socket, bound.
    pub listener: TcpListener,
    /// The certificates, and the minimum version; `None`: plain HTTP.
    pub tls: Option<(Arc<dyn ResolvesServerCert>, TlsVersion)>,
    /// What it answers.
    pub router: Router,
    /// What its clients may take.
    pub limits: Limits,
    /// Its metrics.
    pub counters: Counters,
    /// Time limits of its stop.
    pub stopping: Stopping,
}

/// The minimum TLS version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2 and 1.3.
    Tls12,
    /// TLS 1.3 only.
    Tls13,
}

impl FromStr for TlsVersion {
    type Err = &'static str;

    /// Parses the names that the Kubernetes components accept, or the bare number.
    fn from_str(text: &str) -> Result<Self, &'static str> {
        match text {
            "VersionTLS12" | "1.2" => Ok(Self::Tls12),
            "VersionTLS13" | "1.3" => Ok(Self::Tls13),
            _ => Err("give VersionTLS12 or VersionTLS13"),
        }
    }
}

impl Serving {
    /// Serves until `shutdown` completes, and then for at most `stopping`. Requests carry the address of
    /// their client, a `SocketAddr`, as an extension.
    ///
    /// # Errors
    /// TLS or the listener cannot be set up. No later errors.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> io::Result<()> {
        // On Linux, the connections inherit the options. A response is one small write, which Nagle's
        // algorithm would delay by up to 40 ms.
        rustix::net::sockopt::set_tcp_nodelay(&self.listener, true)?;
        rustix::net::sockopt::set_tcp_user_timeout(&self.listener, UNREAD_MS)?;
        rustix::net::listen(&self.listener, BACKLOG)?;

        let is_stopping = Arc::new(AtomicBool::new(false));
        let permits = Arc::new(Semaphore::new(self.limits.connections));
        let (stops, open) = (Arc::clone(&is_stopping), self.counters.connections);
        // axum-server waits for this before it accepts the next connection.
        let connect = service_fn(move |peer: SocketAddr| {
            let (router, is_stopping) = (self.router.clone(), Arc::clone(&stops));
            let (permit, open) = (Arc::clone(&permits).acquire_owned(), open.clone());
            async move {
                let open = Arc::new((permit.await?, Counted::new(open)));
                let respond = move |mut request: Request<Incoming>| {
                    // Lives as long as the connection.
                    let _open = &open;
                    request.extensions_mut().insert(peer);
                    respond(router.clone(), Arc::clone(&is_stopping), request)
                };
                Ok::<_, AcquireError>(service_fn(respond))
            }
        });

        let handle = Handle::new();
        let server = Server::<SocketAddr>::from_listener(self.listener);
        let mut server = server.handle(handle.clone());
        let mut http = server.http_builder().http1();
        http.timer(TokioTimer::new());
        http.max_buf_size(self.limits.header_bytes);
        http.header_read_timeout(self.limits.idle);
        let mut serve = match self.tls {
            None => server.http1_only().serve(connect).boxed(),
            Some((certificates, minimum)) => {
                let errors = self.counters.handshake_errors;
                let tls = Tls::new(certificates, minimum, errors).map_err(io::Error::other)?;
                // `acceptor` resets the version.
                server.acceptor(tls).http1_only().serve(connect).boxed()
            }
        };
        tokio::select! {
            served = &mut serve => return served,
            () = shutdown => {}
        }
        // A server without a grace period stops as one phase of the stop of the process, which is logged there.
        let has_phases = !self.stopping.grace.is_zero();
        let log_phase = |step, began: Instant| {
            if has_phases {
                let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
                let phase = format!("{} {step}", self.name);
                tracing::info!(phase, took_ms, "stop phase completed");
            }
        };
        let began = Instant::now();
        is_stopping.store(true, Ordering::Relaxed);
        tokio::select! {
            served = &mut serve => return served,
            () = sleep(self.stopping.grace) => {}
        }
        log_phase("grace", began);
        let began = Instant::now();
        handle.graceful_shutdown(None);
        // The limit of axum-server begins only when a connection that waits for others is accepted.
        let in_time = timeout(self.stopping.drain, serve).await.is_ok();
        log_phase("drain", began);
        if !in_time {
            let (server, connections) = (self.name, handle.connection_count());
            tracing::warn!(server, connections, "requests in progress are aborted");
            handle.shutdown();
        }
        Ok(())
    }
}

async fn respond(
    router: Router,
    is_stopping: Arc<AtomicBool>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let has_body = !request.body().is_end_stream();
    let reads_body = request.method() == Method::POST;
    let mut response = router.oneshot(request).await?;
    // After a body that nobody reads, hyper takes the next request before the client has read this
    // response, and keeps responses without a body in a buffer without a limit (`proto/h1/conn.rs`,
    // `poll_drain_or_close_read` and `can_write_head`).
    let is_read = !has_body || reads_body && response.status() == StatusCode::OK;
    if !is_read || is_stopping.load(Ordering::Relaxed) {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    Ok(response)
}

/// Counts failed handshakes.
#[derive(Debug, Clone)]
struct Tls {
    acceptor: RustlsAcceptor,
    errors: Counter,
}

impl Tls {
    fn new(
        certificates: Arc<dyn ResolvesServerCert>,
        minimum: TlsVersion,
        errors: Counter,
    ) -> Result<Self, rustls::Error> {
        let versions = match minimum {
            TlsVersion::Tls12 => &[&TLS13, &TLS12][..],
            TlsVersion::Tls13 => &[&TLS13],
        };
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)?
            .with_no_client_auth()
            .with_cert_resolver(certificates);
        // API servers offer only HTTP/1.1 to webhooks (kubernetes#82090). HTTP/2, which had
        // denial-of-service bugs (CVE-2023-44487, RUSTSEC-2024-0332), is linked but not offered.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        // API servers do not resume sessions, so a ticket only costs a write and memory.
        config.send_tls13_tickets = 0;
        let acceptor = RustlsAcceptor::new(RustlsConfig::from_config(Arc::new(config)));
        Ok(Self {
            acceptor: acceptor.handshake_timeout(HANDSHAKE),
            errors,
        })
    }
}

impl<S: Send + 'static> Accept<TcpStream, S> for Tls {
    type Stream = <RustlsAcceptor as Accept<TcpStream, S>>::Stream;
    type Service = S;
    type Future = BoxFuture<'static, io::Result<(Self::Stream, S)>>;

    fn accept(&self, stream: TcpStream, service: S) -> Self::Future {
        let errors = self.errors.clone();
        let accepted = self.acceptor.accept(stream, service);
        let accepted = accepted.inspect_err(move |error| {
            // A handshake that takes too long is not counted as an error.
            if error.kind() != io::ErrorKind::TimedOut {
                errors.inc();
                tracing::debug!(%error, "a TLS handshake failed");
            }
        });
        accepted.boxed()
    }
}

/// A response body that keeps `memory` until it is written to the connection.
pub fn held(text: Vec<u8>, memory: Option<OwnedSemaphorePermit>) -> Body {
    struct Held {
        text: Vec<u8>,
        _memory: Option<OwnedSemaphorePermit>,
    }
    impl AsRef<[u8]> for Held {
        fn as_ref(&self) -> &[u8] {
            &self.text
        }
    }
    let _memory = memory;
    Bytes::from_owner(Held { text, _memory }).into()
}

#[cfg(test)]
mod tests;
