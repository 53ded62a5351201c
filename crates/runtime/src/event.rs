//! Events on a resource, for transitions that a person should see; a healthy resource causes none. A
//! reconcile does not wait for them: they enter a bounded queue, and are dropped and counted if it is
//! full. [`write()`] creates each with one request, which is not repeated. Used by `controllers` and
//! `reconcile`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::clock::Clock;
use quartet_http::bounded::cut;
use quartet_http::{Caller, Location};
use quartet_versions::Kind;
use quartet_workload::api::Status;
use quartet_workload::{Reason, Resource, status};

const API_VERSION: &str = "events.k8s.io/v1";
/// The API server's limit of `note` (`pkg/apis/core/validation/events.go`).
const NOTE_LIMIT: usize = 1024;
/// Maximum length of the resource's name in the name of an Event, which has at most 253 characters.
const PREFIX_LIMIT: usize = 200;
/// Capacity of the queue: at most 3 KiB each.
const QUEUE: usize = 256;

/// What an Event says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Notice {
    /// `Normal`, or `Warning`: a problem that users must solve.
    severity: &'static str,
    /// CamelCase.
    reason: String,
    /// A sentence.
    note: String,
}

impl Notice {
    /// Information for users.
    pub(super) fn normal(reason: &str, note: impl Into<String>) -> Self {
        Self {
            severity: "Normal",
            reason: reason.to_owned(),
            note: note.into(),
        }
    }
}

/// The events for the change from one status to the next.
pub(super) fn transitions(before: &Status, after: &Status) -> Vec<Notice> {
    let trouble = |of| status::condition(of, status::DEGRADED).filter(|it| it.status == "True");
    let is_for = |of, reason: Reason| {
        let ready = status::condition(of, status::READY);
        ready.is_some_and(|ready| ready.reason == reason.as_str())
    };
    let is_paused = |of| is_for(of, Reason::Paused);
    let of_trouble = match (trouble(before), trouble(after)) {
        (old, Some(new)) if old.is_none_or(|old| old.reason != new.reason) => Some(Notice {
            severity: "Warning",
            reason: new.reason.clone(),
            note: new.message.clone(),
        }),
        // Nothing is known of a paused resource.
        (Some(old), None) if !is_paused(after) => Some(Notice::normal(
            "Recovered",
            format!("{} is over", old.reason),
        )),
        _ => None,
    };
    let of_pause = match (is_paused(before), is_paused(after)) {
        (false, true) => Some(Notice::normal(
            "Paused",
            "paused by annotation: nothing is applied until it is removed",
        )),
        (true, false) if !is_for(after, Reason::Terminating) => Some(Notice::normal(
            "Resumed",
            "the annotation that paused it was removed: changes are applied again",
        )),
        _ => None,
    };
    [of_trouble, of_pause].into_iter().flatten().collect()
}

/// The Events that are to be created: namespace, name and the whole object.
pub(super) type Recorded = mpsc::Receiver<(String, String, Value)>;

/// Records Events; clones use the same queue.
#[derive(Clone)]
pub(super) struct Recorder {
    queue: mpsc::Sender<(String, String, Value)>,
    clock: Clock,
}

impl Recorder {
    /// A recorder and the receiver of its Events.
    pub(super) fn new(clock: Clock) -> (Self, Recorded) {
        let (queue, recorded) = mpsc::channel(QUEUE);
        let recorder = Recorder { queue, clock };
        (recorder, recorded)
    }

    /// Records `notice` about `resource`, without waiting.
    pub(super) fn record(&self, kind: &Kind, resource: &Resource, notice: Notice) {
        let now = (self.clock)();
        let prefix = cut(&resource.name, PREFIX_LIMIT).trim_end_matches(['-', '.']);
        let name = format!("{prefix}.{:x}", now.as_nanosecond());
        let namespace = &resource.namespace;
        let event = json!({
            "apiVersion": API_VERSION,
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "eventTime": MicroTime(now),
            "type": notice.severity,
            "reason": notice.reason,
            "action": "Reconcile",
            "note": cut(&notice.note, NOTE_LIMIT),
            "reportingController": kind.brand.name,
            "reportingInstance": host_name(),
            "regarding": {
                "apiVersion": resource.api_version, "kind": kind.kind,
                "namespace": namespace, "name": resource.name, "uid": resource.uid,
            },
        });
        let event = (namespace.clone(), name, event);
        if self.queue.try_send(event).is_err() {
            tracing::warn!("an Event was not written: too many of them wait");
        }
    }
}

/// Creates the Events from `recorded` until all recorders are dropped: one request at a time, one for
/// each, and none before the `Retry-After` of an overloaded API server ends.
pub(super) async fn write(mut recorded: Recorded, caller: Caller) {
    while let Some((namespace, name, event)) = recorded.recv().await {
        let at = Location {
            api_version: API_VERSION,
            plural: "events",
            namespace: &namespace,
            name: &name,
        };
        if let Err(error) = caller.create(at, &event).await {
            tracing::warn!(%error, "an Event was not written");
            sleep(error.retry_after().unwrap_or_default()).await;
        }
    }
}

/// In a pod, the pod's name. It has at most 64 characters.
fn host_name() -> String {
    let host = rustix::system::uname();
    host.nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests;
