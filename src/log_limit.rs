//! Keeps a kind of log line that clients can cause at will down to one per 10 s.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long after a line the next ones of its kind are only counted.
pub(crate) const PERIOD: Duration = Duration::from_secs(10);

/// One kind of log line; a `static` beside the line.
#[derive(Debug)]
pub(crate) struct LogLimit {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    last: Option<Instant>,
    omitted: u64,
}

impl LogLimit {
    pub(crate) const fn new() -> Self {
        let (last, omitted) = (None, 0);
        Self {
            state: Mutex::new(State { last, omitted }),
        }
    }

    /// Whether the line is to be written now; if so, how many were left out since the last.
    pub(crate) fn admit(&self) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if state.last.is_some_and(|last| now - last < PERIOD) {
            state.omitted += 1;
            return None;
        }
        state.last = Some(now);
        Some(std::mem::take(&mut state.omitted))
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
