//! Reads a request body within limits of size, time and memory, and counts the memory of all bodies and
//! answers. Independent of the content.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use futures::StreamExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::budget::{CALL_BYTES, FREE_BYTES};

/// Longest wait for memory. The API server waits 5 s for an admission, and repeats a call that is
/// answered with 503.
const MEMORY_TIMEOUT: Duration = Duration::from_secs(3);
/// Longest time between two pieces of a body that takes memory from others.
const STALL_TIMEOUT: Duration = Duration::from_secs(3);
/// Longest time of a body. The API server gives up sooner on an admission.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a call is rejected before its body is parsed.
#[derive(Debug, thiserror::Error)]
pub(super) enum BodyError {
    #[error("a body must declare its length")]
    Undeclared,
    #[error("the body has more than {limit} bytes")]
    TooLarge { limit: usize },
    #[error(
        "the body arrives too slowly: nothing for {} s, or not all of it in {} s",
        STALL_TIMEOUT.as_secs(),
        BODY_TIMEOUT.as_secs()
    )]
    TooSlow,
    #[error(transparent)]
    NoMemory(#[from] NoMemory),
    #[error("cannot read the body: {0}")]
    Broken(axum::Error),
}

impl BodyError {
    pub(super) fn code(&self) -> StatusCode {
        match self {
            Self::Undeclared => StatusCode::LENGTH_REQUIRED,
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::NoMemory(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Broken(_) => StatusCode::BAD_REQUEST,
        }
    }
}

/// Why a call gets no memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoMemory {
    /// The call has reached its limit.
    #[error("the call takes more than {CALL_BYTES} bytes of memory, body and answer together")]
    OverLimit,
    /// Other calls hold the memory.
    #[error("too many large requests at a time; try again")]
    Busy,
}

/// The memory of one call, body and answer, until it is dropped.
#[derive(Debug)]
pub(super) struct Share {
    memory: Arc<Semaphore>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Share {
    /// Nothing of `memory`, of which all calls together may take [`CALL_BYTES`].
    pub(super) fn new(memory: &Arc<Semaphore>) -> Self {
        Self {
            memory: Arc::clone(memory),
            permit: None,
        }
    }

    /// Waits for `bytes`. The first call that waits gets its memory first.
    async fn acquire(&mut self, bytes: usize) -> Result<(), NoMemory> {
        let bytes = u32::try_from(bytes.min(CALL_BYTES)).map_err(|_| NoMemory::OverLimit)?;
        let permit = Arc::clone(&self.memory).acquire_many_owned(bytes);
        let permit = timeout(MEMORY_TIMEOUT, permit).await.ok();
        self.permit = Some(permit.and_then(Result::ok).ok_or(NoMemory::Busy)?);
        Ok(())
    }

    /// Releases what an answer of this length does not need.
    pub(super) fn shrink_to(&mut self, bytes: usize) {
        if let Some(permit) = &mut self.permit {
            drop(permit.split(permit.num_permits().saturating_sub(bytes)));
        }
    }

    /// Grows to `total` bytes, if they are free.
    pub(super) fn grow(&mut self, total: usize) -> Result<(), NoMemory> {
        if total > CALL_BYTES {
            return Err(NoMemory::OverLimit);
        }
        let has = self
            .permit
            .as_ref()
            .map_or(2 * FREE_BYTES, |permit| permit.num_permits());
        let missing = u32::try_from(total.saturating_sub(has)).map_err(|_| NoMemory::OverLimit)?;
        if missing == 0 {
            return Ok(());
        }
        let more = Arc::clone(&self.memory).try_acquire_many_owned(missing);
        let more = more.map_err(|_| NoMemory::Busy)?;
        match &mut self.permit {
            Some(permit) => permit.merge(more),
            none => *none = Some(more),
        }
        Ok(())
    }
}

/// Reads `body` to its end. `declared` is its Content-Length, of at most `limit`. `share` gets the memory
/// for `copies` of it: two if the answer is as long.
///
/// # Errors
/// The body is longer, has no length or is too slow; there is no free memory; the client disconnects.
pub(super) async fn read(
    share: &mut Share,
    body: Body,
    declared: Option<usize>,
    limit: usize,
    copies: usize,
) -> Result<Vec<u8>, BodyError> {
    let length = declared.ok_or(BodyError::Undeclared)?;
    if length > limit {
        return Err(BodyError::TooLarge { limit });
    }
    let is_free = length <= FREE_BYTES;
    if !is_free {
        share.acquire(length * copies).await?;
    }
    let stall = if is_free { BODY_TIMEOUT } else { STALL_TIMEOUT };
    let whole = async {
        let mut text = Vec::with_capacity(length);
        let mut pieces = body.into_data_stream();
        // HTTP ends a body at its declared length.
        while let Some(piece) = timeout(stall, pieces.next())
            .await
            .map_err(|_| BodyError::TooSlow)?
        {
            text.extend_from_slice(&piece.map_err(BodyError::Broken)?);
        }
        Ok(text)
    };
    timeout(BODY_TIMEOUT, whole)
        .await
        .unwrap_or(Err(BodyError::TooSlow))
}

#[cfg(test)]
mod tests {
    use axum::body::Bytes;
    use futures::{FutureExt as _, stream};
    use tokio::time::Instant;

    use super::*;

    const LIMIT: usize = 1024 * 1024;

    fn memory() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(CALL_BYTES))
    }

    /// `length` bytes in pieces, one after each `pause`.
    fn slow(length: usize, pause: Duration) -> Body {
        let pieces = (0..length).step_by(FREE_BYTES).map(move |start| {
            Ok::<_, axum::Error>(Bytes::from(vec![b'x'; FREE_BYTES.min(length - start)]))
        });
        Body::from_stream(stream::iter(pieces).then(move |piece| async move {
            tokio::time::sleep(pause).await;
            piece
        }))
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_and_its_answer_take_memory_before_the_body_is_read() {
        let memory = memory();
        for (length, copies, taken) in [
            (0, 2, 0),
            (FREE_BYTES, 2, 0),
            (FREE_BYTES + 1, 1, FREE_BYTES + 1),
            (LIMIT, 2, 2 * LIMIT),
        ] {
            let mut share = Share::new(&memory);
            let body = slow(length, Duration::from_millis(1));
            let reading = read(&mut share, body, Some(length), LIMIT, copies);
            let mut reading = Box::pin(reading);
            let early = reading.as_mut().now_or_never();
            assert_eq!(memory.available_permits(), CALL_BYTES - taken, "{length}");
            let text = match early {
                Some(text) => {
                    drop(reading);
                    text
                }
                None => reading.await,
            };
            assert_eq!(text.unwrap(), vec![b'x'; length]);
            drop(share);
            assert_eq!(memory.available_permits(), CALL_BYTES);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_is_rejected_by_its_declared_length_and_its_time() {
        let memory = memory();
        let code = async |declared, length, pause| {
            let began = Instant::now();
            let mut share = Share::new(&memory);
            let read = read(&mut share, slow(length, pause), declared, LIMIT, 1).await;
            let code = read.err().map(|error| error.code().as_u16());
            (code, began.elapsed().as_secs())
        };
        let second = Duration::from_secs(1);
        assert_eq!(code(None, 1, second).await, (Some(411), 0));
        assert_eq!(code(Some(LIMIT + 1), 1, second).await, (Some(413), 0));
        assert_eq!(code(Some(100), 100, 6 * second).await, (None, 6), "short");
        let long = FREE_BYTES + 1;
        assert_eq!(code(Some(long), long, 6 * second).await, (Some(408), 3));
        assert_eq!(code(Some(LIMIT), LIMIT, second).await, (Some(408), 10));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_waits_three_seconds_for_memory_and_a_short_one_not_at_all() {
        let memory = memory();
        let mut first = Share::new(&memory);
        first.acquire(CALL_BYTES).await.unwrap();
        let mut second = Share::new(&memory);
        let began = Instant::now();
        let body = || slow(LIMIT, Duration::ZERO);
        let read_of = read(&mut second, body(), Some(LIMIT), LIMIT, 1).await;
        assert_eq!(read_of.unwrap_err().code(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(began.elapsed(), MEMORY_TIMEOUT);
        let short = slow(FREE_BYTES, Duration::ZERO);
        let short = read(&mut second, short, Some(FREE_BYTES), LIMIT, 2).await;
        assert_eq!(short.unwrap().len(), FREE_BYTES);
        drop(first);
        assert!(
            read(&mut second, body(), Some(LIMIT), LIMIT, 1)
                .await
                .is_ok()
        );
    }

    #[tokio::test]
    async fn an_answer_takes_what_is_free_up_to_the_limit() {
        let memory = memory();
        let mut share = Share::new(&memory);
        share.grow(2 * FREE_BYTES).unwrap();
        assert_eq!(memory.available_permits(), CALL_BYTES);
        for total in [LIMIT, 2 * LIMIT, CALL_BYTES] {
            share.grow(total).unwrap();
            assert!(memory.available_permits() <= CALL_BYTES + 2 * FREE_BYTES - total);
        }
        assert_eq!(share.grow(CALL_BYTES + 1), Err(NoMemory::OverLimit));
        let mut other = Share::new(&memory);
        assert_eq!(other.grow(LIMIT), Err(NoMemory::Busy));
    }
}
