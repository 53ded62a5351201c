//! Endless, slow and oversized request bodies, and responses that clients do not read.

use std::sync::Arc;

use futures::future::join_all;
use testkit::{Limit, load_factor};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant, sleep, timeout};
use tokio_rustls::client::TlsStream;

use crate::manager::{ADMISSION, HOSTILE, Manager, Reply, head, list_of, read_code};
use crate::{DEADLINE, MIB, MOST_RESIDENT};

const CLIENTS: usize = 24;
/// Number of bodies that stop, and the offset at which they stop.
const STALLED: usize = 24;
const STALLED_AT: usize = 33_000;

/// Returns the replies to these calls, each made by several clients at the same time. On a busy machine
/// all may be too slow (408) or find no memory (503): then they are repeated until one was read.
async fn replies(manager: &Manager, calls: &[(&str, String)]) -> Vec<Reply> {
    let mut limit = Limit::new(DEADLINE);
    loop {
        let clients = calls.iter().cycle().take(CLIENTS);
        let clients = clients.map(|(path, body)| manager.good_call(path, body.as_bytes()));
        let replies = join_all(clients).await;
        let codes: Vec<_> = replies.iter().map(|reply| reply.code).collect();
        println!("answers: {codes:?}");
        if codes.iter().any(|code| ![408, 503].contains(code)) {
            return replies;
        }
        assert!(!limit.is_over(), "none was read");
    }
}

/// Sends `text` repeatedly until the server responds. Returns the status code, or `None` if the
/// server closed the connection without a readable one.
async fn send_repeatedly(
    mut stream: TlsStream<TcpStream>,
    path: &str,
    declared: Option<usize>,
    text: &[u8],
) -> Option<u16> {
    stream
        .write_all(head(path, declared).as_bytes())
        .await
        .ok()?;
    let repeated = text.repeat(0x4000 / text.len());
    let size = format!("{:x}\r\n", repeated.len());
    let chunk = match declared {
        Some(_) => repeated,
        None => [size.as_bytes(), &repeated, b"\r\n"].concat(),
    };
    let (mut from, mut to) = tokio::io::split(&mut stream);
    let endless = async {
        while to.write_all(&chunk).await.is_ok() {}
        std::future::pending::<()>().await;
    };
    tokio::select! {
        code = read_code(&mut from) => code,
        () = endless => None,
    }
}

/// Promise: calls of up to 16 KiB are answered in time, however often bodies are sent that declare all of
/// the memory and stop in the middle.
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
                let Ok(mut stream) = manager.connect(HOSTILE).await else {
                    continue;
                };
                let start = [
                    head("/convert", Some(declared)).into_bytes(),
                    vec![b' '; STALLED_AT],
                ];
                let _ = stream.write_all(&start.concat()).await;
                let _ = stream.flush().await;
                let _ = stream.read(&mut [0; 64]).await;
            }
        });
    }
    sleep(Duration::from_secs(1)).await;
    for bytes in [1, 8_000, 1] {
        let (began, mut limit) = (Instant::now(), Limit::new(Duration::from_secs(2)));
        let list = list_of(bytes);
        assert_eq!(manager.good_call("/convert", &list).await.code, 200);
        println!(
            "{} bytes converted in {:?} amid {STALLED} stalled bodies",
            list.len(),
            began.elapsed()
        );
        assert!(!limit.is_over(), "{:?}", began.elapsed());
    }
}

/// Promise: endless bodies, deeply nested ones, strings that an error might quote, and responses that no
/// client reads keep the manager below 192 MiB; large calls are served again soon afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endless_bodies_and_unread_responses_use_bounded_memory() {
    let manager = Arc::new(Manager::start().await);
    let small = list_of(1);
    assert_eq!(manager.good_call("/convert", &small).await.code, 200);
    manager.resident();

    // Endless bodies with the longest allowed declared length, or without one.
    let endless: [(&str, &[u8], Option<usize>); 8] = [
        ("/convert", b" ", Some(64 * MIB)),
        ("/convert", b"[0,", Some(64 * MIB)),
        ("/convert", b"{\"request\":", Some(64 * MIB - 1)),
        ("/convert", b" ", None),
        ("/convert", b"[0,", None),
        (ADMISSION, b" ", Some(7 * MIB)),
        (ADMISSION, b"{\"a\":", Some(7 * MIB)),
        (ADMISSION, b"{\"a\":", None),
    ];
    let all_connected = Arc::new(Barrier::new(CLIENTS));
    let limit = DEADLINE.mul_f64(load_factor());
    let clients = (0..CLIENTS).map(|number| {
        let (manager, all_connected) = (Arc::clone(&manager), Arc::clone(&all_connected));
        let (path, text, declared) = endless[number % endless.len()];
        tokio::spawn(async move {
            let stream = timeout(limit, manager.connect(HOSTILE))
                .await
                .unwrap()
                .unwrap();
            all_connected.wait().await;
            timeout(limit, send_repeatedly(stream, path, declared, text)).await
        })
    });
    let codes: Vec<_> = join_all(clients)
        .await
        .into_iter()
        .map(|code| code.unwrap().expect("a response"))
        .collect();
    println!("answers: {codes:?}");
    for code in codes.into_iter().flatten() {
        // 400 for a body of 7 MiB that was read to its end.
        assert!([400, 408, 411, 413, 503].contains(&code), "{code}");
    }
    // One of them may have reached 64 MiB; not two.
    assert!(manager.peak("endless bodies") <= MOST_RESIDENT);
    manager.resident();

    // Strings that an error might quote.
    let text = |length: usize| "x".repeat(length);
    let bodies = [
        ("/convert", format!(r#"{{"request":"{}"}}"#, text(20 * MIB))),
        (
            "/convert",
            format!(
                r#"{{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1","request":{{"uid":"u","desiredAPIVersion":"cache.example.com/v1","objects":[{{"kind":"{0}","metadata":{{"namespace":"{0}","name":"{0}"}}}}]}}}}"#,
                text(7 * MIB)
            ),
        ),
        (
            ADMISSION,
            format!(
                r#"{{"kind":"AdmissionReview","request":"{}"}}"#,
                text(6 * MIB)
            ),
        ),
    ];
    for reply in replies(&manager, &bodies).await {
        let (code, length) = (reply.code, reply.body.len());
        assert!([200, 400, 408, 503].contains(&code), "{code}");
        assert!(length < 8192, "an error quotes {length} bytes");
    }
    assert!(manager.peak("strings that an error might quote") <= MOST_RESIDENT);
    manager.resident();

    // Values nested as deeply as a body can be.
    let nested = [
        (
            "/convert",
            format!(r#"{{"request":{{"x":{}"#, "[".repeat(60 * MIB)),
        ),
        (
            ADMISSION,
            format!(r#"{{"request":{{"object":{}"#, "[".repeat(6 * MIB)),
        ),
    ];
    for reply in replies(&manager, &nested).await {
        assert!([400, 408, 503].contains(&reply.code), "{}", reply.code);
    }
    assert!(manager.peak("nested values") <= MOST_RESIDENT);
    manager.resident();

    // Good calls whose responses no client reads.
    let list = Arc::new(list_of(6 * MIB));
    let clients = (0..CLIENTS).map(|_| {
        let (manager, list) = (Arc::clone(&manager), Arc::clone(&list));
        tokio::spawn(async move {
            let mut stream = manager.connect_narrow(HOSTILE).await;
            let request = [head("/convert", Some(list.len())).as_bytes(), &list].concat();
            let _ = timeout(DEADLINE, stream.write_all(&request)).await;
            stream
        })
    });
    let held = join_all(clients).await;
    // Meanwhile a good small call is answered at once, and large ones soon: a request may take 30 s.
    assert_eq!(manager.good_call("/convert", &small).await.code, 200);
    assert!(manager.peak("responses that no client reads") <= MOST_RESIDENT);
    let (began, mut limit) = (Instant::now(), Limit::new(DEADLINE));
    while manager.good_call("/convert", &list).await.code != 200 {
        assert!(!limit.is_over(), "no large body is accepted");
    }
    println!(
        "large bodies are accepted again after {:?}",
        began.elapsed()
    );
    drop(held);
}
