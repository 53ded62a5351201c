//! The few requests that starting a cluster needs, over HTTP/1.0: no chunks and no keep-alive, and
//! the response ends with the connection. Not a general client.

use std::io::{Error as IoError, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::error::{Error, Result};
use crate::load::load_factor;

/// Longer than any response of a healthy API server on a machine that is not overloaded.
const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct ApiServer {
    address: SocketAddr,
    tls: Arc<ClientConfig>,
    token: String,
}

/// Status and body of a response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl ApiServer {
    pub(crate) fn new(address: SocketAddr, authority: &Path, token: &str) -> Result<Self> {
        let certificate = CertificateDer::from_pem_file(authority).map_err(|error| Error::Io {
            doing: format!("reading {}", authority.display()),
            source: IoError::other(error),
        })?;
        let mut roots = RootCertStore::empty();
        roots.add(certificate)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self {
            address,
            tls: Arc::new(tls),
            token: token.to_owned(),
        })
    }

    pub(crate) fn get(&self, path: &str) -> std::io::Result<Answer> {
        self.request("GET", path, "")
    }

    /// Creates an object; it may exist already.
    pub(crate) fn create(&self, path: &str, object: &serde_json::Value) -> Result<()> {
        let answer = self
            .request("POST", path, &object.to_string())
            .map_err(|source| Error::Io {
                doing: format!("POST {path}"),
                source,
            })?;
        match answer.status {
            201 | 409 => Ok(()),
            status => Err(Error::Refused {
                method: "POST",
                path: path.to_owned(),
                status,
                body: answer.body,
            }),
        }
    }

    fn request(&self, method: &str, path: &str, body: &str) -> std::io::Result<Answer> {
        let timeout = TIMEOUT.mul_f64(load_factor());
        let socket = TcpStream::connect_timeout(&self.address, timeout)?;
        socket.set_read_timeout(Some(timeout))?;
        socket.set_nodelay(true)?;
        let name = ServerName::from(self.address.ip());
        let session = ClientConnection::new(Arc::clone(&self.tls), name).map_err(IoError::other)?;
        let mut stream = StreamOwned::new(session, socket);
        write!(
            stream,
            "{method} {path} HTTP/1.0\r\nHost: {}\r\nUser-Agent: devcluster\r\n\
             Authorization: Bearer {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.address,
            self.token,
            body.len(),
        )?;
        let mut answer = Vec::new();
        match stream.read_to_end(&mut answer) {
            // The server closed the connection without TLS's close_notify.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof && !answer.is_empty() => {}
            result => {
                result?;
            }
        }
        parse(&String::from_utf8_lossy(&answer))
            .ok_or_else(|| IoError::new(ErrorKind::InvalidData, "not an HTTP response"))
    }
}

fn parse(answer: &str) -> Option<Answer> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split_whitespace().nth(1)?.parse().ok()?;
    Some(Answer {
        status,
        body: body.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_a_status_and_a_body() {
        let answer = parse("HTTP/1.0 404 Not Found\r\nDate: now\r\n\r\n{}\r\n\r\n").unwrap();
        assert_eq!((answer.status, answer.body.as_str()), (404, "{}\r\n\r\n"));
        assert!(parse("HTTP/1.0 200 OK\r\n").is_none());
    }
}
