//! What passed and what became of it. Bounded: a test that makes more of it than fits is told
//! so and does not read half of the truth.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::time::Instant;

use crate::request::Target;

/// Requests, and events, that are kept.
const LIMIT: usize = 200_000;

/// A request.
#[derive(Debug, Clone)]
pub struct Entry {
    /// What it was about.
    pub target: Target,
    /// Whom the client acted as: its `Impersonate-User`.
    pub user: String,
    /// Its body, where it is a Lease.
    pub lease: Option<Value>,
    /// When it came in.
    pub began: Instant,
    /// When it was sent on; `None` if it was not.
    pub sent: Option<Instant>,
    /// The API server's answer and when it came; `None` if it was not asked or did not answer.
    pub committed: Option<(u16, Instant)>,
    /// What the client was answered; `None` if it was not.
    pub answered: Option<u16>,
    /// When this was over for the client; `None` while it goes on. Of a watch its end.
    pub ended: Option<Instant>,
    /// A rule other than a delay met it.
    pub is_met: bool,
}

impl Entry {
    /// The API server obeyed.
    pub fn is_committed(&self) -> bool {
        self.committed.is_some_and(|(code, _)| code < 300)
    }

    /// The client was not told so.
    pub fn is_failure(&self) -> bool {
        self.answered.is_none_or(|code| code >= 300)
    }
}

/// An event of a watch that was passed on.
#[derive(Debug, Clone)]
pub struct WatchEvent {
    /// Plural.
    pub resource: String,
    /// The object's name; empty for a bookmark.
    pub name: String,
    /// When.
    pub at: Instant,
}

/// Everything so far.
#[derive(Debug, Clone, Default)]
pub struct Journal {
    /// In the order in which they came in.
    pub requests: Vec<Entry>,
    /// In the order in which they were passed on.
    pub events: Vec<WatchEvent>,
    /// How many of either did not fit.
    pub left_out: u64,
}

/// The journal that is being written.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recorder {
    journal: Arc<Mutex<Journal>>,
}

/// A request that goes on; its entry is closed when this is dropped.
#[derive(Debug)]
pub(crate) struct Record {
    recorder: Recorder,
    /// Place in the journal; `None` if it did not fit.
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
