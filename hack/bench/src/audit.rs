//! The manager's requests, counted in the API server's audit log as it grows.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use devcluster::AuditEvent;

use crate::error::Error;

/// What the manager's client calls itself.
const USER_AGENT: &str = "quartet-operator/";

/// Requests, by what they did to what and how that ended.
pub(crate) type Requests = BTreeMap<Request, u64>;

/// The kind of a request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Request {
    /// As RBAC has it, e.g. `patch`.
    pub(crate) verb: String,
    /// Plural, with the subresource, e.g. `memcacheds/status`.
    pub(crate) resource: String,
    /// HTTP status code.
    pub(crate) code: u16,
}

impl Request {
    /// What an informer at rest asks: its watch, every 50 s.
    pub(crate) fn is_watch(&self) -> bool {
        self.verb == "watch"
    }

    /// What keeps or looks at the lease, every 2 s.
    pub(crate) fn is_election(&self) -> bool {
        self.resource == "leases"
    }
}

/// The log, and up to where it was read.
pub(crate) struct AuditLog {
    path: PathBuf,
    log: devcluster::AuditLog,
}

impl AuditLog {
    /// The log at `path`, from its beginning.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let log = devcluster::AuditLog::open(path).map_err(|source| Error::Read {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self {
            path: path.to_owned(),
            log,
        })
    }

    /// The manager's requests since the last call. A watch is counted when it begins, any
    /// other request when it ends.
    pub(crate) fn new_requests(&mut self) -> Result<Requests, Error> {
        let mut requests = Requests::new();
        let count = |event: AuditEvent| {
            if event.user_agent.starts_with(USER_AGENT) {
                *requests.entry(Request::from(event)).or_default() += 1;
            }
        };
        let read = self.log.read(|line| line.contains(USER_AGENT), count);
        read.map_err(|source| Error::Read {
            path: self.path.clone(),
            source,
        })?;
        Ok(requests)
    }
}

impl From<AuditEvent> for Request {
    fn from(event: AuditEvent) -> Self {
        Request {
            verb: event.verb,
            resource: event.resource,
            code: event.code,
        }
    }
}
