//! The server without TLS and with few slots: accepted and closed connections, and the stop.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};

use axum::routing::{get, post};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;

use super::*;

const LIMITS: Limits = Limits {
    connections: 8,
    header_bytes: 8192,
    header: Duration::from_secs(10),
    idle: Duration::from_secs(60),
    take: Duration::from_secs(10),
};
const STOPPING: Stopping = Stopping {
    grace: Duration::ZERO,
    drain: Duration::from_secs(2),
};
const SECOND: Duration = Duration::from_secs(1);
const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";
const LONG: usize = 64 * 1024 * 1024;

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
    let long = async |request: axum::extract::Request| {
        let slot = request.extensions().get::<Arc<Slot>>().cloned();
        long_body(vec![b'x'; LONG], (), slot)
    };
    let counters = Counters::default();
    let serving = Serving {
        name: "test",
        listener,
        tls: None,
        router: Router::new()
            .route("/", get(async || "hello"))
            .route("/waits", get(waits))
            .route("/long", get(long))
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
    async fn connect_from(&self, host: u8) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        let local = Ipv4Addr::new(127, 0, 0, host);
        socket.bind((local, 0).into()).unwrap();
        socket.connect(self.address).await.unwrap()
    }

    /// A connection on which this request was sent.
    async fn send_from(&self, host: u8, request: &[u8]) -> TcpStream {
        let mut stream = self.connect_from(host).await;
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
    let mut client = server.connect_from(1).await;
    for _ in 0..2 {
        client.write_all(GET).await.unwrap();
        assert_eq!(answer(&mut client).await, "HTTP/1.1 200 OK");
        client.read_exact(&mut [0; 5]).await.unwrap();
    }
}

/// At the end of the grace period, what is still in the queue is accepted. A client that gave up must not
/// look like the end of the queue.
#[tokio::test]
async fn a_connection_that_was_reset_in_the_queue_hides_none_behind_it() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connect = || std::net::TcpStream::connect(address).unwrap();
    let (gave_up, waits) = (connect(), connect());
    rustix::net::sockopt::set_socket_linger(&gave_up, Some(Duration::ZERO)).unwrap();
    let expected = [&gave_up, &waits].map(|client| client.local_addr().unwrap());
    drop(gave_up);
    for expected in expected {
        let (_, peer) = glue::accept_queued(&listener).unwrap();
        assert_eq!(peer, expected);
    }
    assert!(glue::accept_queued(&listener).is_none());
}

#[tokio::test]
async fn a_connection_ends_after_a_body_that_was_not_read() {
    let server = start().await;
    let unread = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n\r\ny";
    let mut client = server.send_from(1, unread).await;
    assert!(answer(&mut client).await.contains("405"));
    let ended = tokio::time::timeout(LIMITS.idle / 2, is_ended(client));
    assert_eq!(ended.await, Ok(true), "sooner than an idle one");
}

#[tokio::test]
async fn a_header_over_the_limit_is_refused() {
    let server = start().await;
    let mut request = b"GET / HTTP/1.1\r\nx: ".to_vec();
    request.resize(LIMITS.header_bytes + 1024, b'a');
    let mut client = server.send_from(1, &request).await;
    let answer = answer(&mut client).await;
    assert!(answer.is_empty() || answer.contains("431"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_no_request_or_half_of_one_is_hung_up_on() {
    let half = b"GET / HTTP/1.1\r\n".as_slice();
    for (before, sent, limit) in [
        (b"".as_slice(), b"".as_slice(), LIMITS.idle),
        (b"", half, LIMITS.header),
        (GET, b"", LIMITS.idle),
        (GET, half, LIMITS.header),
    ] {
        let server = start().await;
        let mut client = server.send_from(1, before).await;
        if !before.is_empty() {
            assert!(answer(&mut client).await.contains("200"));
            client.read_exact(&mut [0; 5]).await.unwrap();
        }
        server.has_open(1).await;
        let began = Instant::now();
        client.write_all(sent).await.unwrap();
        assert!(is_ended(client).await);
        let waited = began.elapsed();
        assert!(waited >= limit && waited < limit + 2 * SECOND, "{waited:?}");
    }
}

/// The pool of a Go client opens connections that it uses later, for a POST that it would not repeat.
#[tokio::test(start_paused = true)]
async fn a_connection_may_wait_for_its_first_request_as_long_as_for_the_next_one() {
    let server = start().await;
    let mut client = server.connect_from(1).await;
    for _ in 0..2 {
        sleep(LIMITS.idle - SECOND).await;
        client.write_all(GET).await.unwrap();
        assert!(answer(&mut client).await.contains("200"));
        client.read_exact(&mut [0; 5]).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_take_a_long_answer_is_hung_up_on() {
    let server = start().await;
    let began = Instant::now();
    let client = server
        .send_from(1, b"GET /long HTTP/1.1\r\nhost: a\r\n\r\n")
        .await;
    server.has_open(1).await;
    while server.counters.connections.get() > 0 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(
        began.elapsed() <= LIMITS.take + WINDOW,
        "{:?}",
        began.elapsed()
    );
    drop(client);
}

#[tokio::test]
async fn the_address_with_the_most_connections_gives_way() {
    let server = start().await;
    let few = server.connect_from(2).await;
    server.has_open(1).await;
    let mut many = Vec::new();
    for number in 2..=8 {
        many.push(server.connect_from(3).await);
        server.has_open(number).await;
    }
    // From the same address, from an address with few connections, and from one with none.
    for (evicted, host) in [(1, 3), (2, 2), (3, 4)] {
        let mut client = server.send_from(host, GET).await;
        assert_eq!(answer(&mut client).await, "HTTP/1.1 200 OK");
        assert_eq!(server.counters.evicted.get(), evicted);
        // The connection that has waited longest was closed.
        assert!(is_ended(many.remove(0)).await);
        many.push(client);
        server.has_open(8).await;
    }
    drop(few);
    server.has_open(7).await;
}

/// The test is the task of each connection, none of which gets a processor.
#[tokio::test]
async fn a_flood_is_accepted_no_faster_than_closed_connections_end() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let connections = Connections::new(LIMITS, Counters::default());
    let open = RefCell::new(VecDeque::new());
    let flood = async {
        loop {
            let client = TcpStream::connect(listener.local_addr().unwrap());
            let (_client, accepted) = tokio::join!(client, listener.accept());
            connections.wait_for_evicted().await;
            let (socket, peer) = accepted.unwrap();
            let slot = connections.admit(socket, peer).unwrap();
            open.borrow_mut().push_back(slot);
        }
    };
    let most = LIMITS.connections + LIMITS.connections / 2 + 1;
    let mut flood = std::pin::pin!(flood);
    // A minute at the most, on a busy machine.
    for _ in 0..60 {
        if open.borrow().len() < most {
            let _ = timeout(SECOND, &mut flood).await;
        }
    }
    let _ = timeout(SECOND, flood).await;
    assert_eq!(open.borrow().len(), most);

    // The one that was closed first ends.
    connections.leave(&open.borrow_mut().pop_front().unwrap());
    timeout(SECOND, connections.wait_for_evicted())
        .await
        .unwrap();
}

#[tokio::test]
async fn calls_in_progress_are_cut_short_only_for_an_address_with_few() {
    let server = start().await;
    let mut calls = Vec::new();
    for _ in 0..8 {
        calls.push(
            server
                .send_from(2, b"GET /waits HTTP/1.1\r\nhost: a\r\n\r\n")
                .await,
        );
    }
    server.has_open(8).await;
    // Polling each one starts its request.
    while server.counters.evicted.get() == 0 {
        // No slot is available for the same address.
        let refused = server.send_from(2, GET).await;
        if is_ended(refused).await {
            break;
        }
    }
    let mut other = server.send_from(3, GET).await;
    assert_eq!(answer(&mut other).await, "HTTP/1.1 200 OK");
    assert!(server.counters.evicted.get() >= 1);
    server.permits.add_permits(8);
    let mut good = 0;
    for mut call in calls {
        good += u32::from(answer(&mut call).await == "HTTP/1.1 200 OK");
    }
    assert!(good >= 6, "{good}");
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_idle_clients_and_answers_the_others() {
    let server = start().await;
    let mut idle = server.send_from(1, GET).await;
    assert_eq!(answer(&mut idle).await, "HTTP/1.1 200 OK");
    idle.read_exact(&mut [0; 5]).await.unwrap();
    let mut busy = server
        .send_from(1, b"GET /waits HTTP/1.1\r\nhost: a\r\n\r\n")
        .await;
    let silent = server.connect_from(1).await;
    server.has_open(3).await;
    let began = Instant::now();
    server.stop.notify_one();
    assert!(is_ended(idle).await);
    assert!(began.elapsed() < Duration::from_millis(100));
    server.permits.add_permits(1);
    assert_eq!(answer(&mut busy).await, "HTTP/1.1 200 OK");
    assert!(is_ended(silent).await);
    server.running.await.unwrap().unwrap();
    assert!(began.elapsed() <= STOPPING.drain);
    assert!(TcpStream::connect(server.address).await.is_err());
}
