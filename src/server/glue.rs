//! Adapters for axum-server: a listener that assigns slots, a stream that reports to its slot, an
//! acceptor that counts failed handshakes, and a service that reports requests to the slot.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, Request, Response, StatusCode, header};
use axum_server::accept::Accept;
use axum_server::{AddrListener, Address};
use futures::future::BoxFuture;
use hyper::body::{Body as _, Incoming};
use rustix::net::{Shutdown, SocketFlags};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::task::yield_now;
use tokio::time::sleep;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;
use tower::util::BoxCloneService;
use tower::{Service as _, service_fn};

use super::connections::{Connections, Slot};
use crate::budget::FREE_BYTES;
use crate::log_limit::LogLimit;

/// Pause after a failed accept. The usual cause is too many open files, which lasts a while.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Length of the accept queue; tokio's default is 128. The kernel drops connections beyond that, and
/// the client retries a second later, which is too late for a probe.
const BACKLOG: i32 = 4096;

/// Responses of at least this size are tracked until the client has read them.
const LONG_ANSWER: usize = FREE_BYTES;

/// The address type that selects [`Listener`] in axum-server.
#[derive(Debug, Clone)]
pub(super) struct Peer;

impl Address for Peer {
    type Stream = Stream;
    type Listener = Listener;
}

/// Accepts connections and assigns slots.
pub(super) struct Listener {
    server: &'static str,
    /// `None` after the listener is closed. Only axum-server's loop locks it.
    socket: Mutex<Option<TcpListener>>,
    connections: Arc<Connections>,
}

impl Listener {
    pub(super) fn new(
        server: &'static str,
        socket: TcpListener,
        connections: Arc<Connections>,
    ) -> io::Result<Self> {
        rustix::net::listen(&socket, BACKLOG)?;
        Ok(Self {
            server,
            socket: Mutex::new(Some(socket)),
            connections,
        })
    }

    /// The next connection. Never completes after the listener is closed.
    async fn next(&self) -> (TcpStream, SocketAddr) {
        static FAILED: LogLimit = LogLimit::new();
        let mut socket = self.socket.lock().await;
        while let Some(listener) = socket.as_ref() {
            let accepted = tokio::select! {
                biased;
                () = self.connections.close_listener.cancelled() => match accept_queued(listener) {
                    Some(accepted) => Ok(accepted),
                    None => {
                        *socket = None;
                        break;
                    }
                },
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok(accepted) => return accepted,
                Err(error) => {
                    if let Some(omitted) = FAILED.admit() {
                        let server = self.server;
                        tracing::warn!(server, %error, omitted, "cannot accept a connection");
                    }
                    sleep(ACCEPT_RETRY).await;
                }
            }
        }
        self.connections.listener_closed.cancel();
        std::future::pending().await
    }
}

/// The next connection of the kernel's queue, of which tokio may not have been notified yet. The peer
/// comes from the same call: of a connection that the client has reset meanwhile, `getpeername` fails,
/// and others may wait behind it.
pub(super) fn accept_queued(listener: &TcpListener) -> Option<(TcpStream, SocketAddr)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (stream, peer) = rustix::net::acceptfrom_with(listener, flags).ok()?;
    let peer = SocketAddr::try_from(peer?).ok()?;
    Some((TcpStream::from_std(stream.into()).ok()?, peer))
}

impl AddrListener<Stream, Peer> for Listener {
    async fn bind_to(_: Peer) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    async fn accept_stream(&self) -> io::Result<(Stream, Peer)> {
        loop {
            self.connections.wait_for_evicted().await;
            let (socket, peer) = self.next().await;
            // A response is one small write. Nagle's algorithm would delay it by up to 40 ms.
            let _ = socket.set_nodelay(true);
            if let Some(slot) = self.connections.admit(socket, peer) {
                return Ok((Stream { slot }, Peer));
            }
        }
    }

    fn get_local_addr(&self) -> io::Result<Peer> {
        Ok(Peer)
    }
}

/// A connection below TLS. Dropping it frees its slot.
#[derive(Debug)]
pub(super) struct Stream {
    slot: Arc<Slot>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.slot.connections.leave(&self.slot);
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let socket = &self.slot.socket;
        loop {
            ready!(socket.poll_read_ready(context))?;
            let unfilled = buffer.initialize_unfilled();
            let mut read = None;
            // A read that does not fill the buffer has emptied the socket. As in `TcpStream::poll_read` of
            // tokio, which needs the stream for itself, it is then no longer readable: the next call waits
            // for an event and does not ask the kernel first.
            let tried = socket.try_io(Interest::READABLE, || {
                let bytes = rustix::io::read(socket, &mut *unfilled)?;
                read = Some(bytes);
                match 0 < bytes && bytes < unfilled.len() {
                    true => Err(io::ErrorKind::WouldBlock.into()),
                    false => Ok(()),
                }
            });
            match (read, tried) {
                (Some(bytes), _) => {
                    buffer.advance(bytes);
                    return Poll::Ready(match self.slot.received(bytes) {
                        true => Ok(()),
                        false => Err(io::ErrorKind::InvalidData.into()),
                    });
                }
                (None, Err(error)) if error.kind() != io::ErrorKind::WouldBlock => {
                    return Poll::Ready(Err(error));
                }
                (None, _) => {}
            }
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.slot.socket.poll_write_ready(context))?;
            match self.slot.socket.try_write_vectored(slices) {
                Ok(bytes) => {
                    self.slot.sent(bytes);
                    return Poll::Ready(Ok(bytes));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(rustix::net::shutdown(&self.slot.socket, Shutdown::Write).map_err(Into::into))
    }
}

/// Performs the TLS handshake, if any, and passes the slot to the service of each connection.
#[derive(Clone)]
pub(super) struct Acceptor {
    tls: Option<Arc<ServerConfig>>,
    /// Held by the handshake that computes its answer to the client's first message, which takes longer
    /// than a call: a flood of handshakes waits for this lock, and requests on open connections do not
    /// wait for the flood. The answer to a second hello (HelloRetryRequest) is computed without it.
    computes: Arc<Mutex<()>>,
}

impl Acceptor {
    pub(super) fn new(tls: Option<Arc<ServerConfig>>) -> Self {
        Self {
            tls,
            computes: Arc::default(),
        }
    }

    async fn handshake(
        tls: Arc<ServerConfig>,
        computes: Arc<Mutex<()>>,
        stream: Stream,
    ) -> io::Result<TlsStream<Stream>> {
        let closed = stream.slot.closed.clone();
        // Waits for the client's first message.
        let hello = LazyConfigAcceptor::new(Default::default(), stream).await?;
        // A closed connection leaves the queue, whose length is then that of the table.
        let turn = tokio::select! {
            biased;
            () = closed.cancelled() => return Err(io::ErrorKind::ConnectionAborted.into()),
            turn = computes.lock() => turn,
        };
        let answered = hello.into_stream(tls);
        // Requests that have arrived meanwhile are served before the next handshake.
        yield_now().await;
        drop(turn);
        answered.await
    }
}

impl Accept<Stream, Router> for Acceptor {
    type Stream = Either<Stream, TlsStream<Stream>>;
    type Service = BoxCloneService<Request<Incoming>, Response<Body>, io::Error>;
    type Future = BoxFuture<'static, io::Result<(Self::Stream, Self::Service)>>;

    fn accept(&self, stream: Stream, router: Router) -> Self::Future {
        let (Self { tls, computes }, slot) = (self.clone(), Arc::clone(&stream.slot));
        Box::pin(async move {
            let stream = match tls {
                None => Either::Left(stream),
                Some(tls) => {
                    let done = Self::handshake(tls, computes, stream).await;
                    Either::Right(done.inspect_err(|error| {
                        // Handshakes that this server ended are not counted.
                        if !slot.closed.is_cancelled() {
                            slot.connections.counters.handshake_errors.inc();
                            tracing::debug!(peer = %slot.peer(), %error, "a TLS handshake failed");
                        }
                    })?)
                }
            };
            slot.established();
            let answer = move |request| answer(router.clone(), Arc::clone(&slot), request);
            Ok((stream, BoxCloneService::new(service_fn(answer))))
        })
    }
}

/// Answers one request of a connection.
async fn answer(
    mut router: Router,
    slot: Arc<Slot>,
    mut request: Request<Incoming>,
) -> io::Result<Response<Body>> {
    match request.body().is_end_stream() {
        true => slot.works(),
        false => slot.reads_body(),
    }
    request.extensions_mut().insert(Arc::clone(&slot));
    let mut response = tokio::select! {
        biased;
        Ok(response) = router.call(request) => response,
        () = slot.closed.cancelled() => return Err(io::ErrorKind::ConnectionAborted.into()),
    };
    let is_long = response.body().size_hint().lower() > LONG_ANSWER as u64;
    // After a body that nobody reads, hyper takes the next request before the client has read this
    // response, and keeps responses without a body in a buffer without a limit (`proto/h1/conn.rs`,
    // `poll_drain_or_close_read` and `can_write_head`).
    let is_unread = slot.answered(response.status() == StatusCode::OK, is_long);
    if is_unread || slot.connections.closing.is_cancelled() {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    Ok(response)
}

/// The body of a long response. Reports to the slot when the client has read it or has disconnected,
/// and holds `share` until then.
pub(crate) fn long_body<S: Send + Sync + 'static>(
    text: impl AsRef<[u8]> + Send + Sync + 'static,
    share: S,
    slot: Option<Arc<Slot>>,
) -> Body {
    struct Long<T, S> {
        text: T,
        slot: Option<Arc<Slot>>,
        _share: S,
    }
    impl<T: AsRef<[u8]>, S> AsRef<[u8]> for Long<T, S> {
        fn as_ref(&self) -> &[u8] {
            self.text.as_ref()
        }
    }
    impl<T, S> Drop for Long<T, S> {
        fn drop(&mut self) {
            if let Some(slot) = &self.slot {
                slot.taken();
            }
        }
    }
    let _share = share;
    Body::from(Bytes::from_owner(Long { text, slot, _share }))
}
