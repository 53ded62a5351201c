//! Clients that begin handshakes faster than the server can answer.

use testkit::Limit;
use tokio::io::AsyncWriteExt as _;
use tokio::time::{Duration, Instant};

use crate::DEADLINE;
use crate::manager::{HOSTILE, Manager};

/// The duration of the attack.
const ATTACK: Duration = Duration::from_secs(5);
/// The webhook server's connections, and other files.
const MOST_FILES: usize = 640 + 128;

/// Promise: a connection counts until it keeps no file, so that there are never more than the limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_counted_until_they_keep_no_file() {
    let manager = Manager::start().await;
    let hello = manager.hello();
    let (mut open, mut most, mut begun) = (Vec::new(), 0, 0);
    let started = Instant::now();
    let mut limit = Limit::new(DEADLINE);
    // As many as show something, however slow the machine is.
    while started.elapsed() < ATTACK || begun <= 2 * MOST_FILES {
        assert!(!limit.is_over(), "only {begun} handshakes");
        for _ in 0..100 {
            let Ok(mut stream) = manager.connect_tcp(HOSTILE).await else {
                continue;
            };
            // The server may have closed it already.
            let _ = stream.write_all(&hello).await;
            open.push(stream);
            begun += 1;
        }
        most = most.max(manager.files());
        // This process may have a limit of 1024 files.
        if open.len() > 700 {
            open.drain(..400);
        }
    }
    println!("at most {most} open files amid {begun} handshakes");
    assert!(most <= MOST_FILES, "{most} open files");
}
