//! Sends recorded events to the API server, one request at a time, each with the usual deadline.
//! Retries transient errors twice; meanwhile the queue fills and further events are dropped, so that an
//! overloaded API server receives no more requests.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{debug, warn};

use super::series::{Correlator, ErrorClass, Key};
use super::{Event, micro_time};
use crate::api_server::RequestError;
use crate::controller::call::{Caller, Location};
use crate::controller::metrics::{EventFate, Metrics};

/// Pauses before the second and the third attempt.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];
/// Limit of `reportingInstance` (`pkg/apis/core/validation/events.go`).
const INSTANCE_LIMIT: usize = 128;

/// Whether an object is created or patched.
struct IsNew(bool);

/// Writes events.
pub(in crate::controller) struct Writer {
    caller: Caller,
    instance: String,
    metrics: Arc<Metrics>,
    correlator: Correlator,
}

impl Writer {
    /// A writer that makes its requests with `caller`.
    pub(in crate::controller) fn new(caller: Caller, metrics: Arc<Metrics>) -> Self {
        Writer {
            caller,
            instance: instance(),
            metrics,
            correlator: Correlator::default(),
        }
    }

    /// Writes the events from `recorded` until all recorders are dropped, and then unwritten counts.
    pub(in crate::controller) async fn run(mut self, mut recorded: mpsc::Receiver<Event>) {
        loop {
            let due = self.correlator.next_due();
            let refresh = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                event = recorded.recv() => match event {
                    Some(event) => self.take(&event).await,
                    None => break,
                },
                () = refresh => {
                    for key in self.correlator.due(Instant::now()) {
                        self.count(&key).await;
                    }
                }
            }
        }
        for key in self.correlator.waiting() {
            self.count(&key).await;
        }
    }

    async fn take(&mut self, event: &Event) {
        match self.correlator.observe(event, Instant::now()) {
            ErrorClass::Create => self.create(event).await,
            ErrorClass::Count => {
                self.count(&(event.regarding.clone(), event.notice.clone()))
                    .await;
            }
            ErrorClass::Wait => self.metrics.event(EventFate::Aggregated),
            ErrorClass::Suppress => self.metrics.event(EventFate::Suppressed),
        }
    }

    async fn create(&mut self, event: &Event) {
        let name = event.object_name();
        let body = event.body(&name, &self.instance);
        let at = location(&event.regarding.namespace, &name);
        match self.write(at, &body, IsNew(true)).await {
            Ok(()) => self.metrics.event(EventFate::Created),
            // An earlier attempt succeeded, but its answer was lost.
            Err(error) if error.is_conflict() => {
                self.metrics.event(EventFate::Created);
            }
            Err(error) => {
                self.correlator
                    .forget(&(event.regarding.clone(), event.notice.clone()));
                self.failed(&error);
            }
        }
    }

    /// Writes the count of a series.
    async fn count(&mut self, key: &Key) {
        let Some(series) = self.correlator.series(key) else {
            return;
        };
        let name = series.name.clone();
        let patch = json!({"series": {
            "count": series.count, "lastObservedTime": micro_time(series.last),
        }});
        let at = location(&key.0.namespace, &name);
        match self.write(at, &patch, IsNew(false)).await {
            Ok(()) => self.metrics.event(EventFate::Counted),
            // The API server deletes events after an hour.
            Err(error) if error.is_not_found() => return self.correlator.forget(key),
            Err(error) => self.failed(&error),
        }
        self.correlator.written(key, Instant::now());
    }

    /// Sends a request up to three times, while the error is transient.
    async fn write(
        &self,
        at: Location<'_>,
        body: &Value,
        IsNew(is_new): IsNew,
    ) -> Result<(), RequestError> {
        let mut pauses = PAUSES.into_iter();
        loop {
            let answer = match is_new {
                true => self.caller.create(at, body).await,
                false => self.caller.merge_patch(at, body).await,
            };
            match (answer, pauses.next()) {
                (Ok(_), _) => return Ok(()),
                (Err(error), Some(pause)) if is_passing(&error) => {
                    debug!(%error, "an Event is written later");
                    sleep(pause).await;
                }
                (Err(error), _) => return Err(error),
            }
        }
    }

    fn failed(&self, error: &RequestError) {
        self.metrics.event(EventFate::Failed);
        let is_ending = |code| matches!(code, 403 | 404);
        if error.status().is_some_and(|status| {
            is_ending(status.code) && status.message.contains("being terminated")
        }) {
            debug!(%error, "an Event was not written");
        } else {
            warn!(%error, "an Event was not written");
        }
    }
}

fn is_passing(error: &RequestError) -> bool {
    error
        .status()
        .is_none_or(|status| status.code == 429 || status.code >= 500)
}

fn location<'a>(namespace: &'a str, name: &'a str) -> Location<'a> {
    Location {
        api_version: "events.k8s.io/v1",
        plural: "events",
        namespace,
        name,
    }
}

/// The host name of this process, which in a pod is the pod's name.
fn instance() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    let name = name
        .get(..name.floor_char_boundary(INSTANCE_LIMIT))
        .unwrap_or(name);
    match name.is_empty() {
        true => super::REPORTER.to_owned(),
        false => name.to_owned(),
    }
}

#[cfg(test)]
mod tests;
