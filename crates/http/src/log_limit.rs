//! Limits log lines that clients can cause: at most one of a kind per 10 s.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The period after a line in which further lines of its kind are only counted.
const PERIOD: Duration = Duration::from_secs(10);

/// The state of one kind of log line; a `static` next to the log statement.
#[derive(Debug)]
pub struct LogLimit {
    /// When the last line was written, and how many were omitted since.
    state: Mutex<(Option<Instant>, u64)>,
}

impl Default for LogLimit {
    fn default() -> Self {
        Self::new()
    }
}

impl LogLimit {
    /// No line has been written.
    pub const fn new() -> Self {
        let state = Mutex::new((None, 0));
        Self { state }
    }

    /// Returns `None` if the line must not be written; otherwise the number of lines that were
    /// omitted since the last one.
    pub fn admit(&self) -> Option<u64> {
        let (last, omitted) = &mut *self.state.lock();
        let now = Instant::now();
        if last.is_some_and(|last| now - last < PERIOD) {
            *omitted += 1;
            return None;
        }
        *last = Some(now);
        Some(std::mem::take(omitted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_line_per_period_is_admitted_with_a_count_of_the_others() {
        let limit = LogLimit::new();
        let admitted: Vec<_> = (0..2000).filter_map(|_| limit.admit()).collect();
        assert_eq!(admitted, [0]);
        tokio::time::advance(PERIOD).await;
        assert_eq!(limit.admit(), Some(1999));
        assert_eq!(limit.admit(), None);
    }
}
