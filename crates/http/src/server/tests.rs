//! The server without TLS and with few connections: accepted and closed ones, and the stop.

use std::net::SocketAddr;

use axum::routing::{get, post};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;

use super::*;

const LIMITS: Limits = Limits {
    connections: 8,
    header_bytes: 8192,
    idle: Duration::from_secs(60),
};
const STOPPING: Stopping = Stopping {
    grace: Duration::from_millis(600),
    drain: Duration::from_secs(2),
};
const SECOND: Duration = Duration::from_secs(1);
const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";

struct Fixture {
    address: SocketAddr,
    counters: Counters,
    stop: Arc<Notify>,
    /// `GET /waits` takes one permit before it responds.
    permits: Arc<Semaphore>,
    running: JoinHandle<io::Result<()>>,
}

async fn start() -> Fixture {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, permits) = (Arc::new(Notify::new()), Arc::new(Semaphore::new(0)));
    let (stopped, waits) = (Arc::clone(&stop), Arc::clone(&permits));
    let waits = async move || {
        waits.acquire().await.unwrap().forget();
        "waited"
    };
    let counters = Counters::default();
    let serving = Serving {
        name: "test",
        listener,
        tls: None,
        router: Router::new()
            .route("/", get(async || "hello"))
            .route("/waits", get(waits))
            .route("/reads", post(async |body: String| body)),
        limits: LIMITS,
        counters: counters.clone(),
        stopping: STOPPING,
    };
    let running = tokio::spawn(serving.run(async move { stopped.notified().await }));
    Fixture {
        address,
        counters,
        stop,
        permits,
        running,
    }
}

impl Fixture {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// A connection on which this request was sent.
    async fn send(&self, request: &[u8]) -> TcpStream {
        let mut stream = self.connect().await;
        stream.write_all(request).await.unwrap();
        stream
    }

    /// Waits until this number of connections is open.
    async fn has_open(&self, count: i64) {
        while self.counters.connections.get() != count {
            tokio::task::yield_now().await;
        }
    }
}

/// The status line of one response without a body, or "" if there is none.
async fn answer(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => answer.push(byte),
            Err(_) => return String::new(),
        }
    }
    let answer = String::from_utf8(answer).unwrap();
    answer.lines().next().unwrap().to_owned()
}

async fn is_ended(mut stream: TcpStream) -> bool {
    matches!(stream.read(&mut [0; 1024]).await, Ok(0) | Err(_))
}

#[tokio::test]
async fn requests_on_one_connection_are_answered_one_after_the_other() {
    let server = start().await;
    let mut client = server.connect().await;
    for _ in 0..2 {
        client.write_all(GET).await.unwrap();
        assert_eq!(answer(&mut client).await, "HTTP/1.1 200 OK");
        client.read_exact(&mut [0; 5]).await.unwrap();
    }
}

#[tokio::test]
async fn a_connection_ends_after_a_body_that_was_not_read() {
    let server = start().await;
    let unread = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n\r\ny";
    let mut client = server.send(unread).await;
    assert!(answer(&mut client).await.contains("405"));
    let ended = tokio::time::timeout(LIMITS.idle / 2, is_ended(client));
    assert_eq!(ended.await, Ok(true), "sooner than an idle one");
}

#[tokio::test]
async fn a_header_over_the_limit_is_refused() {
    let server = start().await;
    let mut request = b"GET / HTTP/1.1\r\nx: ".to_vec();
    request.resize(LIMITS.header_bytes + 1024, b'a');
    let mut client = server.send(&request).await;
    let answer = answer(&mut client).await;
    assert!(answer.is_empty() || answer.contains("431"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_no_request_or_half_of_one_is_hung_up_on() {
    for (before, sent) in [("", ""), ("", "GET / HTTP/1.1\r\n"), ("GET", "")] {
        let server = start().await;
        let mut client = server.connect().await;
        if !before.is_empty() {
            client.write_all(GET).await.unwrap();
            assert!(answer(&mut client).await.contains("200"));
            client.read_exact(&mut [0; 5]).await.unwrap();
        }
        server.has_open(1).await;
        let began = Instant::now();
        client.write_all(sent.as_bytes()).await.unwrap();
        assert!(is_ended(client).await);
        let waited = began.elapsed();
        let limit = LIMITS.idle;
        let is_in_time = waited + SECOND >= limit && waited < limit + SECOND;
        assert!(is_in_time, "{waited:?}");
    }
}

/// The pool of a Go client opens connections that it uses later, for a POST that it would not repeat.
#[tokio::test(start_paused = true)]
async fn a_connection_may_wait_for_its_first_request_as_long_as_for_the_next_one() {
    let server = start().await;
    let mut client = server.connect().await;
    for _ in 0..2 {
        sleep(LIMITS.idle - SECOND).await;
        client.write_all(GET).await.unwrap();
        assert!(answer(&mut client).await.contains("200"));
        client.read_exact(&mut [0; 5]).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_over_the_limit_waits_until_another_one_ends() {
    let server = start().await;
    let mut calls = Vec::new();
    for number in 1..=8 {
        calls.push(server.send(b"GET /waits HTTP/1.1\r\nhost: a\r\n\r\n").await);
        server.has_open(number).await;
    }
    let mut late = server.send(GET).await;
    let early = tokio::time::timeout(3 * SECOND, answer(&mut late)).await;
    assert!(early.is_err(), "{early:?}");
    assert_eq!(server.counters.connections.get(), 8);
    drop(calls.pop());
    assert_eq!(answer(&mut late).await, "HTTP/1.1 200 OK");
    server.permits.add_permits(7);
    for call in &mut calls {
        assert_eq!(answer(call).await, "HTTP/1.1 200 OK");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_idle_clients_and_answers_the_others() {
    let server = start().await;
    let mut idle = server.send(GET).await;
    assert_eq!(answer(&mut idle).await, "HTTP/1.1 200 OK");
    idle.read_exact(&mut [0; 5]).await.unwrap();
    let mut busy = server.send(b"GET /waits HTTP/1.1\r\nhost: a\r\n\r\n").await;
    let stuck = server.send(b"GET / HTTP/1.1\r\n").await;
    server.has_open(3).await;
    let began = Instant::now();
    server.stop.notify_one();
    assert!(is_ended(idle).await);
    let waited = began.elapsed().checked_sub(STOPPING.grace);
    assert!(waited.is_some_and(|it| it < Duration::from_millis(100)));
    server.permits.add_permits(1);
    assert_eq!(answer(&mut busy).await, "HTTP/1.1 200 OK");
    assert!(is_ended(stuck).await);
    server.running.await.unwrap().unwrap();
    assert!(began.elapsed() <= STOPPING.grace + STOPPING.drain);
    assert!(TcpStream::connect(server.address).await.is_err());
}
