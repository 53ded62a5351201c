//! The client: connections that are kept open and call one after the other. Checks no more of a response
//! than its status and that it is complete.

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

use super::call::Call;
use crate::Result;

/// The name in the certificate of both servers.
pub(super) const SERVER_NAME: &str = "localhost";

/// Returns a TLS client that trusts `certificate`.
pub(super) fn tls(certificate: &rcgen::Certificate) -> Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.der().clone())?;
    let tls = ClientConfig::builder().with_root_certificates(roots);
    Ok(Arc::new(tls.with_no_client_auth()).into())
}

/// A TLS connection that is kept open.
pub(super) struct Connection(SendRequest<Full<Bytes>>);

impl Connection {
    pub(super) async fn open(port: u16, tls: &TlsConnector) -> Result<Self> {
        let stream = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from(SERVER_NAME)?;
        let stream = tls.connect(name, stream).await?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self(sender))
    }

    /// Sends `call` and returns the body of the response.
    pub(super) async fn call(&mut self, call: &Call) -> Result<Bytes> {
        let request = Request::post(call.path)
            .header("host", SERVER_NAME)
            .header("content-type", "application/json")
            .body(Full::new(call.body.clone()))?;
        let response = self.0.send_request(request).await?;
        let status = response.status();
        let body = response.collect().await?.to_bytes();
        if status != StatusCode::OK {
            return Err(format!("{}: status {status}", call.path).into());
        }
        Ok(body)
    }

    /// Calls for `time`. Returns how long each call took, in µs.
    async fn call_for(mut self, call: Call, time: Duration) -> Result<(Self, Vec<f64>)> {
        let began = Instant::now();
        let mut latencies = Vec::new();
        while began.elapsed() < time {
            let from = Instant::now();
            self.call(&call).await?;
            latencies.push(from.elapsed().as_secs_f64() * 1e6);
        }
        Ok((self, latencies))
    }
}

/// Sends `call` over each of `connections` for `time`, without a pause: a slow server gets fewer calls.
/// Returns how long each call took, in µs.
pub(super) async fn load(
    connections: &mut Vec<Connection>,
    call: &Call,
    time: Duration,
) -> Result<Vec<f64>> {
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
