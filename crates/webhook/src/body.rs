//! Reads a request body within limits of size, time and memory. Independent of the content.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use futures::TryStreamExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::answer::Answer;
use crate::limits::{CALL_BYTES, CONVERSION_SHARES, FREE_BYTES};

/// Longest wait for memory. The API server waits 5 s for an admission, and repeats a call that is
/// answered with 503.
const MEMORY_TIMEOUT: Duration = Duration::from_secs(3);
/// Longest time of a body. The API server gives up sooner on an admission.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// The memory of a call whose body and answer are `shares` times as long as its body.
fn needed(body: usize, shares: usize) -> usize {
    (body * shares).min(CALL_BYTES)
}

/// How long the answer to a conversion may be.
pub(super) fn longest_answer(body: usize) -> usize {
    needed(body, CONVERSION_SHARES).max(FREE_BYTES) - body
}

/// Reads `body` to its end, and returns it with its share of the memory of all calls; a short one has none.
/// `declared` is its Content-Length, of at most `limit`. Waits for memory first, in the order of the calls.
///
/// # Errors
/// The response if the body is longer, has no length or is too slow, if there is no free memory, or if the
/// client disconnects.
pub(super) async fn read(
    memory: &Arc<Semaphore>,
    body: Body,
    declared: Option<u64>,
    limit: usize,
    shares: usize,
) -> Result<(Vec<u8>, Option<OwnedSemaphorePermit>), Answer> {
    let rejected = |status, message: &str| Err(Answer::rejection(status, message));
    let Some(length) = declared.and_then(|length| usize::try_from(length).ok()) else {
        let message = "a body must declare its length";
        return rejected(StatusCode::LENGTH_REQUIRED, message);
    };
    if length > limit {
        let message = format!("the body has more than {limit} bytes");
        return rejected(StatusCode::PAYLOAD_TOO_LARGE, &message);
    }
    let mut permit = None;
    let needed = needed(length, shares);
    if needed > FREE_BYTES {
        let acquired = Arc::clone(memory).acquire_many_owned(needed as u32);
        let Ok(Ok(acquired)) = timeout(MEMORY_TIMEOUT, acquired).await else {
            let message = "too many large requests at a time; try again";
            return rejected(StatusCode::SERVICE_UNAVAILABLE, message);
        };
        permit = Some(acquired);
    }
    let mut text = Vec::with_capacity(length);
    let mut pieces = body.into_data_stream();
    let whole = async {
        // HTTP ends a body at its declared length.
        while let Some(piece) = pieces.try_next().await? {
            text.extend_from_slice(&piece);
        }
        Ok::<_, axum::Error>(())
    };
    match timeout(BODY_TIMEOUT, whole).await {
        Ok(Ok(())) => Ok((text, permit)),
        Ok(Err(error)) => {
            let message = format!("cannot read the body: {error}");
            rejected(StatusCode::BAD_REQUEST, &message)
        }
        Err(_) => {
            let message = format!("the body takes more than {} s", BODY_TIMEOUT.as_secs());
            rejected(StatusCode::REQUEST_TIMEOUT, &message)
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Bytes;
    use futures::{FutureExt as _, StreamExt as _, stream};
    use tokio::time::Instant;

    use super::*;
    use crate::limits::CONVERSION_BODY;

    const LIMIT: usize = 1024 * 1024;
    const PIECE: usize = 16 * 1024;

    fn memory() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(CALL_BYTES))
    }

    /// `length` bytes in pieces, one after each `pause`.
    fn slow(length: usize, pause: Duration) -> Body {
        let pieces = (0..length).step_by(PIECE).map(move |start| {
            Ok::<_, axum::Error>(Bytes::from(vec![b'x'; PIECE.min(length - start)]))
        });
        Body::from_stream(stream::iter(pieces).then(move |piece| async move {
            tokio::time::sleep(pause).await;
            piece
        }))
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_and_its_answer_take_memory_before_the_body_is_read() {
        let memory = memory();
        for (length, shares, taken) in [
            (0, 3, 0),
            (FREE_BYTES, 1, 0),
            (FREE_BYTES / 3, 3, 0),
            (FREE_BYTES / 3 + 1, 3, FREE_BYTES + 3),
            (LIMIT, 1, LIMIT),
            (LIMIT, 3, 3 * LIMIT),
        ] {
            let body = slow(length, Duration::from_millis(1));
            let reading = read(&memory, body, Some(length as u64), LIMIT, shares);
            let mut reading = Box::pin(reading);
            let early = reading.as_mut().now_or_never();
            assert_eq!(memory.available_permits(), CALL_BYTES - taken, "{length}");
            let received = match early {
                Some(received) => received,
                None => reading.await,
            };
            let received = received.unwrap();
            assert_eq!(received.0, vec![b'x'; length]);
            assert_eq!(memory.available_permits(), CALL_BYTES - taken, "{length}");
            drop(received);
            assert_eq!(memory.available_permits(), CALL_BYTES);
        }
    }

    #[test]
    fn a_body_and_its_answer_take_no_more_than_their_memory() {
        for body in [0, 1, FREE_BYTES / 3, LIMIT, CONVERSION_BODY] {
            let both = body + longest_answer(body);
            let taken = needed(body, CONVERSION_SHARES);
            assert!(
                both == FREE_BYTES.max(taken) && both <= CALL_BYTES,
                "{body}"
            );
            assert!(longest_answer(body) >= body);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_is_rejected_by_its_declared_length_and_its_time() {
        let memory = memory();
        let code = async |declared, length, pause| {
            let began = Instant::now();
            let read = read(&memory, slow(length, pause), declared, LIMIT, 1).await;
            let code = read.err().map(|rejection| rejection.status.as_u16());
            (code, began.elapsed().as_secs())
        };
        let second = Duration::from_secs(1);
        assert_eq!(code(None, 1, second).await, (Some(411), 0));
        let found = code(Some(LIMIT as u64 + 1), 1, second).await;
        assert_eq!(found, (Some(413), 0));
        assert_eq!(code(Some(100), 100, 6 * second).await, (None, 6));
        let found = code(Some(LIMIT as u64), LIMIT, second).await;
        assert_eq!(found, (Some(408), 10));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_waits_three_seconds_for_memory_and_a_short_one_not_at_all() {
        let memory = memory();
        let all = memory.acquire_many(CALL_BYTES as u32).await.unwrap();
        let began = Instant::now();
        let call = async |length| {
            let body = slow(length, Duration::ZERO);
            read(&memory, body, Some(length as u64), LIMIT, 1).await
        };
        let code = call(LIMIT).await.unwrap_err().status;
        assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(began.elapsed(), MEMORY_TIMEOUT);
        assert_eq!(call(FREE_BYTES).await.unwrap().0.len(), FREE_BYTES);
        drop(all);
        assert!(call(LIMIT).await.is_ok());
    }
}
