//! Sends recorded events to the API server, one request at a time, each with the usual deadline.
//! Retries transient errors twice; meanwhile the queue fills and further events are dropped, so that an
//! overloaded API server receives no more requests.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tracing::{debug, warn};

use super::object::{Event, Key, REPORTER, micro_time};
use super::series::{Action, Correlator, REFRESH};
use crate::api_server::{Location, RequestError, retried};
use crate::controller::call::Caller;
use crate::controller::metrics::{EventFate, Metrics};

/// Pauses before the second and the third attempt; longer if the API server asks for it.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];
/// Limit of `reportingInstance` (`pkg/apis/core/validation/events.go`).
const INSTANCE_LIMIT: usize = 128;

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
                    Some(event) => self.write_if_due(&event).await,
                    None => break,
                },
                () = refresh => {
                    self.write_counts(Instant::now()).await;
                }
            }
        }
        // All that are not written yet.
        self.write_counts(Instant::now() + REFRESH).await;
    }

    async fn write_counts(&mut self, due: Instant) {
        for key in self.correlator.due(due) {
            self.write_count(&key).await;
        }
    }

    async fn write_if_due(&mut self, event: &Event) {
        match self.correlator.observe(event, Instant::now()) {
            Action::Create => self.create(event).await,
            Action::Count => self.write_count(&event.key).await,
            Action::Wait => self.metrics.event(EventFate::Aggregated),
            Action::Suppress => self.metrics.event(EventFate::Suppressed),
        }
    }

    async fn create(&mut self, event: &Event) {
        let name = event.object_name();
        let body = event.body(&name, &self.instance);
        let at = location(&event.key.regarding.namespace, &name);
        match retried(PAUSES, is_transient, || self.caller.create(at, &body)).await {
            Ok(_) => self.metrics.event(EventFate::Created),
            // An earlier attempt succeeded, but its answer was lost.
            Err(error) if error.is_conflict() => self.metrics.event(EventFate::Created),
            Err(error) => {
                self.correlator.forget(&event.key);
                self.failed(&error);
            }
        }
    }

    /// Writes the count of a series.
    async fn write_count(&mut self, key: &Key) {
        let Some(series) = self.correlator.series(key) else {
            return;
        };
        let name = series.name.clone();
        let patch = json!({"series": {
            "count": series.count, "lastObservedTime": micro_time(series.last),
        }});
        let at = location(&key.regarding.namespace, &name);
        let write = || self.caller.merge_patch(at, &patch);
        match retried(PAUSES, is_transient, write).await {
            Ok(_) => self.metrics.event(EventFate::Counted),
            // The API server deletes events after an hour.
            Err(error) if error.is_not_found() => return self.correlator.forget(key),
            Err(error) => self.failed(&error),
        }
        self.correlator.written(key, Instant::now());
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

fn is_transient(error: &RequestError) -> bool {
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
    let host = rustix::system::uname();
    let mut name = host.nodename().to_string_lossy().into_owned();
    name.truncate(name.floor_char_boundary(INSTANCE_LIMIT));
    match name.is_empty() {
        true => REPORTER.to_owned(),
        false => name,
    }
}

#[cfg(test)]
mod tests;
