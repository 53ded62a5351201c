//! Events on a resource, for transitions that a person should see; a healthy resource causes none. A
//! reconcile does not wait for them: they enter a bounded queue, and are dropped and counted if it is
//! full. [`write()`] creates each with one request. Used by `controllers` and `reconcile`.

mod transitions;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::core::ObjectMeta;
use serde_json::json;
use tokio::sync::mpsc;
use tracing::{debug, warn};

pub(super) use self::transitions::{Notice, transitions};
use crate::api::Kind;
use crate::api_server::{Location, RequestError, retried};
use crate::bounded::cut;
use crate::controller::call::Caller;
use crate::controller::metrics::{EventFate, Metrics};
use crate::operators::Resource;

/// The reporting controller, shown by `kubectl describe`.
const REPORTER: &str = "quartet-operator";
/// The API server's limits of `note` and `reportingInstance` (`pkg/apis/core/validation/events.go`).
const NOTE_LIMIT: usize = 1024;
const INSTANCE_LIMIT: usize = 128;
/// Maximum length of the resource's name in the name of an Event, which has at most 253 characters.
const PREFIX_LIMIT: usize = 200;
/// Capacity of the queue: at most 2 KiB each.
const QUEUE: usize = 256;
/// Pauses before the second and the third attempt; longer if the API server asks for it.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];

/// Records Events; clones use the same queue.
#[derive(Clone)]
pub(super) struct Recorder {
    queue: mpsc::Sender<Event>,
    metrics: Arc<Metrics>,
}

impl Recorder {
    /// A recorder and the receiver of its Events.
    pub(super) fn new(metrics: Arc<Metrics>) -> (Self, mpsc::Receiver<Event>) {
        let (queue, recorded) = mpsc::channel(QUEUE);
        (Self { queue, metrics }, recorded)
    }

    /// Records `notice` about `resource`, without waiting.
    pub(super) fn record(&self, kind: &Kind, resource: &Resource, notice: Notice) {
        let now = crate::controller::clock::now();
        let prefix = cut(&resource.name, PREFIX_LIMIT).trim_end_matches(['-', '.']);
        let namespace = Some(resource.namespace.clone());
        let event = Event {
            metadata: ObjectMeta {
                name: Some(format!("{prefix}.{:x}", now.as_nanosecond())),
                namespace: namespace.clone(),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(now)),
            type_: Some(notice.severity.to_owned()),
            reason: Some(notice.reason),
            action: Some("Reconcile".to_owned()),
            note: Some(cut(&notice.note, NOTE_LIMIT).to_owned()),
            reporting_controller: Some(REPORTER.to_owned()),
            reporting_instance: Some(instance()),
            regarding: Some(ObjectReference {
                api_version: Some(resource.api_version.clone()),
                kind: Some(kind.kind.to_owned()),
                namespace,
                name: Some(resource.name.clone()),
                uid: Some(resource.uid.clone()),
                ..ObjectReference::default()
            }),
            ..Event::default()
        };
        if self.queue.try_send(event).is_err() {
            self.metrics.event(EventFate::Dropped);
        }
    }
}

/// Creates the Events from `recorded` until all recorders are dropped, one request at a time. Retries
/// transient errors twice; meanwhile the queue fills and further Events are dropped, so that an overloaded
/// API server receives no more requests.
pub(super) async fn write(
    mut recorded: mpsc::Receiver<Event>,
    caller: Caller,
    metrics: Arc<Metrics>,
) {
    while let Some(event) = recorded.recv().await {
        let at = Location {
            api_version: "events.k8s.io/v1",
            plural: "events",
            namespace: event.metadata.namespace.as_deref().unwrap_or_default(),
            name: event.metadata.name.as_deref().unwrap_or_default(),
        };
        let body = json!(event);
        let fate = match retried(PAUSES, is_transient, || caller.create(at, &body)).await {
            Ok(_) => EventFate::Created,
            // An earlier attempt succeeded, but its response was lost.
            Err(error) if error.is_conflict() => EventFate::Created,
            Err(error) => {
                log(&error);
                EventFate::Failed
            }
        };
        metrics.event(fate);
    }
}

fn is_transient(error: &RequestError) -> bool {
    error
        .status()
        .is_none_or(|status| status.code == 429 || status.code >= 500)
}

fn log(error: &RequestError) {
    let status = error.status();
    if status.is_some_and(|status| status.message.contains("being terminated")) {
        debug!(%error, "an Event was not written");
    } else {
        warn!(%error, "an Event was not written");
    }
}

/// The host name of this process, which in a pod is the pod's name.
fn instance() -> String {
    let host = rustix::system::uname();
    let name = host.nodename().to_string_lossy();
    cut(
        if name.is_empty() { REPORTER } else { &name },
        INSTANCE_LIMIT,
    )
    .to_owned()
}

#[cfg(test)]
mod tests;
