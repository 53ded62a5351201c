//! Clients that keep the server waiting: they wait themselves, or go.

use futures::future::join_all;

use super::*;
use crate::webhook::seats::{BODY_TIMEOUT, FIRST_HEADER_TIMEOUT, MAX_CONNECTIONS};

const BEGUN: &[u8] = b"POST /convert HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 1000000\r\n\r\n{";

/// A good call on a connection of its own; how long it took.
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
    // Of those who only connect, who speak TLS but no HTTP, and who never end their request.
    let silent = join_all((0..MAX_CONNECTIONS).map(|_| TcpStream::connect(server.address))).await;
    let mut proven = server.connect().await;
    let review = conversion("cache.example.com/v1", &[]);
    proven.post("/convert", &review).await.unwrap();
    let mut slow = Vec::new();
    for number in 0..MAX_CONNECTIONS {
        let mut client = server.connect().await;
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
    assert!(open <= MAX_CONNECTIONS as f64 + 8.0, "{open} open");
    assert!(server.metric("quartet_operator_webhook_connections_evicted_total") > 0.0);
    // Who has made a good call before is not among those who had to go.
    assert_eq!(proven.post("/convert", &review).await.unwrap().code, 200);
    drop((silent, slow));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_never_says_anything_is_hung_up_on() {
    let server = Server::start().await;
    let began = tokio::time::Instant::now();
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(silent.read_to_end(&mut Vec::new()).await.unwrap(), 0);
    assert!(began.elapsed() >= FIRST_HEADER_TIMEOUT);
    let mut no_request = server.connect().await;
    no_request
        .write(b"POST /convert HTTP/1.1\r\n")
        .await
        .unwrap();
    let mut rest = Vec::new();
    let _ = no_request.stream.read_to_end(&mut rest).await;
    assert!(rest.is_empty());
    assert!(began.elapsed() >= 2 * FIRST_HEADER_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_is_answered_after_its_time() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    let began = tokio::time::Instant::now();
    let reply = client.exchange(BEGUN).await.unwrap();
    assert_eq!(reply.code, 408, "{reply:?}");
    assert!(began.elapsed() >= BODY_TIMEOUT);
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
async fn large_bodies_share_their_memory_and_leave_small_ones_alone() {
    let server = Server::start().await;
    // One that has taken nearly all there is, and gives nothing back for now.
    let mut holder = server.connect().await;
    let length = 64 * 1024 * 1024;
    let head = format!(
        "POST /convert HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    holder.write(head.as_bytes()).await.unwrap();
    holder.write(&vec![b' '; length - 100_000]).await.unwrap();
    let took = good_call(&server).await;
    println!("a small call beside it: {took:?}");
    let body = vec![b' '; 1_000_000];
    let began = tokio::time::Instant::now();
    loop {
        let mut other = server.connect().await;
        let reply = other.send("/convert", "application/json", &body).await;
        match reply.unwrap().code {
            503 => break,
            // Until the server has read what the holder has written.
            code => assert_eq!(code, 400),
        }
        assert!(began.elapsed() < Duration::from_secs(30));
    }
    drop(holder);
    loop {
        let mut other = server.connect().await;
        let reply = other.send("/convert", "application/json", &body).await;
        // Until the server has seen that the holder is gone.
        if reply.is_ok_and(|reply| reply.code == 400) {
            return;
        }
    }
}
