//! The manager's requests, counted in the API server's audit log as it grows.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use devcluster::AuditEvent;
use jiff::Timestamp;

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

/// What a user is told of one resource, and when.
#[derive(Debug, Default)]
struct Told {
    /// When its last child was created.
    children: Option<Timestamp>,
    /// When its first status was written.
    status: Option<Timestamp>,
    /// Writes of its status.
    writes: u32,
}

/// The statuses of all resources.
#[derive(Debug, Default)]
pub(crate) struct Statuses {
    /// From the creation of the children to the first status, the shortest first; zero where the
    /// status was first.
    pub(crate) first_after: Vec<Duration>,
    /// The most writes of one status.
    pub(crate) most_writes: u32,
}

/// The log, and up to where it was read.
pub(crate) struct AuditLog {
    path: PathBuf,
    log: devcluster::AuditLog,
    /// By namespace and name; a child has the name of its resource.
    told: BTreeMap<(String, String), Told>,
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
            told: BTreeMap::new(),
        })
    }

    /// The manager's requests since the last call. A watch is counted when it begins, any
    /// other request when it ends.
    pub(crate) fn new_requests(&mut self) -> Result<Requests, Error> {
        let mut requests = Requests::new();
        let told = &mut self.told;
        let count = |event: AuditEvent| {
            if event.user_agent.starts_with(USER_AGENT) {
                note(told, &event);
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

    /// The statuses of the resources whose children were created so far.
    pub(crate) fn statuses(&self) -> Statuses {
        let first_after = |told: &Told| {
            let after = told.status?.duration_since(told.children?);
            Some(Duration::try_from(after).unwrap_or_default())
        };
        let mut first_after: Vec<_> = self.told.values().filter_map(first_after).collect();
        first_after.sort();
        Statuses {
            first_after,
            most_writes: self.told.values().map(|it| it.writes).max().unwrap_or(0),
        }
    }
}

fn note(told: &mut BTreeMap<(String, String), Told>, event: &AuditEvent) {
    let is_status = event.resource.ends_with("/status");
    let is_child = event.code == 201;
    if event.verb != "patch" || !(is_status || is_child) {
        return;
    }
    let key = (event.namespace.clone(), event.name.clone());
    let told = told.entry(key).or_default();
    if is_status {
        told.writes += 1;
        told.status.get_or_insert(event.answered);
    } else {
        told.children = Some(event.answered);
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
