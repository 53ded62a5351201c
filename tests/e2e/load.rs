//! Requests to web servers over kept connections, as `wrk` makes them, during a disruption.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(5);

/// The number of concurrent connections.
const CONNECTIONS: usize = 16;

/// Requests for a page over kept connections, one after another on each, until stopped.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Requests>>,
}

/// The results.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    pub(crate) answered: usize,
    /// A kept connection was closed, and the request was repeated on a new one.
    pub(crate) cut: usize,
    /// No response on a new connection either.
    pub(crate) lost: Vec<String>,
}

impl Load {
    pub(crate) fn start(address: SocketAddr) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = (0..CONNECTIONS)
            .map(|_| {
                let stop = Arc::clone(&stop);
                thread::spawn(move || ask(address, &stop))
            })
            .collect();
        Self { stop, threads }
    }

    /// Stops the requests, prints and returns the results.
    pub(crate) fn stop(self) -> Requests {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Requests::default();
        for thread in self.threads {
            let one = thread.join().expect("no panic in a connection");
            all.answered += one.answered;
            all.cut += one.cut;
            all.lost.extend(one.lost);
        }
        println!(
            "  {} requests answered, {} connections cut, {} requests lost",
            all.answered,
            all.cut,
            all.lost.len()
        );
        all
    }
}

fn ask(address: SocketAddr, stop: &AtomicBool) -> Requests {
    let mut requests = Requests::default();
    let mut kept: Option<BufReader<TcpStream>> = None;
    while !stop.load(Ordering::Relaxed) {
        // Each connection makes about 200 requests a second: load, but less than the machine's
        // capacity.
        thread::sleep(Duration::from_millis(5));
        if let Some(connection) = &mut kept {
            match page(connection) {
                Ok(()) => {
                    requests.answered += 1;
                    continue;
                }
                Err(_) => requests.cut += 1,
            }
        }
        let asked = connect(address).and_then(|mut connection| {
            page(&mut connection)?;
            Ok(connection)
        });
        match asked {
            Ok(connection) => {
                requests.answered += 1;
                kept = Some(connection);
            }
            Err(error) => {
                requests.lost.push(error.to_string());
                kept = None;
            }
        }
    }
    requests
}

fn connect(address: SocketAddr) -> std::io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect_timeout(&address, DEADLINE)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    stream.set_nodelay(true)?;
    Ok(BufReader::new(stream))
}

/// Requests a page and reads all of it.
fn page(connection: &mut BufReader<TcpStream>) -> std::io::Result<()> {
    let bad = |what: String| std::io::Error::new(std::io::ErrorKind::InvalidData, what);
    connection
        .get_mut()
        .write_all(b"GET / HTTP/1.1\r\nHost: load\r\n\r\n")?;
    let mut status = String::new();
    connection.read_line(&mut status)?;
    if !status.starts_with("HTTP/1.1 200") {
        return Err(bad(format!("answered {status:?}")));
    }
    let mut length = None;
    loop {
        let mut line = String::new();
        connection.read_line(&mut line)?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.parse().ok();
            }
            Some(_) => {}
            None => break,
        }
    }
    let length: usize = length.ok_or_else(|| bad("no length".to_owned()))?;
    let mut body = vec![0; length];
    connection.read_exact(&mut body)
}
