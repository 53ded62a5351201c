//! What the tested code logs, as text.

use std::io;
use std::sync::{Arc, LazyLock, Mutex};

use tracing::Dispatch;
use tracing::subscriber::NoSubscriber;

/// While a process has only one subscriber, tracing asks the thread that first comes to a line whether the line is
/// of interest, and believes it for all threads. Tests that run beside one with a subscriber would switch its lines
/// off.
static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));

/// What was logged.
#[derive(Clone, Default)]
pub struct LogLines(Arc<Mutex<Vec<u8>>>);

impl io::Write for LogLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl LogLines {
    /// All of it.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().expect("no panic")).into_owned()
    }

    /// Its lines.
    pub fn written(&self) -> Vec<String> {
        self.text().lines().map(str::to_owned).collect()
    }
}

/// A subscriber for `tracing::subscriber::with_default`, and what it writes.
pub fn log_lines() -> (LogLines, impl tracing::Subscriber + Send + Sync) {
    LazyLock::force(&SECOND);
    let lines = LogLines::default();
    let writer = lines.clone();
    let writes = tracing_subscriber::fmt().with_ansi(false);
    (lines, writes.with_writer(move || writer.clone()).finish())
}
