//! A GET over plain HTTP, on a connection of its own.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// The longest that a server may be silent.
const DEADLINE: Duration = Duration::from_secs(60);

/// Status code and body of what is at `path`. HTTP/1.0: the answer ends with the connection, and is
/// not cut into chunks.
///
/// # Panics
/// If nobody answers.
pub(crate) fn get(address: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(DEADLINE)).expect("a deadline");
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    (code.expect("a status"), body.to_owned())
}
