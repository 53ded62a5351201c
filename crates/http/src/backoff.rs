//! Repetition of requests, and the delay before it.

use std::time::Duration;

use tokio::time::sleep;

use super::error::RequestError;

/// Calls `send`, and again after each of `pauses` while its error is transient. A pause is longer if the
/// API server asks for it.
///
/// # Errors
/// The first that is not transient, or the last one.
pub async fn retried<T, F: Future<Output = Result<T, RequestError>>>(
    pauses: impl IntoIterator<Item = Duration>,
    is_transient: impl Fn(&RequestError) -> bool,
    mut send: impl FnMut() -> F,
) -> Result<T, RequestError> {
    for pause in pauses {
        match send().await {
            Err(error) if is_transient(&error) => {
                tracing::debug!(%error, "the request is repeated");
                sleep(pause.max(error.retry_after().unwrap_or_default())).await;
            }
            result => return result,
        }
    }
    send().await
}

/// `base · 2^exponent`, at most `limit`. Does not overflow for any exponent.
pub fn exponential(base: Duration, exponent: u32, limit: Duration) -> Duration {
    let factor = 1u32.checked_shl(exponent);
    factor
        .and_then(|factor| base.checked_mul(factor))
        .map_or(limit, |delay| delay.min(limit))
}
