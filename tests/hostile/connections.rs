//! Clients that open and hold connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::join_all;
use testkit::{Limit, load_factor};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant, sleep, timeout};

use crate::manager::{ADMISSION, GOOD, HOSTILE, Manager, is_busy, list_of};
use crate::{DEADLINE, MIB};

/// The duration of each attack.
const ATTACK: Duration = Duration::from_secs(5);
/// Silent connections to one of the servers: fewer than it accepts.
const SILENT: usize = 600;
/// Twice the timeout of the kubelet's probes, on an idle machine.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// The kubelet's default of failed probes in a row after which a container counts as not ready.
const FAILURES: u32 = 3;

#[derive(Debug, Clone, Copy)]
enum Port {
    Health,
    Webhooks,
}

/// Keeps `count` connections open that send nothing, and reopens each as soon as it is closed.
fn silent(
    manager: &Arc<Manager>,
    to: Port,
    from: u8,
    count: usize,
) -> (JoinSet<()>, Arc<AtomicUsize>) {
    let opened = Arc::new(AtomicUsize::new(0));
    let mut clients = JoinSet::new();
    for _ in 0..count {
        let (manager, opened) = (Arc::clone(manager), Arc::clone(&opened));
        clients.spawn(async move {
            loop {
                let stream = match to {
                    Port::Health => manager.connect_health(from).await,
                    Port::Webhooks => manager.connect_tcp(from).await,
                };
                if let Ok(mut stream) = stream {
                    opened.fetch_add(1, Ordering::Relaxed);
                    let _ = stream.read(&mut [0]).await;
                }
            }
        });
    }
    (clients, opened)
}

/// Promise: every probe is answered within 2 s on an idle machine, while 600 silent connections are
/// open from another address or from the same one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probes_are_answered_amid_silent_connections() {
    let manager = Arc::new(Manager::start().await);
    for from in [HOSTILE, GOOD] {
        let (clients, opened) = silent(&manager, Port::Health, from, SILENT);
        while opened.load(Ordering::Relaxed) < SILENT {
            sleep(Duration::from_millis(1)).await;
        }
        let (mut slowest, mut probes) = (Duration::ZERO, 0);
        let (began, mut limit) = (Instant::now(), Limit::new(DEADLINE));
        let mut failures = 0;
        // Longer than the server keeps a silent connection.
        while began.elapsed() < ATTACK + Duration::from_secs(1)
            || opened.load(Ordering::Relaxed) <= SILENT
        {
            assert!(
                !limit.is_over(),
                "silent connections are closed and reopened"
            );
            for path in ["/healthz", "/readyz"] {
                let asked = Instant::now();
                let limit = PROBE_TIMEOUT.mul_f64(load_factor());
                let answer = timeout(limit, manager.get(path)).await;
                // The check of the webhook server has a limit of its own, which a busy machine may exceed.
                let is_late = is_busy() && path == "/readyz" && answer == Ok(Some(500));
                if path == "/readyz" {
                    failures = if is_late { failures + 1 } else { 0 };
                }
                let is_good = answer == Ok(Some(200)) || is_late && failures < FAILURES;
                assert!(is_good, "{path} from address {from}: {answer:?}");
                slowest = slowest.max(asked.elapsed());
                probes += 1;
            }
            sleep(Duration::from_millis(20)).await;
        }
        let opened = opened.load(Ordering::Relaxed);
        println!(
            "{probes} probes amid {SILENT} silent connections from address {from}, {opened} in all; \
             the slowest took {slowest:?}"
        );
        drop(clients);
    }
}

/// Promise: a call on a new connection succeeds within 2 s on an idle machine, while 600 silent
/// connections to the webhook server are open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_answered_amid_silent_connections() {
    let manager = Arc::new(Manager::start().await);
    let small = list_of(1);
    let (clients, opened) = silent(&manager, Port::Webhooks, GOOD, SILENT);
    while opened.load(Ordering::Relaxed) < SILENT {
        sleep(Duration::from_millis(1)).await;
    }
    let (mut slowest, mut limit) = (Duration::ZERO, Limit::new(DEADLINE));
    // Longer than the server waits for a handshake.
    while opened.load(Ordering::Relaxed) <= SILENT + 10 {
        assert!(
            !limit.is_over(),
            "silent connections are closed and reopened"
        );
        let asked = Instant::now();
        let limit = PROBE_TIMEOUT.mul_f64(load_factor());
        let call = timeout(limit, manager.call(GOOD, "/convert", &small)).await;
        assert_eq!(call.expect("in time").expect("a response").code, 200);
        slowest = slowest.max(asked.elapsed());
        sleep(Duration::from_millis(20)).await;
    }
    println!("the slowest call took {slowest:?}");
    drop(clients);
}

/// Promise: the header of a client's request costs at most a few kilobytes, so that all of them
/// together take at most 16 MiB.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unfinished_headers_cost_little() {
    let manager = Manager::start().await;
    assert_eq!(manager.good_call("/convert", &list_of(1)).await.code, 200);
    let before = manager.resident();
    let large = [b"GET /healthz HTTP/1.1\r\nx: ".to_vec(), vec![b'x'; MIB]].concat();
    // Longer than the allowed header, and as long as allowed.
    let health = join_all((0..128).map(async |number: usize| {
        let mut stream = manager.connect_health(HOSTILE).await.ok()?;
        let length = if number.is_multiple_of(2) {
            large.len()
        } else {
            7 * 1024
        };
        let _ = stream.write_all(&large[..length]).await;
        Some(stream)
    }));
    let webhooks = join_all((0..400).map(async |number: usize| {
        let mut stream = manager.connect(HOSTILE).await.ok()?;
        let start = format!("POST {ADMISSION} HTTP/1.1\r\nx: ");
        let length = if number.is_multiple_of(2) {
            60_000
        } else {
            15_000
        };
        let header = [start.as_bytes(), &large[64..length]].concat();
        let _ = timeout(Duration::from_secs(1), stream.write_all(&header)).await;
        let _ = stream.flush().await;
        Some(stream)
    }));
    let held = futures::future::join(health, webhooks).await;
    sleep(Duration::from_millis(500)).await;
    let peak = manager.peak("unfinished headers");
    println!("grown by {} KiB", peak.saturating_sub(before) / 1024);
    assert!(peak <= before + 16 * MIB);
    assert_eq!(manager.get("/readyz").await, Some(200));
    assert_eq!(manager.good_call("/convert", &list_of(1)).await.code, 200);
    drop(held);
}
