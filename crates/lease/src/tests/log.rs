//! What a test logs, as text.

use std::io;
use std::sync::{Arc, Mutex};

/// What was logged.
#[derive(Clone, Default)]
pub(super) struct LogLines(Arc<Mutex<Vec<u8>>>);

impl io::Write for LogLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl LogLines {
    pub(super) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

/// A subscriber, and what it writes.
pub(super) fn log_lines() -> (LogLines, impl tracing::Subscriber + Send + Sync) {
    let lines = LogLines::default();
    let writer = lines.clone();
    let writes = tracing_subscriber::fmt().with_ansi(false);
    (lines, writes.with_writer(move || writer.clone()).finish())
}
