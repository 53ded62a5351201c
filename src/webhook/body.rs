//! Reads a request body within limits of size, time and memory. Independent of the content.
//!
//! Large bodies and answers have their own memory mapping: it costs only the bytes received, grows
//! without a copy, and returns to the system when it is dropped. An allocator may keep freed memory.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes};
use axum::http::StatusCode;
use futures::StreamExt as _;
use memmap2::{Advice, MmapMut, MmapOptions};
use tokio::time::{Instant, timeout_at};

use super::memory::{Memory, NoMemory, Share};
use crate::budget::{FREE_BYTES, SHARED_BODY, STEP_BYTES, UNDECLARED_BODY};
use crate::server::{MIN_BYTES, Slot, WINDOW};

/// Longest time from the header of a request to the end of its body.
pub(super) const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a body could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum BodyError {
    #[error("the body has more than {limit} bytes")]
    TooLarge { limit: usize },
    #[error("a body of more than {UNDECLARED_BODY} bytes must declare its length")]
    Undeclared,
    #[error(
        "the body arrives too slowly: less than {MIN_BYTES} bytes in {} s, or not all of it in {} s",
        WINDOW.as_secs(),
        BODY_TIMEOUT.as_secs()
    )]
    TooSlow,
    #[error(transparent)]
    NoMemory(#[from] NoMemory),
    #[error("cannot map memory for the body: {0}")]
    NotMapped(io::Error),
    #[error("cannot read the body: {0}")]
    Broken(axum::Error),
}

impl BodyError {
    pub(super) fn code(&self) -> StatusCode {
        match self {
            Self::TooLarge { .. } | Self::NoMemory(NoMemory::OverLimit { .. }) => {
                StatusCode::PAYLOAD_TOO_LARGE
            }
            Self::Undeclared => StatusCode::LENGTH_REQUIRED,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::NoMemory(NoMemory::Busy) | Self::NotMapped(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Broken(_) => StatusCode::BAD_REQUEST,
        }
    }
}

/// Limits of the bodies of an endpoint.
#[derive(Debug, Clone, Copy)]
pub(super) struct BodyLimits {
    /// Maximum bytes of a body.
    pub(super) bytes: usize,
    /// Memory of the call per byte of its body: two if its answer is as long.
    pub(super) copies: usize,
}

/// The storage of a body or an answer.
#[derive(Debug)]
pub(super) enum Buffer {
    /// One chunk: most bodies.
    Chunk(Bytes),
    /// A short body of several chunks.
    Collected(Vec<u8>),
    /// A long body.
    Mapped(Mapped),
}

/// A memory mapping with the maximum length of its content.
#[derive(Debug)]
pub(super) struct Mapped {
    map: MmapMut,
    filled: usize,
    /// Number of bytes whose pages are populated.
    populated: usize,
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Chunk(bytes) => bytes,
            Self::Collected(bytes) => bytes,
            Self::Mapped(mapped) => mapped.map.get(..mapped.filled).unwrap_or_default(),
        }
    }
}

impl Mapped {
    pub(super) fn new(most: usize) -> io::Result<Self> {
        let map = MmapOptions::new().len(most).no_reserve_swap().map_anon()?;
        // A huge page would take 2 MiB for the first byte. Kernels without huge pages return an error.
        let _ = map.advise(Advice::NoHugePage);
        let (filled, populated) = (0, 0);
        Ok(Self {
            map,
            filled,
            populated,
        })
    }

    /// Appends `more`; false if it does not fit.
    pub(super) fn push(&mut self, more: &[u8]) -> bool {
        let filled = self.filled + more.len();
        if filled > self.populated {
            // One call for all pages of a step costs a tenth of a page fault each. Old kernels return
            // an error, and page faults follow.
            let end = filled.next_multiple_of(STEP_BYTES).min(self.map.len());
            let length = end.saturating_sub(self.populated);
            let _ = self
                .map
                .advise_range(Advice::PopulateWrite, self.populated, length);
            self.populated = end;
        }
        let Some(place) = self.map.get_mut(self.filled..filled) else {
            return false;
        };
        place.copy_from_slice(more);
        self.filled = filled;
        true
    }
}

impl Buffer {
    /// Appends `more`; `most` is the maximum total length.
    fn push(&mut self, more: Bytes, most: usize) -> Result<(), BodyError> {
        let length = self.as_ref().len() + more.len();
        match self {
            Self::Chunk(bytes) if bytes.is_empty() => *self = Self::Chunk(more),
            Self::Collected(bytes) if length <= FREE_BYTES => bytes.extend_from_slice(&more),
            Self::Mapped(mapped) => {
                if !mapped.push(&more) {
                    return Err(BodyError::TooLarge { limit: most });
                }
            }
            Self::Chunk(bytes) if length <= FREE_BYTES => {
                // A declared length alone reserves no memory.
                let mut collected = Vec::with_capacity(most.min(FREE_BYTES));
                collected.extend_from_slice(bytes);
                collected.extend_from_slice(&more);
                *self = Self::Collected(collected);
            }
            Self::Chunk(_) | Self::Collected(_) => {
                let mut mapped = Mapped::new(most).map_err(BodyError::NotMapped)?;
                mapped.push(self.as_ref());
                *self = Self::Mapped(mapped);
                self.push(more, most)?;
            }
        }
        Ok(())
    }
}

/// Reads `body` to its end, and returns it with its share of memory. `declared` is its Content-Length,
/// `slot` that of its connection.
///
/// # Errors
/// The body has more bytes than allowed, as declared or as received; it is long without a declared
/// length; it is too slow; there is no free memory for large bodies; the client disconnects.
pub(super) async fn read(
    memory: &Memory,
    body: Body,
    declared: Option<usize>,
    limits: BodyLimits,
    slot: Option<&Slot>,
) -> Result<(Buffer, Share), BodyError> {
    let most = declared.unwrap_or(UNDECLARED_BODY);
    if most > limits.bytes {
        return Err(BodyError::TooLarge {
            limit: limits.bytes,
        });
    }
    let peer = slot.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), Slot::peer);
    // The client has no deadline while the server waits for memory.
    let waiting = slot.filter(|_| most > SHARED_BODY);
    waiting.inspect(|slot| slot.works());
    let mut share = memory.share(most, peer).await?;
    waiting.inspect(|slot| slot.reads_body());
    let mut rate = TransferRate::new(most);
    let mut chunks = body.into_data_stream();
    let mut text = Buffer::Chunk(Bytes::new());
    while let Some(chunk) = rate.next(&mut chunks).await? {
        let length = text.as_ref().len() + chunk.len();
        // HTTP ends a body at its declared length, so only an undeclared body can be longer.
        if length > most {
            return Err(BodyError::Undeclared);
        }
        let total = length * limits.copies;
        if let Err(NoMemory::Busy) = share.try_grow(total) {
            slot.inspect(|slot| slot.works());
            let began = Instant::now();
            share.grow(memory, total, peer).await?;
            rate.extend(began.elapsed());
            slot.inspect(|slot| slot.reads_body());
        }
        text.push(chunk, most)?;
    }
    slot.inspect(|slot| slot.works());
    Ok((text, share))
}

/// Checks the transfer rate of a body.
struct TransferRate {
    deadline: Instant,
    window: Instant,
    /// Bytes since the start of the window.
    bytes: usize,
}

impl TransferRate {
    /// For a body of at most `most` bytes. A small one takes no shared memory, so it has no minimum
    /// rate: on a machine that is short of CPU, the API server may need more than a window for it.
    fn new(most: usize) -> Self {
        let now = Instant::now();
        let window = match most <= FREE_BYTES {
            true => BODY_TIMEOUT,
            false => WINDOW,
        };
        Self {
            deadline: now + BODY_TIMEOUT,
            window: now + window,
            bytes: 0,
        }
    }

    /// Extends the deadlines by a time in which the client could not send.
    fn extend(&mut self, time: Duration) {
        self.deadline += time;
        self.window += time;
    }

    async fn next(&mut self, chunks: &mut BodyDataStream) -> Result<Option<Bytes>, BodyError> {
        loop {
            let until = self.window.min(self.deadline);
            if let Ok(chunk) = timeout_at(until, chunks.next()).await {
                let chunk = chunk.transpose().map_err(BodyError::Broken)?;
                self.bytes += chunk.as_ref().map_or(0, Bytes::len);
                return Ok(chunk);
            }
            if self.bytes < MIN_BYTES || self.window > self.deadline {
                return Err(BodyError::TooSlow);
            }
            self.window += WINDOW;
            self.bytes = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;

    use super::*;
    use crate::budget::CONVERSION_BODY;

    const LARGEST: usize = CONVERSION_BODY;

    async fn read(
        memory: &Memory,
        body: Body,
        length: usize,
    ) -> Result<(Buffer, Share), BodyError> {
        let limits = BodyLimits {
            bytes: LARGEST,
            copies: 2,
        };
        super::read(memory, body, Some(length), limits, None).await
    }

    /// `length` bytes.
    fn chunks(length: usize) -> impl Iterator<Item = Result<Bytes, axum::Error>> {
        (0..length)
            .step_by(FREE_BYTES)
            .map(move |start| Ok(Bytes::from(vec![b'x'; FREE_BYTES.min(length - start)])))
    }

    #[test]
    fn small_chunks_are_collected_and_a_long_body_is_mapped() {
        let mut text = Buffer::Chunk(Bytes::new());
        let half = || Bytes::from(vec![b'x'; FREE_BYTES / 2]);
        let is = |text: &Buffer| match text {
            Buffer::Chunk(_) => "a chunk",
            Buffer::Collected(_) => "collected",
            Buffer::Mapped(_) => "mapped",
        };
        let most = 4 * FREE_BYTES;
        for expected in ["a chunk", "collected", "mapped", "mapped"] {
            text.push(half(), most).unwrap();
            assert_eq!(is(&text), expected);
        }
        let mut text = Buffer::Chunk(Bytes::new());
        for expected in ["a chunk", "collected", "collected", "collected", "mapped"] {
            text.push(Bytes::from(vec![b'x'; FREE_BYTES / 4]), most)
                .unwrap();
            assert_eq!(is(&text), expected);
        }
        assert_eq!(text.as_ref().len(), FREE_BYTES / 4 * 5);
        let mut text = Buffer::Chunk(Bytes::from(vec![b'x'; FREE_BYTES]));
        text.push(Bytes::from_static(b"x"), most).unwrap();
        assert_eq!(is(&text), "mapped");
    }

    /// A body of which each chunk comes just in time, and a server that keeps the client waiting.
    #[tokio::test(start_paused = true)]
    async fn time_in_which_the_client_could_not_send_is_no_time_of_its_own() {
        let mut rate = TransferRate::new(LARGEST);
        let (window, deadline) = (rate.window, rate.deadline);
        rate.extend(WINDOW * 3);
        assert_eq!(rate.window, window + WINDOW * 3);
        assert_eq!(rate.deadline, deadline + WINDOW * 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_small_body_may_take_its_time_and_a_large_one_must_move() {
        let memory = Memory::default();
        for (length, is_read) in [(100, true), (FREE_BYTES + 1, false)] {
            let late = stream::iter(chunks(length)).then(async |chunk| {
                tokio::time::sleep(WINDOW * 2).await;
                chunk
            });
            let whole = read(&memory, Body::from_stream(late), length).await;
            assert_eq!(whole.is_ok(), is_read, "{length}: {:?}", whole.err());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_of_every_length_are_read_as_they_came() {
        let memory = Memory::default();
        for length in [0, 1, FREE_BYTES, FREE_BYTES + 1, SHARED_BODY, LARGEST] {
            let body = Body::from_stream(stream::iter(chunks(length)));
            let whole = read(&memory, body, length).await.unwrap();
            let bytes = whole.0.as_ref();
            assert_eq!(bytes.len(), length);
            assert!(bytes.iter().all(|byte| *byte == b'x'));
            drop(whole);
            assert!(memory.is_unused());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_takes_memory_for_what_has_come_and_not_for_what_is_declared() {
        let memory = Memory::default();
        let come = stream::iter(chunks(33_000)).chain(stream::pending());
        let body = Body::from_stream(come);
        let reading = read(&memory, body, SHARED_BODY);
        let mut reading = std::pin::pin!(reading);
        assert!(futures::poll!(reading.as_mut()).is_pending());
        // Two hundred such bodies leave memory for others.
        assert!(!memory.is_unused());
        let mut rest = memory
            .share(SHARED_BODY, Ipv4Addr::LOCALHOST.into())
            .await
            .unwrap();
        rest.try_grow(crate::budget::SHARED_BYTES - 2 * STEP_BYTES)
            .unwrap();
        let began = Instant::now();
        assert!(matches!(reading.await, Err(BodyError::TooSlow)));
        assert_eq!(began.elapsed(), WINDOW);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_comes_at_the_slowest_pace_has_ten_seconds() {
        let memory = Memory::default();
        let every_second = stream::iter(chunks(LARGEST)).then(async |chunk| {
            tokio::time::sleep(WINDOW / 5).await;
            chunk
        });
        let began = Instant::now();
        let body = Body::from_stream(every_second);
        let read = read(&memory, body, LARGEST).await;
        assert!(matches!(read, Err(BodyError::TooSlow)));
        assert!(began.elapsed() >= BODY_TIMEOUT, "{:?}", began.elapsed());
    }
}
