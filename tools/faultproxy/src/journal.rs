//! Records requests and events with their results. Bounded: the journal counts what did not fit, so
//! that a test can detect it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::time::Instant;

use crate::request::Target;

/// The most requests, and the most events, that are kept.
const LIMIT: usize = 200_000;

/// A request.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its verb, resource and object.
    pub target: Target,
    /// The impersonated user of the client: its `Impersonate-User`.
    pub user: String,
    /// Its body, for a Lease.
    pub lease: Option<Value>,
    /// When it was received.
    pub began: Instant,
    /// When it was forwarded; `None` if it was not.
    pub sent: Option<Instant>,
    /// The API server's status code, and the time; `None` if it was not forwarded or got no
    /// response.
    pub committed: Option<(u16, Instant)>,
    /// The status code that the client got; `None` if it got none.
    pub answered: Option<u16>,
    /// When it was over for the client; `None` while it is in progress. For a watch, its end.
    pub ended: Option<Instant>,
    /// Whether a rule other than a delay applied to it.
    pub is_met: bool,
}

impl Entry {
    /// Reports whether the API server accepted it.
    pub fn is_committed(&self) -> bool {
        self.committed.is_some_and(|(code, _)| code < 300)
    }

    /// Reports whether the client got no success.
    pub fn is_failure(&self) -> bool {
        self.answered.is_none_or(|code| code >= 300)
    }
}

/// A watch event that was forwarded.
#[derive(Debug, Clone)]
pub struct WatchEvent {
    /// Plural.
    pub resource: String,
    /// The object's name; empty for a bookmark.
    pub name: String,
    /// When it was forwarded.
    pub at: Instant,
}

/// Everything so far.
#[derive(Debug, Clone, Default)]
pub struct Journal {
    /// In the order of arrival.
    pub requests: Vec<Entry>,
    /// In the order of forwarding.
    pub events: Vec<WatchEvent>,
    /// The number of requests and events that did not fit.
    pub left_out: u64,
}

/// The journal that is being written.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recorder {
    journal: Arc<Mutex<Journal>>,
}

/// A request in progress; its entry is closed when this is dropped.
#[derive(Debug)]
pub(crate) struct Record {
    recorder: Recorder,
    /// Its index in the journal; `None` if it did not fit.
    index: Option<usize>,
}

impl Recorder {
    pub(crate) fn read(&self) -> Journal {
        self.lock().clone()
    }

    pub(crate) fn begin(&self, target: &Target, user: &str, lease: Option<Value>) -> Record {
        let mut journal = self.lock();
        let index = journal.requests.len();
        let fits = index < LIMIT;
        if fits {
            journal.requests.push(Entry {
                target: target.clone(),
                user: user.to_owned(),
                lease,
                began: Instant::now(),
                sent: None,
                committed: None,
                answered: None,
                ended: None,
                is_met: false,
            });
        } else {
            journal.left_out += 1;
        }
        Record {
            recorder: self.clone(),
            index: fits.then_some(index),
        }
    }

    pub(crate) fn event(&self, resource: &str, name: &str) {
        let mut journal = self.lock();
        if journal.events.len() < LIMIT {
            journal.events.push(WatchEvent {
                resource: resource.to_owned(),
                name: name.to_owned(),
                at: Instant::now(),
            });
        } else {
            journal.left_out += 1;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Record {
    pub(crate) fn note(&self, note: impl FnOnce(&mut Entry)) {
        let mut journal = self.recorder.lock();
        let entry = self.index.and_then(|index| journal.requests.get_mut(index));
        if let Some(entry) = entry {
            note(entry);
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.note(|entry| entry.ended = Some(Instant::now()));
    }
}
