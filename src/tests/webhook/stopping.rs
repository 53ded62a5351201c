//! How long a stop takes. `tests/rollout` shows that it fails no call. Also clients that say nothing.

use super::*;
use quartet_http::server::HANDSHAKE;
use quartet_webhook::limits::WEBHOOKS;

#[tokio::test(start_paused = true)]
async fn a_stop_ends_though_clients_do_not_let_go() {
    let server = Server::start().await;
    let review = conversion("cache.example.com/v1", &[]);
    let mut idle = server.connect().await;
    idle.post("/convert", &review).await.unwrap();
    let mut stuck = server.connect().await;
    let half = b"POST /convert HTTP/1.1\r\ncontent-length: 9\r\n";
    stuck.write(half).await.unwrap();
    server.stop.notify_one();
    let began = tokio::time::Instant::now();
    server.running.await.unwrap().unwrap();
    let took = began.elapsed();
    let bound = STOPPING.grace + STOPPING.drain;
    assert!(took <= bound + Duration::from_millis(100), "{took:?}");
    assert!(idle.post("/convert", &review).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_stop_without_clients_takes_the_time_of_grace_only() {
    let server = Server::start().await;
    let mut idle = server.connect().await;
    let review = conversion("cache.example.com/v1", &[]);
    idle.post("/convert", &review).await.unwrap();
    let began = tokio::time::Instant::now();
    server.stop.notify_one();
    server.running.await.unwrap().unwrap();
    assert!(began.elapsed() < STOPPING.grace + Duration::from_millis(100));
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
