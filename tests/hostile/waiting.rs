//! Good calls and probes while other clients hold connections and memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use testkit::{Limit, http, load_factor};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::manager::{Manager, head, list_of};
use crate::{CONVERSION, DEADLINE, MIB, MOST_RESIDENT, SOON};

/// Silent connections to a server: fewer than it accepts.
const SILENT: usize = 600;
/// Number of bodies that stop, and where they stop.
const STALLED: usize = 24;
const STALLED_AT: usize = 33_000;

/// Makes a small call, which must be answered soon.
async fn small_call(manager: &Manager) {
    let (began, mut limit) = (Instant::now(), Limit::new(SOON));
    assert_eq!(manager.good_call(CONVERSION, &list_of(1)).await.code, 200);
    let took = began.elapsed();
    assert!(!limit.is_over(), "{took:?}");
}

/// Promise: while 600 silent connections to a server reconnect all the time, every probe and every call on
/// a new connection is answered within 2 s on an idle machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probes_and_calls_are_answered_amid_silent_connections() {
    let manager = Manager::start().await;
    for server in [manager.health, manager.webhooks] {
        let opened = Arc::new(AtomicUsize::new(0));
        let mut clients = JoinSet::new();
        for _ in 0..SILENT {
            let opened = Arc::clone(&opened);
            clients.spawn(async move {
                loop {
                    if let Ok(mut stream) = TcpStream::connect(server).await {
                        opened.fetch_add(1, Ordering::Relaxed);
                        let _ = stream.read(&mut [0]).await;
                    }
                }
            });
        }
        let opened = || opened.load(Ordering::Relaxed);
        let mut limit = Limit::new(DEADLINE);
        while opened() < SILENT {
            limit.pause(|| "not opened").await;
        }
        // Longer than the server keeps a silent connection.
        while opened() < SILENT + 10 {
            assert!(!limit.is_over(), "silent connections are not closed");
            // A kubelet allows three failures in a row; a busy machine may cause one.
            let mut probe = http::probe(manager.health, "/readyz").await;
            if probe != Some(200) && load_factor() > 2.0 {
                probe = http::probe(manager.health, "/readyz").await;
            }
            assert_eq!(probe, Some(200));
            small_call(&manager).await;
            sleep(SOON / 100).await;
        }
    }
}

/// Promise: small calls are answered within 2 s, however often bodies are sent that declare all of the
/// memory and stop in the middle.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stalled_bodies_do_not_delay_small_calls() {
    let manager = Arc::new(Manager::start().await);
    let mut stalled = JoinSet::new();
    for number in 0..STALLED {
        let manager = Arc::clone(&manager);
        // Half of them declare the longest allowed body.
        let declared = if number % 2 == 0 { 64 * MIB } else { 6 * MIB };
        stalled.spawn(async move {
            loop {
                let Ok(mut stream) = manager.connect().await else {
                    continue;
                };
                let start = head(CONVERSION, Some(declared)) + &" ".repeat(STALLED_AT);
                let _ = stream.write_all(start.as_bytes()).await;
                let _ = stream.flush().await;
                let _ = stream.read(&mut [0; 64]).await;
            }
        });
    }
    sleep(SOON / 2).await;
    for _ in 0..3 {
        small_call(&manager).await;
    }
}

/// Promise: a list of 60 MiB is converted, and small calls are answered in time meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_60_mib_is_converted_beside_small_calls() {
    let manager = Manager::start().await;
    let large = list_of(60 * MIB);
    manager.resident();
    let beside = async {
        loop {
            small_call(&manager).await;
            sleep(SOON / 8).await;
        }
    };
    let converted = async {
        let mut limit = Limit::new(DEADLINE);
        loop {
            let reply = manager.good_call(CONVERSION, &large).await;
            // 408 is the answer to a client that is too slow, as on a busy machine.
            if reply.code != 408 || limit.is_over() {
                break reply;
            }
        }
    };
    tokio::select! {
        reply = converted => {
            assert_eq!(reply.code, 200);
            let answer: Value = serde_json::from_slice(&reply.body).unwrap();
            let response = &answer["response"];
            assert_eq!(response["result"]["status"], "Success");
            let objects = response["convertedObjects"].as_array().unwrap();
            assert!(objects.len() > 9000 && objects.iter().all(|it| it["spec"]["replicas"] == 3));
        }
        () = beside => unreachable!(),
    }
    assert!(manager.peak("one list of 60 MiB") <= MOST_RESIDENT);
}
