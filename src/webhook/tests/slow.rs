//! Clients that are slow or disconnect.

use futures::future::join_all;

use super::*;
use crate::budget::{SHARED_BODY, WEBHOOKS};
use crate::server::WINDOW;

const BEGUN: &[u8] = b"POST /convert HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 1000000\r\n\r\n{";

/// A valid call on its own connection; returns its duration.
async fn good_call(server: &Server) -> Duration {
    let began = tokio::time::Instant::now();
    let review = conversion(
        "cache.example.com/v1",
        &[memcached("v1alpha1", json!({"size": 3}))],
    );
    let reply = tokio::time::timeout(Duration::from_secs(10), server.post("/convert", &review));
    assert_eq!(reply.await.unwrap().code, 200);
    began.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_slow_clients_do_not_keep_a_good_one_waiting() {
    let server = Server::start().await;
    // Connections without TLS, with TLS but without HTTP, and with an incomplete request.
    let silent = join_all((0..WEBHOOKS.connections).map(|_| server.connect_from(2))).await;
    let mut validated = server.connect().await;
    let review = conversion("cache.example.com/v1", &[]);
    validated.post("/convert", &review).await.unwrap();
    let mut slow = Vec::new();
    for number in 0..WEBHOOKS.connections {
        let stream = server.connect_from(2).await.unwrap();
        let mut client = server.handshake(stream).await;
        if number % 2 == 0 {
            client.write(BEGUN).await.unwrap();
        }
        slow.push(client);
    }
    let mut times = Vec::new();
    for _ in 0..20 {
        times.push(good_call(&server).await);
    }
    times.sort_unstable();
    println!("good calls, handshake included: {times:?}");
    let open = server.metric("quartet_operator_webhook_connections");
    assert!(open <= WEBHOOKS.connections as f64 + 8.0, "{open} open");
    assert!(server.metric("quartet_operator_webhook_connections_evicted_total") > 0.0);
    // Connections of an address with few connections are not closed.
    assert_eq!(validated.post("/convert", &review).await.unwrap().code, 200);
    drop((silent, slow));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_never_says_anything_is_hung_up_on() {
    let server = Server::start().await;
    let began = tokio::time::Instant::now();
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(silent.read_to_end(&mut Vec::new()).await.unwrap(), 0);
    assert!(began.elapsed() >= WEBHOOKS.header);
    let mut no_request = server.connect().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let began = tokio::time::Instant::now();
    no_request
        .write(b"POST /convert HTTP/1.1\r\n")
        .await
        .unwrap();
    let mut rest = Vec::new();
    let _ = no_request.stream.read_to_end(&mut rest).await;
    assert!(rest.is_empty());
    let waited = began.elapsed();
    assert!(
        waited >= WEBHOOKS.header && waited < WEBHOOKS.idle,
        "{waited:?}"
    );
    // A Go client closes a connection that it does not use after 90 s.
    let began = tokio::time::Instant::now();
    let mut unused = server.connect().await;
    let mut rest = Vec::new();
    let _ = unused.stream.read_to_end(&mut rest).await;
    assert!(began.elapsed() >= WEBHOOKS.idle);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_is_answered_after_its_time() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    let began = tokio::time::Instant::now();
    let reply = client.exchange(BEGUN).await.unwrap();
    assert_eq!(reply.code, 408, "{reply:?}");
    assert!(began.elapsed() >= WINDOW);
    assert!(client.post("/convert", &json!({})).await.is_err(), "closed");
}

#[tokio::test(start_paused = true)]
async fn a_connection_may_rest_longer_than_the_clients_of_go_keep_theirs() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    let review = conversion("cache.example.com/v1", &[]);
    for _ in 0..3 {
        assert_eq!(client.post("/convert", &review).await.unwrap().code, 200);
        tokio::time::sleep(Duration::from_secs(91)).await;
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(client.post("/convert", &review).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_longest_bodies_are_taken_one_at_a_time_and_leave_others_alone() {
    let server = Server::start().await;
    let head = format!(
        "POST /convert HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        WEBHOOKS.connections * 100_000
    );
    let stream = server.connect_from(2).await.unwrap();
    let mut holder = server.handshake(stream).await;
    holder.write(head.as_bytes()).await.unwrap();
    let is_held = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let held = Arc::clone(&is_held);
    // Fast enough to stay connected until the timeout of ten seconds.
    let holding = tokio::spawn(async move {
        while held.load(std::sync::atomic::Ordering::Relaxed) {
            holder.write(&[b' '; 30_000]).await.unwrap();
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    });
    let began = tokio::time::Instant::now();
    let small = good_call(&server).await;
    let mut other = server.connect().await;
    let medium = vec![b' '; SHARED_BODY];
    let reply = other.send("/convert", "application/json", &medium).await;
    assert_eq!(reply.unwrap().code, 400, "read, and no review");
    println!(
        "a small call beside it: {small:?}, 8 MiB: {:?}",
        began.elapsed()
    );
    let mut second = server.connect().await;
    second.write(head.as_bytes()).await.unwrap();
    assert!(
        !is_held.fetch_and(false, std::sync::atomic::Ordering::Relaxed)
            || began.elapsed() < Duration::from_secs(10)
    );
    // The first call has ended, and the second one holds the budget.
    holding.await.unwrap();
    let body = vec![b' '; WEBHOOKS.connections * 100_000];
    let mut sent = second.exchange(&body).await.unwrap();
    // 408 is the answer to a client that is too slow, as on a busy machine.
    for _ in 0..6 {
        if sent.code == 408 {
            let mut again = server.connect().await;
            let reply = again.send("/convert", "application/json", &body).await;
            sent = reply.unwrap();
        }
    }
    assert_eq!(sent.code, 400, "{sent:?}");
}

/// On one thread: what the server has done when a call is answered that came after `HELLOS` handshakes.
#[tokio::test]
async fn a_call_on_an_open_connection_does_not_wait_for_the_handshakes_before_it() {
    const HELLOS: usize = 50;
    let server = Server::start().await;
    let mut caller = server.connect().await;
    let review = conversion("cache.example.com/v1", &[]);
    assert_eq!(caller.post("/convert", &review).await.unwrap().code, 200);
    let name = ServerName::try_from("localhost").unwrap();
    let mut client = rustls::ClientConnection::new(Arc::new(server.tls.clone()), name).unwrap();
    let mut hello = Vec::new();
    client.write_tls(&mut hello).unwrap();
    let newcomers = join_all((0..HELLOS).map(|_| TcpStream::connect(server.address))).await;
    let newcomers: Vec<_> = newcomers.into_iter().map(Result::unwrap).collect();
    let open = "quartet_operator_webhook_connections";
    while server.metric(open) < HELLOS as f64 + 1.0 {
        tokio::task::yield_now().await;
    }
    // The server cannot run meanwhile: it finds all of them, and then the call.
    for newcomer in &newcomers {
        assert_eq!(newcomer.try_write(&hello).unwrap(), hello.len());
    }
    assert_eq!(caller.post("/convert", &review).await.unwrap().code, 200);
    let is_answered = |newcomer: &&TcpStream| newcomer.try_read(&mut [0; 64]).is_ok();
    let answered = newcomers.iter().filter(is_answered).count();
    assert!(answered < HELLOS / 5, "{answered} handshakes came first");
    for newcomer in &newcomers {
        newcomer.readable().await.unwrap();
        assert!(newcomer.try_read(&mut [0; 64]).unwrap() > 0);
    }
}
