//! Reading a request's body within bounds of size, of time, and of what all calls together
//! may hold in memory. Knows nothing of what it says.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use futures::StreamExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::seats::BODY_TIMEOUT;

/// What every call may hold without asking: with the limit of connections this is 16 MiB at
/// most, and an ordinary review never waits for the large ones of others.
const FREE_BYTES: usize = 32 * 1024;
/// What all calls together may hold beyond that: as much as the largest body that is taken.
const SHARED_BYTES: usize = 64 * 1024 * 1024;
/// Longest wait for others to give back their share.
const SHARE_TIMEOUT: Duration = Duration::from_secs(2);

/// A body that was not read to its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum BodyError {
    #[error("the body has more than {limit} bytes")]
    TooLarge { limit: usize },
    #[error("the body did not arrive within {} s", BODY_TIMEOUT.as_secs())]
    TooSlow,
    #[error("too many large requests at a time; try again")]
    Busy,
    #[error("cannot read the body: {0}")]
    Broken(axum::Error),
}

impl BodyError {
    pub(super) fn code(&self) -> StatusCode {
        match self {
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Self::Broken(_) => StatusCode::BAD_REQUEST,
        }
    }
}

/// The memory that bodies may take, of all calls together.
#[derive(Debug, Clone)]
pub(super) struct Memory {
    shared: Arc<Semaphore>,
}

/// A whole body, and the share of memory that it holds until it is dropped.
#[derive(Debug)]
pub(super) struct Whole {
    pub(super) bytes: Bytes,
    _share: Option<OwnedSemaphorePermit>,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            shared: Arc::new(Semaphore::new(SHARED_BYTES)),
        }
    }
}

impl Memory {
    /// Reads `body` to its end.
    ///
    /// # Errors
    /// When it has more than `limit` bytes, `declared` to begin with or as they come; when it
    /// takes too long; when the memory for large bodies is in use; when the client goes away.
    pub(super) async fn read(
        &self,
        body: Body,
        declared: Option<usize>,
        limit: usize,
    ) -> Result<Whole, BodyError> {
        if declared.is_some_and(|declared| declared > limit) {
            return Err(BodyError::TooLarge { limit });
        }
        timeout(BODY_TIMEOUT, self.read_within(body, declared, limit))
            .await
            .unwrap_or(Err(BodyError::TooSlow))
    }

    async fn read_within(
        &self,
        body: Body,
        declared: Option<usize>,
        limit: usize,
    ) -> Result<Whole, BodyError> {
        let mut chunks = body.into_data_stream();
        let mut share: Option<OwnedSemaphorePermit> = None;
        let mut bytes = Bytes::new();
        let mut collected = Vec::new();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(BodyError::Broken)?;
            if collected.is_empty() && bytes.is_empty() {
                // Most bodies come in one piece, which need not be copied.
                bytes = chunk;
            } else {
                if collected.is_empty() {
                    // What a client declares is not yet a reason to set it aside.
                    collected.reserve(declared.unwrap_or(0).min(FREE_BYTES));
                    collected.extend_from_slice(&std::mem::take(&mut bytes));
                }
                collected.extend_from_slice(&chunk);
            }
            let length = collected.len() + bytes.len();
            if length > limit {
                return Err(BodyError::TooLarge { limit });
            }
            self.grow(&mut share, length.saturating_sub(FREE_BYTES))
                .await?;
        }
        if bytes.is_empty() {
            bytes = collected.into();
        }
        Ok(Whole {
            bytes,
            _share: share,
        })
    }

    /// Makes the share as large as `wanted`, step by step as the bytes arrive: who only
    /// promises a large body holds nothing that others could use.
    async fn grow(
        &self,
        share: &mut Option<OwnedSemaphorePermit>,
        wanted: usize,
    ) -> Result<(), BodyError> {
        let held = share.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let more = u32::try_from(wanted.saturating_sub(held)).map_err(|_| BodyError::Busy)?;
        if more == 0 {
            return Ok(());
        }
        let more = Arc::clone(&self.shared).acquire_many_owned(more);
        let more = timeout(SHARE_TIMEOUT, more)
            .await
            .map_err(|_| BodyError::Busy)?
            .map_err(|_| BodyError::Busy)?;
        match share {
            Some(share) => share.merge(more),
            None => *share = Some(more),
        }
        Ok(())
    }
}
