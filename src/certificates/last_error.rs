//! The log of something that is retried: an error that lasts is logged once an hour.

use std::error::Error;
use std::time::Duration;

use tokio::time::Instant;

use crate::error_report::error_report;

/// How often an error that lasts is logged again: logs are rotated.
const REPEAT: Duration = Duration::from_secs(60 * 60);

/// The last error of something that is retried, and when it was logged; reset it after a success.
#[derive(Default)]
pub(super) struct LastError(Option<(String, Instant)>);

impl LastError {
    /// Logs `error` after `message`, unless it is the last one of this hour.
    pub(super) fn warn(&mut self, error: &dyn Error, message: &str) {
        let error = error_report(error);
        let is_told = |(last, at): &(String, Instant)| *last == error && at.elapsed() < REPEAT;
        if !self.0.as_ref().is_some_and(is_told) {
            tracing::warn!(error, "{message}");
            self.0 = Some((error, Instant::now()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manager::telemetry::tests::log_lines;

    #[tokio::test(start_paused = true)]
    async fn an_error_that_lasts_is_logged_once_an_hour() {
        let (lines, writer) = log_lines();
        let _logs = tracing::subscriber::set_default(writer);
        let mut last = LastError::default();
        let mut logged = |error: &str| {
            let before = lines.written().len();
            last.warn(&std::io::Error::other(error.to_owned()), "it failed");
            lines.written().len() - before
        };
        assert_eq!(["forbidden"; 3].map(&mut logged), [1, 0, 0]);
        tokio::time::advance(REPEAT).await;
        let errors = ["forbidden", "forbidden", "gone", "forbidden"];
        assert_eq!(errors.map(logged), [1, 0, 1, 1]);
    }
}
