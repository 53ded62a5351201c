//! Records requests with their results.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::time::Instant;

use crate::request::Target;

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

/// All requests, in the order of arrival.
#[derive(Clone, Default)]
pub(crate) struct Journal(Arc<Mutex<Vec<Entry>>>);

/// A request in progress; its entry is closed when this is dropped.
pub(crate) struct Record {
    journal: Journal,
    /// Its index in the journal.
    index: usize,
}

impl Journal {
    pub(crate) fn read(&self) -> Vec<Entry> {
        self.lock().clone()
    }

    pub(crate) fn begin(&self, target: Target, user: String, lease: Option<Value>) -> Record {
        let mut journal = self.lock();
        journal.push(Entry {
            target,
            user,
            lease,
            began: Instant::now(),
            sent: None,
            committed: None,
            answered: None,
            ended: None,
            is_met: false,
        });
        Record {
            journal: self.clone(),
            index: journal.len() - 1,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Record {
    pub(crate) fn note(&self, note: impl FnOnce(&mut Entry)) {
        note(&mut self.journal.lock()[self.index]);
    }

    /// Notes the status code that the client got.
    pub(crate) fn answered(&self, code: http::StatusCode) {
        self.note(|entry| entry.answered = Some(code.as_u16()));
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.note(|entry| entry.ended = Some(Instant::now()));
    }
}
