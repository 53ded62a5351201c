//! Events on a resource, for transitions that a person should see; a healthy resource causes none. A
//! reconcile does not wait for them: they enter a bounded queue, and are dropped and counted if it is
//! full. A [`writer`] sends them to the API server.
//! Used by `controllers` and `reconcile`.

mod object;
mod series;
mod transitions;
mod writer;

use std::sync::Arc;

use tokio::sync::mpsc;

pub(super) use self::object::{Event, Notice, Severity};
use self::object::{Key, Regarding};
pub(super) use self::transitions::transitions;
pub(super) use self::writer::Writer;
use crate::api::Kind;
use crate::controller::metrics::{EventFate, Metrics};
use crate::operators::Resource;

/// The API server's limit of `note` (`pkg/apis/core/validation/events.go`, `NoteLengthLimit`).
const NOTE_LIMIT: usize = 1024;
/// Capacity of the queue: a few hundred bytes each.
const QUEUE: usize = 256;

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
