//! Calls over HTTP/1.1 with TLS, as an API server makes them, after Go's `http.Transport`. The
//! latest idle connection is reused first; `Connection: close` is honored; no request is sent
//! twice.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::certificates::Authority;

/// The most idle connections that are kept, as in an API server's webhook client.
const MAX_IDLE: usize = 25;

/// A client of one address.
pub(crate) struct Transport {
    address: SocketAddr,
    tls: TlsConnector,
    /// Whether connections are reused.
    keeps: bool,
    /// Whether new connections are made; if not, only idle ones are used.
    connects: AtomicBool,
    idle: Mutex<Vec<Connection>>,
    seen: Seen,
}

/// What a transport has seen so far.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Connections that were made.
    pub(crate) connections: AtomicU64,
    /// Responses with `Connection: close`.
    pub(crate) closes: AtomicU64,
    /// The presented certificates, each once, in DER.
    pub(crate) certificates: Mutex<Vec<Vec<u8>>>,
}

/// Why a call got no response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// No call: there was no idle connection, and new ones are disabled.
    #[error("no call was made")]
    NotCalled,
    /// No TCP connection.
    #[error("connecting: {0}")]
    Connect(io::Error),
    /// No TLS session.
    #[error("TLS handshake: {0}")]
    Handshake(io::Error),
    /// No response.
    #[error("{} connection: {source}", if *.reused { "a reused" } else { "a new" })]
    Exchange {
        /// Whether the connection had been used before.
        reused: bool,
        /// The error.
        source: io::Error,
    },
}

/// A response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) code: u16,
    pub(crate) body: Value,
}

struct Connection {
    stream: TlsStream<TcpStream>,
    /// The same socket, to ask the kernel whether the server has closed it.
    socket: std::net::TcpStream,
}

impl Transport {
    /// Returns a client that keeps its connections.
    pub(crate) fn new(address: SocketAddr, authority: &Authority) -> Arc<Self> {
        Arc::new(Self::with(address, authority, true))
    }

    /// Returns a client that opens a connection for each call.
    pub(crate) fn without_keep_alive(address: SocketAddr, authority: &Authority) -> Arc<Self> {
        Arc::new(Self::with(address, authority, false))
    }

    fn with(address: SocketAddr, authority: &Authority, keeps: bool) -> Self {
        Self {
            address,
            tls: TlsConnector::from(Arc::new(authority.client())),
            keeps,
            connects: AtomicBool::new(true),
            idle: Mutex::default(),
            seen: Seen::default(),
        }
    }

    pub(crate) fn seen(&self) -> &Seen {
        &self.seen
    }

    /// Opens no new connections from now on, as clients of an endpoint that was removed from a
    /// Service.
    pub(crate) fn stop_connecting(&self) {
        self.connects.store(false, Ordering::Relaxed);
    }

    /// Returns the number of kept connections that the server has not closed.
    pub(crate) fn idle(&self) -> usize {
        let mut idle = self.idle.lock().unwrap();
        idle.retain(Connection::is_open);
        idle.len()
    }

    /// Sends a review and waits for the response.
    pub(crate) async fn post(&self, path: &str, review: &Value) -> Result<Reply, CallError> {
        let (mut connection, reused) = match self.idle_connection() {
            Some(connection) => (connection, true),
            None if self.connects.load(Ordering::Relaxed) => (self.connect().await?, false),
            None => return Err(CallError::NotCalled),
        };
        let exchanged = connection.exchange(path, review, self.keeps).await;
        let (reply, closes) = exchanged.map_err(|source| CallError::Exchange { reused, source })?;
        if closes {
            self.seen.closes.fetch_add(1, Ordering::Relaxed);
        } else if self.keeps {
            let mut idle = self.idle.lock().unwrap();
            if idle.len() < MAX_IDLE {
                idle.push(connection);
            }
        }
        Ok(reply)
    }

    fn idle_connection(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap();
        std::iter::from_fn(|| idle.pop()).find(Connection::is_open)
    }

    async fn connect(&self) -> Result<Connection, CallError> {
        let stream = TcpStream::connect(self.address)
            .await
            .map_err(CallError::Connect)?;
        let (stream, socket) = with_second_handle(stream).map_err(CallError::Connect)?;
        let name = ServerName::from(self.address.ip());
        let stream = self.tls.connect(name, stream).await;
        let stream = stream.map_err(CallError::Handshake)?;
        self.seen.connections.fetch_add(1, Ordering::Relaxed);
        let shown = stream.get_ref().1.peer_certificates();
        if let Some(certificate) = shown.and_then(<[_]>::first) {
            let mut certificates = self.seen.certificates.lock().unwrap();
            if !certificates.iter().any(|seen| **seen == **certificate) {
                certificates.push(certificate.to_vec());
            }
        }
        Ok(Connection { stream, socket })
    }
}

/// Returns the stream and a second handle of its socket.
fn with_second_handle(stream: TcpStream) -> io::Result<(TcpStream, std::net::TcpStream)> {
    stream.set_nodelay(true)?;
    let socket = stream.into_std()?;
    let stream = TcpStream::from_std(socket.try_clone()?)?;
    Ok((stream, socket))
}

impl Connection {
    /// Reports whether the server has sent nothing since its last response. Go finds out from a
    /// read that is always pending.
    fn is_open(&self) -> bool {
        let peeked = self.socket.peek(&mut [0]);
        peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Sends a request; returns the response, and whether it ends the connection.
    async fn exchange(
        &mut self,
        path: &str,
        review: &Value,
        keeps: bool,
    ) -> io::Result<(Reply, bool)> {
        let body = review.to_string();
        let connection = if keeps { "keep-alive" } else { "close" };
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: webhook\r\ncontent-type: application/json\r\n\
             connection: {connection}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.stream.write_all(request.as_bytes()).await?;
        self.stream.flush().await?;
        let mut answer = Vec::new();
        let end = loop {
            if let Some(end) = answer.windows(4).position(|four| four == b"\r\n\r\n") {
                break end;
            }
            self.read_more(&mut answer).await?;
        };
        let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
        let header = |name: &str| {
            let mut lines = head.lines().filter_map(|line| line.split_once(": "));
            lines.find_map(|(header, value)| (header == name).then(|| value.to_owned()))
        };
        let length = header("content-length").and_then(|length| length.parse().ok());
        let length: usize = length.ok_or_else(|| invalid(&head))?;
        let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        let code = code.ok_or_else(|| invalid(&head))?;
        while answer.len() < end + 4 + length {
            self.read_more(&mut answer).await?;
        }
        let body = serde_json::from_slice(&answer[end + 4..]).unwrap_or_else(|_| {
            Value::String(String::from_utf8_lossy(&answer[end + 4..]).into_owned())
        });
        let closes = header("connection").is_some_and(|value| value == "close");
        Ok((Reply { code, body }, closes))
    }

    async fn read_more(&mut self, answer: &mut Vec<u8>) -> io::Result<()> {
        match self.stream.read_buf(answer).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

fn invalid(head: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("not a response: {head}"),
    )
}
