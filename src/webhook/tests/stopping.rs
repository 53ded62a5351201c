//! A stop under load: no request is interrupted, and the stop completes.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_under_load_fails_no_call() {
    let server = Arc::new(Server::start().await);
    let (is_removed, answered) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU32::new(0)),
    );
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let server = Arc::clone(&server);
            let (is_removed, answered) = (Arc::clone(&is_removed), Arc::clone(&answered));
            tokio::spawn(async move {
                let review = creation(&memcached("v1alpha1", json!({"size": 3})));
                let mut asked_to_close = 0;
                loop {
                    let mut client = server.connect().await;
                    loop {
                        let reply = client.post(MEMCACHED_SPOKE, &review).await.unwrap();
                        assert_eq!(reply.code, 200);
                        answered.fetch_add(1, Ordering::Relaxed);
                        if reply.header("connection") == Some("close") {
                            asked_to_close += 1;
                            break;
                        }
                    }
                    if is_removed.load(Ordering::Relaxed) {
                        return asked_to_close;
                    }
                }
            })
        })
        .collect();
    while answered.load(Ordering::Relaxed) < 200 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let before = answered.load(Ordering::Relaxed);
    let began = tokio::time::Instant::now();
    server.stop.notify_one();
    // During the grace period, the endpoint is removed from the Service.
    tokio::time::sleep(STOPPING.grace / 2).await;
    is_removed.store(true, Ordering::Relaxed);
    for client in clients {
        assert!(client.await.unwrap() > 0, "answers asked for a close");
    }
    assert!(began.elapsed() >= STOPPING.grace / 2);
    println!(
        "{} calls before the stop, {} during it",
        before,
        answered.load(Ordering::Relaxed) - before
    );
    assert!(answered.load(Ordering::Relaxed) > before);
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_though_clients_do_not_let_go() {
    let server = Server::start().await;
    let review = conversion("cache.example.com/v1", &[]);
    let mut idle = server.connect().await;
    idle.post("/convert", &review).await.unwrap();
    let mut stuck = server.connect().await;
    stuck
        .write(b"POST /convert HTTP/1.1\r\ncontent-length: 9\r\n")
        .await
        .unwrap();
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
