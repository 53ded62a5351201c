//! Events on a resource, for transitions that a person should see; a healthy resource causes none. A
//! reconcile does not wait for them: they enter a bounded queue, and are dropped and counted if it is
//! full. A [`writer`] sends them to the API server.

mod series;
mod transitions;
mod writer;

use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

pub(super) use self::transitions::transitions;
pub(super) use self::writer::Writer;
use crate::api::Kind;
use crate::controller::metrics::{EventFate, Metrics};
use crate::operators::Resource;

/// The reporting controller, shown by `kubectl describe`.
const REPORTER: &str = "quartet-operator";
/// The API server's limit of `note` (`pkg/apis/core/validation/events.go`, `NoteLengthLimit`).
const NOTE_LIMIT: usize = 1024;
/// Capacity of the queue: a few hundred bytes each.
const QUEUE: usize = 256;

/// The type of an Event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub(super) enum Severity {
    /// Information for users.
    Normal,
    /// A problem that users must solve.
    Warning,
}

/// The reason and note of an Event. Notes must not vary much, since equal Events are counted as one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Notice {
    pub(super) severity: Severity,
    /// CamelCase.
    pub(super) reason: String,
    /// A sentence.
    pub(super) note: String,
}

/// A recorded Event.
#[derive(Debug, Clone)]
pub(super) struct Event {
    pub(super) key: Key,
    pub(super) at: Timestamp,
}

/// What equal Events have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) regarding: Regarding,
    pub(super) notice: Notice,
}

/// The resource of an Event, as in its JSON.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Regarding {
    api_version: String,
    kind: &'static str,
    namespace: String,
    name: String,
    uid: String,
}

/// Records Events; clones use the same writer.
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
    pub(super) fn record(&self, kind: &Kind, resource: &Resource, mut notice: Notice) {
        let end = notice.note.floor_char_boundary(NOTE_LIMIT);
        notice.note.truncate(end);
        let regarding = Regarding {
            api_version: resource.api_version.clone(),
            kind: kind.kind,
            namespace: resource.namespace.clone(),
            name: resource.name.clone(),
            uid: resource.uid.clone(),
        };
        let event = Event {
            key: Key { regarding, notice },
            at: crate::controller::clock::now(),
        };
        if self.queue.try_send(event).is_err() {
            self.metrics.event(EventFate::Dropped);
        }
    }
}

impl Event {
    /// The name of the Event object, unique by the time in nanoseconds.
    fn object_name(&self) -> String {
        let Regarding { kind, name, .. } = &self.key.regarding;
        let prefix = name.get(..name.len().min(200)).unwrap_or(kind);
        let prefix = prefix.trim_end_matches(['-', '.']);
        format!("{prefix}.{:x}", self.at.as_nanosecond())
    }

    /// The Event object, reported by the process `instance`.
    fn body(&self, name: &str, instance: &str) -> Value {
        let Key { regarding, notice } = &self.key;
        json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": regarding.namespace},
            "eventTime": micro_time(self.at),
            "type": notice.severity,
            "reason": notice.reason,
            "action": "Reconcile",
            "note": notice.note,
            "reportingController": REPORTER,
            "reportingInstance": instance,
            "regarding": regarding,
        })
    }
}

/// The format of `MicroTime`.
fn micro_time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}
