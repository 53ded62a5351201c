//! A worker takes one key at a time from the work queue and reconciles it, with a timeout and a
//! panic barrier. A resource that hangs or panics does not affect others.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::task::yield_now;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::field::Empty;
use tracing::{Instrument, debug, error, error_span, warn};

use crate::metrics::{Metrics, ReconcileResult};
use crate::object::ObjectKey;
use crate::queue::Queue;
use crate::reconcile::{Action, Failure};
use crate::state::jittered_retry;

/// Timeout of one reconcile: several calls of at most 10 s each.
pub(crate) const RECONCILE_TIMEOUT: Duration = Duration::from_secs(60);

/// The process stops or no longer leads; the workers end.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("this process may not write any more")]
pub struct Fenced;

/// Runs until `stopping` is cancelled. A reconcile that runs then ends before.
///
/// Calls `reconcile` with one key at a time, never concurrently with the same key.
///
/// # Errors
/// [`Fenced`], if a reconcile ended because the process stops or no longer leads. The key is not
/// requeued.
pub(crate) async fn work<F>(
    controller: String,
    queue: Arc<Queue>,
    metrics: Arc<Metrics>,
    stopping: CancellationToken,
    reconcile: impl Fn(ObjectKey) -> F,
) -> Result<(), Fenced>
where
    F: Future<Output = Result<Action, Failure>>,
{
    loop {
        let key = tokio::select! {
            biased;
            () = stopping.cancelled() => return Ok(()),
            key = queue.get() => key,
        };
        // Of the highest level, so that the lines of every log level have its fields.
        let span = error_span!(
            "reconcile",
            controller,
            namespace = key.namespace(),
            // Not `name`, which is the name of the span in the log.
            resource = key.name(),
            reconcileID = format!("{:016x}", fastrand::u64(..)),
            otel.status_code = Empty,
        );
        debug!(parent: &span, "the reconcile started");
        let started = Instant::now();
        let running = metrics.reconcile_started(&controller);
        // `done` returns the key in every case, except after the end of leadership. Locks guard all state
        // that outlives a panic.
        let caught =
            AssertUnwindSafe(timeout(RECONCILE_TIMEOUT, reconcile(key.clone()))).catch_unwind();
        let ended = caught.instrument(span.clone()).await;
        drop(running);
        let entered = span.enter();
        let result = conclude(&queue, &key, ended)?;
        let took = started.elapsed();
        debug!(
            ?result,
            took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            "the reconcile ended"
        );
        if !matches!(
            result,
            ReconcileResult::Success | ReconcileResult::RequeueAfter
        ) {
            // After the last log line of the reconcile.
            span.record("otel.status_code", "ERROR");
        }
        metrics.reconcile_ended(&controller, result, took);
        queue.done(&key);
        drop(entered);
        // A reconcile that sends nothing waits for nothing. Without this, the workers of a new leader would
        // check all resources before the runtime reads the next event, or answers the next probe.
        yield_now().await;
    }
}

/// How a reconcile ended within its panic barrier and its timeout.
type Ended = Result<Result<Result<Action, Failure>, Elapsed>, Box<dyn Any + Send>>;

/// Logs an error, and adds the key again if it is to be reconciled without a new event.
///
/// # Errors
/// [`Fenced`].
fn conclude(queue: &Queue, key: &ObjectKey, ended: Ended) -> Result<ReconcileResult, Fenced> {
    Ok(match ended {
        Ok(Ok(Ok(Action::AwaitChange))) => {
            queue.forget(key);
            ReconcileResult::Success
        }
        Ok(Ok(Ok(Action::RequeueAfter(delay)))) => {
            queue.forget(key);
            queue.add_after(key.clone(), delay);
            ReconcileResult::RequeueAfter
        }
        Ok(Ok(Ok(Action::Held(delay)))) => {
            queue.add_after(key.clone(), delay);
            ReconcileResult::RequeueAfter
        }
        Ok(Ok(Err(Failure { error, .. }))) if error.is_fenced() => {
            debug!(%error, "the reconcile was aborted");
            return Err(Fenced);
        }
        Ok(Ok(Err(Failure {
            error,
            requeue_after,
        }))) => {
            warn!(%error, "the reconcile failed; retrying with back-off");
            if error.is_forbidden() {
                // A permission may be granted without an event, and much later.
                queue.forget(key);
                let retry = jittered_retry();
                let delay = requeue_after.map_or(retry, |latest| latest.min(retry));
                queue.add_after(key.clone(), delay);
            } else {
                queue.add_rate_limited(key.clone(), requeue_after);
            }
            ReconcileResult::Error
        }
        Err(panic) => {
            let panic = message_of(&*panic);
            error!(panic, "the reconcile panicked; retrying with back-off");
            queue.add_rate_limited(key.clone(), None);
            ReconcileResult::Panic
        }
        Ok(Err(_elapsed)) => {
            error!(
                seconds = RECONCILE_TIMEOUT.as_secs(),
                "the reconcile timed out"
            );
            queue.add_rate_limited(key.clone(), None);
            ReconcileResult::Timeout
        }
    })
}

/// The message of a panic: a `&str` or a `String`.
fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
