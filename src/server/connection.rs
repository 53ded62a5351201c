//! One connection: its handshake, its requests, and what it waits for.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt as _;

/// The state of one connection, shared by its task and the server.
#[derive(Debug)]
pub(super) struct Connection {
    peer: SocketAddr,
    /// What it waits for, and since when.
    phase: Mutex<(Phase, Instant)>,
}

/// What a connection waits for. The first in this order are closed first for new connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// The TLS handshake.
    Handshake,
    /// The first request, up to the end of its header. The pool of a Go client opens connections that it
    /// does not use at once.
    New,
    /// The next request, up to the end of its header.
    Idle,
    /// The body, the response, or the client that reads it.
    Busy,
}

/// How far the stop of the server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// It is not stopping.
    Open,
    /// Responses ask their clients to close the connection.
    Grace,
    /// Connections that wait for their next request end.
    NoIdle,
    /// Connections that wait for their first request end, too.
    NoNew,
}

/// What the connections of a listener have in common.
#[derive(Clone)]
pub(super) struct Served {
    pub(super) router: Router,
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) header_bytes: usize,
    pub(super) handshake_errors: Counter,
    pub(super) stage: watch::Receiver<Stage>,
}

impl Connection {
    pub(super) fn new(peer: SocketAddr) -> Self {
        Self {
            peer,
            phase: Mutex::new((Phase::Handshake, Instant::now())),
        }
    }

    pub(super) fn phase(&self) -> (Phase, Instant) {
        *self.phase.lock()
    }

    fn enter(&self, phase: Phase) {
        *self.phase.lock() = (phase, Instant::now());
    }
}

/// A request in progress. The connection is idle when this is dropped: with the response and the last of its
/// bytes.
struct Busy(Arc<Connection>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.enter(Phase::Idle);
    }
}

impl Served {
    /// Serves a connection to its end.
    pub(super) async fn serve(self, socket: TcpStream, connection: Arc<Connection>) {
        let Some(tls) = &self.tls else {
            return self.requests(socket, connection).await;
        };
        let mut stage = self.stage.clone();
        let accepted = tokio::select! {
            accepted = tls.accept(socket) => accepted,
            _ = stage.wait_for(|stage| *stage == Stage::NoNew) => return,
        };
        match accepted {
            Ok(stream) => self.requests(stream, connection).await,
            Err(error) => {
                self.handshake_errors.inc();
                tracing::debug!(peer = %connection.peer, %error, "a TLS handshake failed");
            }
        }
    }

    async fn requests(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        connection: Arc<Connection>,
    ) {
        connection.enter(Phase::New);
        let service = service_fn(|request| self.respond(Arc::clone(&connection), request));
        let mut http = http1::Builder::new();
        // The server enforces the time limits.
        http.max_buf_size(self.header_bytes)
            .header_read_timeout(None);
        let requests = http.serve_connection(TokioIo::new(stream), service);
        let mut requests = std::pin::pin!(requests);
        let mut stage = self.stage.clone();
        let is_over = stage.wait_for(|stage| match stage {
            Stage::Open | Stage::Grace => false,
            Stage::NoIdle => connection.phase().0 >= Phase::Idle,
            Stage::NoNew => true,
        });
        // The first error ends the connection. The client knows more about it.
        tokio::select! {
            biased;
            _ = requests.as_mut() => return,
            _ = is_over => {}
        }
        requests.as_mut().graceful_shutdown();
        let _ = requests.await;
    }

    async fn respond(
        &self,
        connection: Arc<Connection>,
        mut request: Request<Incoming>,
    ) -> Result<Response<Body>, Infallible> {
        connection.enter(Phase::Busy);
        request.extensions_mut().insert(connection.peer);
        let busy = Arc::new(Busy(connection));
        let has_body = !request.body().is_end_stream();
        let reads_body = request.method() == Method::POST;
        let mut response = self.router.clone().oneshot(request).await?;
        // After a body that nobody reads, hyper takes the next request before the client has read this
        // response, and keeps responses without a body in a buffer without a limit (`proto/h1/conn.rs`,
        // `poll_drain_or_close_read` and `can_write_head`).
        let is_read = !has_body || reads_body && response.status() == StatusCode::OK;
        if !is_read || *self.stage.borrow() >= Stage::Grace {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
        }
        Ok(response.map(|body| {
            Body::new(
                body.map_frame(move |frame| {
                    frame.map_data(|data| held_by(data, Arc::clone(&busy)))
                }),
            )
        }))
    }
}

/// Bytes of a response that keep `share` until they are written to the connection.
pub(crate) fn held_by<S: Send + Sync + 'static>(
    text: impl AsRef<[u8]> + Send + Sync + 'static,
    share: S,
) -> Bytes {
    struct Held<T, S> {
        text: T,
        _share: S,
    }
    impl<T: AsRef<[u8]>, S> AsRef<[u8]> for Held<T, S> {
        fn as_ref(&self) -> &[u8] {
            self.text.as_ref()
        }
    }
    let _share = share;
    Bytes::from_owner(Held { text, _share })
}
