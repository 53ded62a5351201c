//! A small HTTP/1.1 server for health and metrics, with or without TLS: what `axum::serve`
//! does, plus the limits that keep a slow or hostile client from holding the process. Knows
//! no route.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::shutdown::Shutdown;
use crate::config::BindAddress;

/// Longest wait for a complete request header, on a new connection and between two
/// requests: controller-runtime's ReadHeaderTimeout.
const HEADER_TIMEOUT: Duration = Duration::from_secs(32);
/// Longest time for a TLS handshake, which takes a client some milliseconds.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest life of a connection, so that a client that sends or reads a byte now and then
/// does not hold one for ever. A probe or a scrape takes milliseconds.
const CONNECTION_LIFETIME: Duration = Duration::from_secs(10 * 60);
/// Most bytes of a request header: controller-runtime's MaxHeaderBytes, 1 MiB.
const MAX_HEADER_BYTES: usize = 1024 * 1024;
/// Most open connections of a server; more wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 64;
/// Pause after a failed accept: the usual cause, too many open files, does not pass at once.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// An address that could not be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} for {purpose} ({flag})")]
pub struct BindError {
    /// What was to be served, e.g. `health probes`.
    pub purpose: &'static str,
    /// The flag that names the address.
    pub flag: &'static str,
    /// The address.
    pub address: BindAddress,
    /// What the system said.
    pub source: io::Error,
}

/// Listens on `address`; without a host, on every interface, by IPv6 and IPv4 where the
/// system has both.
pub(super) async fn bind(
    purpose: &'static str,
    flag: &'static str,
    address: &BindAddress,
) -> Result<TcpListener, BindError> {
    let listener = match &address.host {
        Some(host) => TcpListener::bind((host.as_str(), address.port)).await,
        // Linux makes an IPv6 wildcard socket serve IPv4 as well unless net.ipv6.bindv6only
        // is set; a system without IPv6 has no such socket at all.
        None => match TcpListener::bind(("::", address.port)).await {
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                TcpListener::bind(("0.0.0.0", address.port)).await
            }
            bound => bound,
        },
    };
    listener.map_err(|source| BindError {
        purpose,
        flag,
        address: address.clone(),
        source,
    })
}

/// Serves `router` until shutdown; then running requests are answered, with
/// `Connection: close`, and it returns.
pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    shutdown: Shutdown,
) -> Result<(), Infallible> {
    accept(listener, None, router, shutdown).await;
    Ok(())
}

/// As [`serve`], over TLS.
pub(super) async fn serve_tls(
    listener: TcpListener,
    tls: TlsAcceptor,
    router: Router,
    shutdown: Shutdown,
) {
    accept(listener, Some(tls), router, shutdown).await;
}

async fn accept(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    shutdown: Shutdown,
) {
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    let mut stopped = pin!(shutdown.clone().stopped());
    loop {
        let accepted = async {
            let permit = Arc::clone(&permits).acquire_owned().await.ok();
            (permit, listener.accept().await)
        };
        tokio::select! {
            () = &mut stopped => break,
            Some(_) = connections.join_next() => {}
            (permit, accepted) = accepted => match accepted {
                Ok((stream, peer)) => {
                    let (tls, router, shutdown) = (tls.clone(), router.clone(), shutdown.clone());
                    let connection = serve_stream(stream, peer, tls, router, shutdown);
                    connections.spawn(async move {
                        connection.await;
                        drop(permit);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn serve_stream(
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<TlsAcceptor>,
    router: Router,
    shutdown: Shutdown,
) {
    // An answer is one small write: waiting for more to send only adds delay.
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else {
        return serve_connection(stream, peer, router, shutdown).await;
    };
    let handshake = timeout(HANDSHAKE_TIMEOUT, tls.accept(stream));
    let stopped = shutdown.clone().stopped();
    tokio::select! {
        // Nobody waits for an answer yet.
        () = stopped => {}
        accepted = handshake => match accepted {
            Ok(Ok(stream)) => serve_connection(stream, peer, router, shutdown).await,
            Ok(Err(error)) => tracing::debug!(%peer, %error, "a TLS handshake failed"),
            Err(_elapsed) => tracing::debug!(%peer, "a TLS handshake took too long"),
        },
    }
}

async fn serve_connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send,
    peer: SocketAddr,
    router: Router,
    shutdown: Shutdown,
) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_HEADER_BYTES)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = pin!(connection);
    let served = timeout(CONNECTION_LIFETIME, async {
        tokio::select! {
            served = connection.as_mut() => served,
            () = shutdown.stopped() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        }
    });
    if let Ok(Err(error)) = served.await {
        tracing::debug!(%peer, %error, "connection ended early");
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::super::shutdown::{Stopper, shutdown};
    use super::*;

    async fn start() -> (
        SocketAddr,
        Stopper,
        tokio::task::JoinHandle<Result<(), Infallible>>,
    ) {
        let address = BindAddress {
            host: Some("127.0.0.1".to_owned()),
            port: 0,
        };
        let listener = bind("tests", "--none", &address).await.unwrap();
        let local = listener.local_addr().unwrap();
        let (stopper, shutdown) = shutdown();
        let router = Router::new().route("/", get(async || "hello"));
        (
            local,
            stopper,
            tokio::spawn(serve(listener, router, shutdown)),
        )
    }

    async fn exchange(address: SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        // A server that has heard enough may close before everything is written.
        let _ = stream.write_all(request).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    #[tokio::test]
    async fn a_request_is_answered() {
        let (address, _stopper, _server) = start().await;
        let answer = exchange(
            address,
            b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
        )
        .await;
        assert!(
            answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("hello"),
            "{answer}"
        );
    }

    #[tokio::test]
    async fn a_header_over_the_limit_is_refused() {
        let (address, _stopper, _server) = start().await;
        let mut request = b"GET / HTTP/1.1\r\nx: ".to_vec();
        request.resize(MAX_HEADER_BYTES + 1024, b'a');
        let answer = exchange(address, &request).await;
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 431"),
            "{answer}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_never_sends_its_header_is_hung_up_on() {
        let (address, _stopper, _server) = start().await;
        let began = tokio::time::Instant::now();
        let answer = exchange(address, b"GET / HTTP/1.1\r\n").await;
        assert_eq!(answer, "");
        assert!(began.elapsed() >= HEADER_TIMEOUT, "{:?}", began.elapsed());
    }

    #[tokio::test]
    async fn shutdown_hangs_up_on_idle_clients_and_returns() {
        let (address, stopper, server) = start().await;
        let mut idle = TcpStream::connect(address).await.unwrap();
        idle.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            .await
            .unwrap();
        let mut answer = [0; 8];
        idle.read_exact(&mut answer).await.unwrap();
        stopper.stop();
        server.await.unwrap().unwrap();
        assert!(TcpStream::connect(address).await.is_err());
    }

    #[tokio::test]
    async fn a_port_in_use_is_reported_with_its_address_and_flag() {
        let (local, _stopper, _server) = start().await;
        let address = BindAddress {
            host: Some("127.0.0.1".to_owned()),
            port: local.port(),
        };
        let error = bind("tests", "--none", &address).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("cannot listen on {local} for tests (--none)")
        );
    }
}
