//! The load: clients that call over kept connections, one call after the other, and clients
//! that begin handshakes and never end them. Blocking calls on threads of their own, the
//! cheapest there is: what the client takes, the server on the same machine lacks. Checks no
//! more of an answer than that it is there in full; what it says is checked once, before.

use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

/// Longest wait for anything; a call of ten thousand objects takes a fifth of a second.
const PATIENCE: Duration = Duration::from_secs(30);
/// Whom the certificate of both servers names.
pub(crate) const SERVER_NAME: &str = "localhost";
/// Longest header of an answer.
const HEADER_LIMIT: u64 = 16 * 1024;

/// Longest body of an answer; ten thousand objects are 14 MB.
const BODY_LIMIT: usize = 128 << 20;

/// What tells where the body of an answer ends.
enum Framing {
    Length(usize),
    Chunks,
}

/// A request as it goes over the wire.
pub(crate) fn request(path: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {SERVER_NAME}\r\nuser-agent: kube-apiserver-admission\r\n\
         accept: application/json, */*\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// A TLS connection that is kept open.
pub(crate) struct Connection {
    stream: BufReader<StreamOwned<ClientConnection, TcpStream>>,
    body: Vec<u8>,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr, tls: &Arc<ClientConfig>) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let session = session(tls)?;
        Ok(Self {
            stream: BufReader::new(StreamOwned::new(session, stream)),
            body: Vec::new(),
        })
    }

    /// Sends `request` and returns the body of the answer.
    pub(crate) fn call(&mut self, request: &[u8]) -> io::Result<&[u8]> {
        let stream = self.stream.get_mut();
        stream.write_all(request)?;
        stream.flush()?;
        self.body.clear();
        match self.header()? {
            Framing::Length(length) => self.more(length)?,
            // A long answer of Go's server.
            Framing::Chunks => self.chunks()?,
        }
        Ok(&self.body)
    }

    /// Reads a body of chunks (RFC 9112 §7.1), without trailers.
    fn chunks(&mut self) -> io::Result<()> {
        loop {
            let mut line = String::new();
            let mut limited = self.stream.by_ref().take(HEADER_LIMIT);
            limited.read_line(&mut line)?;
            let length = usize::from_str_radix(line.trim_end(), 16).map_err(io::Error::other)?;
            self.more(length)?;
            self.stream.read_exact(&mut [0; 2])?;
            if length == 0 {
                return Ok(());
            }
        }
    }

    /// Reads `length` more bytes of the body.
    fn more(&mut self, length: usize) -> io::Result<()> {
        let from = self.body.len();
        if length > BODY_LIMIT.saturating_sub(from) {
            return Err(io::Error::other("the answer is too long"));
        }
        self.body.resize(from + length, 0);
        self.stream.read_exact(&mut self.body[from..])
    }

    /// Reads the header of an answer; where its body ends.
    fn header(&mut self) -> io::Result<Framing> {
        let mut header = self.stream.by_ref().take(HEADER_LIMIT);
        let mut line = String::new();
        header.read_line(&mut line)?;
        if line != "HTTP/1.1 200 OK\r\n" {
            return Err(io::Error::other(format!("the answer begins with {line:?}")));
        }
        let mut framing = None;
        loop {
            line.clear();
            header.read_line(&mut line)?;
            match line.trim_end().split_once(": ") {
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    framing = value.parse().ok().map(Framing::Length);
                }
                Some((name, "chunked")) if name.eq_ignore_ascii_case("transfer-encoding") => {
                    framing = Some(Framing::Chunks);
                }
                Some(_) => {}
                None => break,
            }
        }
        framing.ok_or_else(|| io::Error::other("the answer has no length"))
    }
}

fn session(tls: &Arc<ClientConfig>) -> io::Result<ClientConnection> {
    let name = ServerName::try_from(SERVER_NAME).map_err(io::Error::other)?;
    ClientConnection::new(Arc::clone(tls), name).map_err(io::Error::other)
}

/// What came of some time of load.
#[derive(Debug, Default, Clone)]
pub(crate) struct Load {
    pub(crate) elapsed: Duration,
    /// How long each call took.
    pub(crate) latencies: Vec<Duration>,
}

/// Calls over each of `connections` at once until `time` is over: closed loop, so that a slow
/// server gets fewer calls.
pub(crate) fn load(
    connections: &mut [Connection],
    request: &[u8],
    time: Duration,
    interrupted: &AtomicBool,
) -> io::Result<Load> {
    let began = Instant::now();
    let one = |connection: &mut Connection| -> io::Result<Vec<Duration>> {
        let mut latencies = Vec::with_capacity(1 << 16);
        let mut from = Instant::now();
        while from.duration_since(began) < time && !interrupted.load(Ordering::Relaxed) {
            connection.call(request)?;
            let now = Instant::now();
            latencies.push(now - from);
            from = now;
        }
        Ok(latencies)
    };
    let all = thread::scope(|scope| {
        let threads: Vec<_> = connections
            .iter_mut()
            .map(|connection| scope.spawn(move || one(connection)))
            .collect();
        let ended = threads.into_iter().map(|thread| {
            let panicked = |_| Err(io::Error::other("a client panicked"));
            thread.join().unwrap_or_else(panicked)
        });
        ended.collect::<io::Result<Vec<_>>>()
    })?;
    Ok(Load {
        elapsed: began.elapsed(),
        latencies: all.concat(),
    })
}

/// Has `clients` clients begin handshakes, each one after the other, while `work` is done.
/// Returns what came of that, and how many handshakes the server answered. The clients send
/// the same ClientHello again and again and compute nothing.
pub(crate) fn amid_handshakes<T>(
    clients: usize,
    address: SocketAddr,
    tls: &Arc<ClientConfig>,
    work: impl FnOnce() -> io::Result<T>,
) -> io::Result<(T, u64)> {
    let mut hello = Vec::new();
    session(tls)?.write_tls(&mut hello)?;
    let is_over = AtomicBool::new(false);
    let one = || {
        let mut answered = 0;
        while !is_over.load(Ordering::Relaxed) {
            match begin_handshake(address, &hello) {
                Ok(()) => answered += 1,
                // Its listen queue may be full.
                Err(_) => thread::sleep(Duration::from_millis(1)),
            }
        }
        answered
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..clients).map(|_| scope.spawn(one)).collect();
        let done = work();
        is_over.store(true, Ordering::Relaxed);
        let answered = threads.into_iter().filter_map(|thread| thread.join().ok());
        let answered = answered.sum();
        Ok((done?, answered))
    })
}

/// Sends `hello`, waits for the first of the answer, and hangs up.
fn begin_handshake(address: SocketAddr, hello: &[u8]) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(hello)?;
    stream.read_exact(&mut [0; 64])
}
