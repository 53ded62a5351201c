//! Clients that are slow or disconnect.

use futures::future::join_all;

use super::*;
use crate::budget::WEBHOOKS;
use crate::server::HANDSHAKE;

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

/// Nearly as many as the server may have: without TLS, with TLS but without HTTP, and with an incomplete
/// header.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_say_nothing_do_not_keep_a_good_one_waiting() {
    let server = Server::start().await;
    let silent = (0..WEBHOOKS.connections - 240).map(|_| TcpStream::connect(server.address));
    let silent = join_all(silent).await;
    let mut slow = Vec::new();
    for number in 0..200 {
        let mut client = server.connect().await;
        if number % 2 == 0 {
            client.write(b"POST /convert HTTP/1.1\r\n").await.unwrap();
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
    assert!(open <= WEBHOOKS.connections as f64, "{open} open");
    assert!(open >= WEBHOOKS.connections as f64 - 40.0, "{open} open");
    drop((silent, slow));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_never_says_anything_is_hung_up_on() {
    let server = Server::start().await;
    let began = tokio::time::Instant::now();
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(silent.read_to_end(&mut Vec::new()).await.unwrap(), 0);
    let waited = began.elapsed();
    assert!(waited >= HANDSHAKE && waited < WEBHOOKS.idle, "{waited:?}");
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
    assert!(began.elapsed() >= Duration::from_secs(10));
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
