//! The load: connections that are kept open and call one after the other. Checks no more of a response
//! than its status and that it is complete.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// The name in the certificate of both servers.
pub(super) const SERVER_NAME: &str = "localhost";

/// Returns the TLS settings of clients that trust `certificate`.
pub(super) fn tls(certificate: &rcgen::Certificate) -> io::Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    roots
        .add(certificate.der().clone())
        .map_err(io::Error::other)?;
    let tls = ClientConfig::builder().with_root_certificates(roots);
    Ok(Arc::new(tls.with_no_client_auth()))
}

/// What is sent, again and again.
#[derive(Clone)]
pub(super) struct Call {
    pub(super) path: &'static str,
    pub(super) body: Bytes,
}

/// A TLS connection that is kept open.
pub(super) struct Connection(SendRequest<Full<Bytes>>);

impl Connection {
    pub(super) async fn open(port: u16, tls: &Arc<ClientConfig>) -> io::Result<Self> {
        let stream = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from(SERVER_NAME).map_err(io::Error::other)?;
        let stream = TlsConnector::from(Arc::clone(tls))
            .connect(name, stream)
            .await?;
        let (sender, connection) = handshake(TokioIo::new(stream))
            .await
            .map_err(io::Error::other)?;
        tokio::spawn(connection);
        Ok(Self(sender))
    }

    /// Sends `call` and returns the body of the response.
    pub(super) async fn call(&mut self, call: &Call) -> io::Result<Bytes> {
        let request = Request::post(call.path)
            .header("host", SERVER_NAME)
            .header("content-type", "application/json")
            .body(Full::new(call.body.clone()))
            .map_err(io::Error::other)?;
        let response = self
            .0
            .send_request(request)
            .await
            .map_err(io::Error::other)?;
        let status = response.status();
        let body = response
            .collect()
            .await
            .map_err(io::Error::other)?
            .to_bytes();
        match status {
            StatusCode::OK => Ok(body),
            _ => Err(io::Error::other(format!("{}: status {status}", call.path))),
        }
    }

    /// Calls for `time`. Returns how long each call took.
    async fn call_for(mut self, call: Call, time: Duration) -> io::Result<(Self, Vec<Duration>)> {
        let began = Instant::now();
        let mut latencies = Vec::new();
        while began.elapsed() < time {
            let from = Instant::now();
            self.call(&call).await?;
            latencies.push(from.elapsed());
        }
        Ok((self, latencies))
    }
}

/// Sends `call` over each of `connections` for `time`, without a pause: a slow server gets fewer calls.
/// Returns how long each call took.
pub(super) async fn load(
    connections: &mut Vec<Connection>,
    call: &Call,
    time: Duration,
) -> io::Result<Vec<Duration>> {
    let clients = std::mem::take(connections).into_iter();
    let clients = clients.map(|client| tokio::spawn(client.call_for(call.clone(), time)));
    let mut latencies = Vec::new();
    for done in try_join_all(clients).await? {
        let (connection, of_one) = done?;
        connections.push(connection);
        latencies.extend(of_one);
    }
    Ok(latencies)
}
