//! Reading a request's body within bounds of size, of time, and of what all calls together
//! may hold in memory. Knows nothing of what it says.
//!
//! All large bodies share [`SHARED_BYTES`], and so do their answers, which keep the share of
//! their body until the client has taken them: bodies and answers are never more than twice
//! that, whatever clients send. One body may be larger than all of it, up to the limit of its
//! endpoint, while nobody else wants any.
//!
//! Large bodies lie in memory mapped for them alone, of the declared length from the start: it
//! costs what has come in, is never copied to grow, and is the system's again as soon as it is
//! dropped, whereas an allocator keeps what it was given back in pieces.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use futures::StreamExt as _;
use memmap2::{Advice, MmapMut, MmapOptions};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use super::seats::BODY_TIMEOUT;

/// What every call may hold without asking: with the limit of connections this is 16 MiB at
/// most, and an ordinary review never waits for the large ones of others.
pub(super) const FREE_BYTES: usize = 32 * 1024;
/// What all calls together may hold beyond that: eight lists of 500 objects of 6 KiB. Twice
/// this, and some for the connections, stays below 64 MiB.
const SHARED_BYTES: usize = 24 * 1024 * 1024;
/// A share grows in steps of this, a list of 500 objects: whoever gets one step has all that
/// it needs, and never waits for others who wait for it.
const STEP_BYTES: usize = 4 * 1024 * 1024;
/// Most answers to large bodies that are made at a time, a thread each: more would not be
/// done sooner, and each thread takes memory of its own.
const TURNS: usize = 4;
/// Longest body whose length is not declared. API servers always declare it.
const UNDECLARED_LIMIT: usize = 1024 * 1024;
/// Longest wait for others to give back their share.
const SHARE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long nobody may have waited for a share before one body gets more than all of it.
const CALM: Duration = Duration::from_secs(5);

/// A body that was not read to its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum BodyError {
    #[error("the body has more than {limit} bytes")]
    TooLarge { limit: usize },
    #[error("a body of more than {UNDECLARED_LIMIT} bytes must declare its length")]
    Undeclared,
    #[error("the body did not arrive within {} s", BODY_TIMEOUT.as_secs())]
    TooSlow,
    #[error("too many large requests at a time; try again")]
    Busy,
    #[error("no memory for the body: {0}")]
    NoMemory(io::Error),
    #[error("cannot read the body: {0}")]
    Broken(axum::Error),
}

impl BodyError {
    pub(super) fn code(&self) -> StatusCode {
        match self {
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Undeclared => StatusCode::LENGTH_REQUIRED,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::Busy | Self::NoMemory(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Broken(_) => StatusCode::BAD_REQUEST,
        }
    }
}

/// The memory that bodies may take, of all calls together.
#[derive(Debug, Clone)]
pub(super) struct Memory {
    shared: Arc<Semaphore>,
    /// One for each answer to a large body that is being made.
    turns: Arc<Semaphore>,
    /// When somebody last had to wait for a share.
    shortage: Arc<Mutex<Option<Instant>>>,
}

/// A part of the shared memory, given back when this is dropped.
#[derive(Debug, Default)]
pub(super) struct Share {
    permit: Option<OwnedSemaphorePermit>,
    /// It is all that is shared, and its body may be larger than that.
    is_all: bool,
}

/// A whole body, and the share of memory that it holds.
#[derive(Debug)]
pub(super) struct Whole {
    text: Text,
    pub(super) share: Share,
}

/// Where the bytes of a body are.
#[derive(Debug)]
enum Text {
    /// As they came, in one piece: most bodies.
    Piece(Bytes),
    /// Few, in several pieces.
    Collected(Vec<u8>),
    /// Many: so many bytes of a mapping of the declared length.
    Mapped(MmapMut, usize),
}

impl Share {
    fn bytes(&self) -> usize {
        let permit = self.permit.as_ref();
        permit.map_or(0, OwnedSemaphorePermit::num_permits)
    }

    fn add(&mut self, more: OwnedSemaphorePermit) {
        match &mut self.permit {
            Some(permit) => permit.merge(more),
            None => self.permit = Some(more),
        }
    }

    /// Gives back what an answer of so many bytes does not need.
    pub(super) fn shrink_to(&mut self, bytes: usize) {
        let needed = bytes.saturating_sub(FREE_BYTES);
        let spare = self.bytes().saturating_sub(needed);
        if let Some(permit) = &mut self.permit {
            drop(permit.split(spare));
        }
    }
}

impl Whole {
    pub(super) fn bytes(&self) -> &[u8] {
        self.text.bytes()
    }
}

impl Text {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Piece(bytes) => bytes,
            Self::Collected(bytes) => bytes,
            Self::Mapped(map, length) => map.get(..*length).unwrap_or_default(),
        }
    }

    /// Adds `more`; `most` is the length that all of it may come to.
    fn push(&mut self, more: Bytes, most: usize) -> Result<(), BodyError> {
        let length = self.bytes().len() + more.len();
        match self {
            Self::Piece(bytes) if bytes.is_empty() => *self = Self::Piece(more),
            Self::Collected(bytes) if length <= FREE_BYTES => bytes.extend_from_slice(&more),
            Self::Mapped(map, filled) => {
                let place = map.get_mut(*filled..length);
                place
                    .ok_or(BodyError::TooLarge { limit: most })?
                    .copy_from_slice(&more);
                *filled = length;
            }
            Self::Piece(bytes) if length <= FREE_BYTES => {
                // What a client declares is not yet a reason to set it aside.
                let mut collected = Vec::with_capacity(most.min(FREE_BYTES));
                collected.extend_from_slice(bytes);
                collected.extend_from_slice(&more);
                *self = Self::Collected(collected);
            }
            Self::Piece(_) | Self::Collected(_) => {
                let mut map = mapped(most).map_err(BodyError::NoMemory)?;
                let before = self.bytes();
                if let Some((place, _)) = map.split_at_mut_checked(before.len()) {
                    place.copy_from_slice(before);
                }
                *self = Self::Mapped(map, before.len());
                self.push(more, most)?;
            }
        }
        Ok(())
    }
}

/// Memory for a body of so many bytes.
fn mapped(length: usize) -> io::Result<MmapMut> {
    if length <= STEP_BYTES {
        // Its share is for all of it, and one fault for all of it is a tenth of one a page.
        return MmapOptions::new().len(length).populate().map_anon();
    }
    let map = MmapMut::map_anon(length)?;
    // A huge page would take 2 MiB for the first byte. Kernels without them refuse.
    let _ = map.advise(Advice::NoHugePage);
    Ok(map)
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            shared: Arc::new(Semaphore::new(SHARED_BYTES)),
            turns: Arc::new(Semaphore::new(TURNS)),
            shortage: Arc::default(),
        }
    }
}

impl Memory {
    /// Reads `body` to its end.
    ///
    /// # Errors
    /// When it has more than `limit` bytes, `declared` to begin with or as they come; when it
    /// is long and does not say so; when it takes too long; when the memory for large bodies is
    /// in use; when the client goes away.
    pub(super) async fn read(
        &self,
        body: Body,
        declared: Option<usize>,
        limit: usize,
    ) -> Result<Whole, BodyError> {
        if declared.is_some_and(|declared| declared > limit) {
            return Err(BodyError::TooLarge { limit });
        }
        timeout(BODY_TIMEOUT, self.read_within(body, declared))
            .await
            .unwrap_or(Err(BodyError::TooSlow))
    }

    async fn read_within(&self, body: Body, declared: Option<usize>) -> Result<Whole, BodyError> {
        let most = declared.unwrap_or(UNDECLARED_LIMIT);
        let mut chunks = body.into_data_stream();
        let mut share = Share::default();
        let mut text = Text::Piece(Bytes::new());
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(BodyError::Broken)?;
            let length = text.bytes().len() + chunk.len();
            // HTTP ends a body where it declares to; only the others can be longer.
            if length > most {
                return Err(BodyError::Undeclared);
            }
            self.grow(&mut share, length, most).await?;
            text.push(chunk, most)?;
        }
        Ok(Whole { text, share })
    }

    /// Makes the share large enough for `length` bytes of the `most` that are to come, step by
    /// step as they arrive: who only promises a large body holds little that others could use.
    async fn grow(&self, share: &mut Share, length: usize, most: usize) -> Result<(), BodyError> {
        let held = share.bytes();
        let needed = length.saturating_sub(FREE_BYTES);
        if needed <= held || share.is_all {
            return Ok(());
        }
        let in_steps = needed.next_multiple_of(STEP_BYTES);
        let wanted = in_steps.min(most.saturating_sub(FREE_BYTES));
        let more = wanted.min(SHARED_BYTES) - held;
        if more > 0 {
            share.add(self.acquire(more).await?);
        }
        if needed > SHARED_BYTES {
            if !self.is_calm() {
                return Err(BodyError::Busy);
            }
            share.is_all = true;
        }
        Ok(())
    }

    async fn acquire(&self, bytes: usize) -> Result<OwnedSemaphorePermit, BodyError> {
        let bytes = u32::try_from(bytes).map_err(|_| BodyError::Busy)?;
        if let Ok(permit) = Arc::clone(&self.shared).try_acquire_many_owned(bytes) {
            return Ok(permit);
        }
        self.note_shortage();
        let permit = Arc::clone(&self.shared).acquire_many_owned(bytes);
        let permit = timeout(SHARE_TIMEOUT, permit).await;
        self.note_shortage();
        permit
            .map_err(|_| BodyError::Busy)?
            .map_err(|_| BodyError::Busy)
    }

    /// Waits until the answer to a large body may be made; until it is dropped, others wait.
    pub(super) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.turns).acquire_owned().await.ok()
    }

    fn note_shortage(&self) {
        let mut shortage = self.shortage.lock().unwrap_or_else(PoisonError::into_inner);
        *shortage = Some(Instant::now());
    }

    fn is_calm(&self) -> bool {
        let shortage = *self.shortage.lock().unwrap_or_else(PoisonError::into_inner);
        shortage.is_none_or(|shortage| shortage.elapsed() >= CALM)
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;

    use super::*;

    const LARGEST: usize = 64 * 1024 * 1024;

    /// Reads a body of `length` bytes that is declared as such.
    async fn read(memory: &Memory, length: usize) -> Result<Whole, BodyError> {
        let chunks = (0..length).step_by(FREE_BYTES).map(move |start| {
            let chunk = vec![b'x'; FREE_BYTES.min(length - start)];
            Ok::<_, axum::Error>(Bytes::from(chunk))
        });
        let body = Body::from_stream(stream::iter(chunks));
        memory.read(body, Some(length), LARGEST).await
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_of_every_length_are_read_as_they_came() {
        let memory = Memory::default();
        for length in [0, 1, FREE_BYTES, FREE_BYTES + 1, STEP_BYTES * 2, LARGEST] {
            let whole = read(&memory, length).await.unwrap();
            assert_eq!(whole.bytes().len(), length);
            assert!(whole.bytes().iter().all(|byte| *byte == b'x'));
            let share = length.saturating_sub(FREE_BYTES).min(SHARED_BYTES);
            assert_eq!(whole.share.bytes(), share);
            drop(whole);
            assert_eq!(memory.shared.available_permits(), SHARED_BYTES);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_body_gets_more_than_all_after_a_time_in_which_nobody_waited() {
        let memory = Memory::default();
        let all = read(&memory, LARGEST).await.unwrap();
        let beside = read(&memory, STEP_BYTES).await;
        assert!(matches!(beside, Err(BodyError::Busy)));
        assert!(
            read(&memory, FREE_BYTES).await.is_ok(),
            "small ones do not wait"
        );
        drop(all);
        assert!(read(&memory, STEP_BYTES).await.is_ok());
        let too_soon = read(&memory, LARGEST).await;
        assert!(matches!(too_soon, Err(BodyError::Busy)));
        tokio::time::advance(CALM).await;
        assert!(read(&memory, LARGEST).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn lists_of_one_step_wait_for_each_other_and_all_are_read() {
        let memory = Memory::default();
        let reads = (0..4 * SHARED_BYTES / STEP_BYTES).map(async |_| {
            let whole = read(&memory, STEP_BYTES).await.unwrap();
            tokio::time::sleep(SHARE_TIMEOUT / 10).await;
            drop(whole);
        });
        futures::future::join_all(reads).await;
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_keeps_as_much_as_it_takes() {
        let memory = Memory::default();
        let mut whole = read(&memory, 2 * STEP_BYTES).await.unwrap();
        for (answer, kept) in [
            (usize::MAX, 2 * STEP_BYTES),
            (STEP_BYTES, STEP_BYTES),
            (1, 0),
        ] {
            whole.share.shrink_to(answer);
            assert_eq!(whole.share.bytes(), kept.saturating_sub(FREE_BYTES));
        }
    }
}
