//! The manager's requests, counted in the API server's audit log as it grows.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use devcluster::AuditEvent;
use jiff::Timestamp;

use crate::error::Error;

/// What the fleet's client calls itself.
pub(crate) const FLEET: &str = "bench/1.0";

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

    /// What a cache would answer.
    pub(crate) fn is_read(&self) -> bool {
        matches!(self.verb.as_str(), "get" | "list")
    }

    /// What keeps or looks at the lease, every 2 s.
    pub(crate) fn is_election(&self) -> bool {
        self.resource == "leases"
    }
}

/// What a user is told of one resource, and when.
#[derive(Debug, Default)]
struct Told {
    created: Option<Timestamp>,
    /// When the last of its children was created before its first status.
    children: Option<Timestamp>,
    /// When its first status was written.
    status: Option<Timestamp>,
    /// Writes of its status.
    writes: u32,
}

/// The statuses of all resources.
#[derive(Debug, Default)]
pub(crate) struct Statuses {
    /// From the creation of a resource to its first status, the shortest first.
    after_creation: Vec<Duration>,
    /// From the creation of its last child to its first status, the shortest first.
    after_children: Vec<Duration>,
    /// The most writes of one status.
    pub(crate) most_writes: u32,
}

impl Statuses {
    /// The time after its creation at which that many percent of the resources had a status.
    pub(crate) fn after_creation(&self, percent: usize) -> Duration {
        quantile(&self.after_creation, percent)
    }

    /// The time after the creation of its last child at which that many percent of the resources had
    /// a status.
    pub(crate) fn after_children(&self, percent: usize) -> Duration {
        quantile(&self.after_children, percent)
    }
}

fn quantile(sorted: &[Duration], percent: usize) -> Duration {
    let last = sorted.len().saturating_sub(1);
    sorted
        .get(last * percent / 100)
        .copied()
        .unwrap_or_default()
}

/// The log, and up to where it was read.
pub(crate) struct AuditLog {
    path: PathBuf,
    log: devcluster::AuditLog,
    /// What the manager's client calls itself.
    agent: &'static str,
    /// By namespace and name: no two of the fleet share them.
    told: ToldOf,
}

impl AuditLog {
    /// The log at `path`, from its beginning, for a manager whose client calls itself `agent`.
    pub(crate) fn open(path: &Path, agent: &'static str) -> Result<Self, Error> {
        let log = devcluster::AuditLog::open(path).map_err(|source| Error::Read {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self {
            path: path.to_owned(),
            log,
            agent,
            told: BTreeMap::new(),
        })
    }

    /// The manager's requests since the last call. A watch is counted when it begins, any
    /// other request when it ends.
    pub(crate) fn new_requests(&mut self) -> Result<Requests, Error> {
        let mut requests = Requests::new();
        let (told, agent) = (&mut self.told, self.agent);
        let count = |event: AuditEvent| {
            if event.user_agent.starts_with(agent) {
                note_child(told, &event);
                note_status(told, &event);
                *requests.entry(Request::from(event)).or_default() += 1;
            } else if event.user_agent == FLEET {
                note_creation(told, &event);
            }
        };
        let concerns = |line: &str| line.contains(agent) || line.contains(FLEET);
        let read = self.log.read(concerns, count);
        read.map_err(|source| Error::Read {
            path: self.path.clone(),
            source,
        })?;
        Ok(requests)
    }

    /// The statuses of the resources that were created so far.
    pub(crate) fn statuses(&self) -> Statuses {
        let first_after = |since: fn(&Told) -> Option<Timestamp>| {
            let after = |told: &Told| {
                let after = told.status?.duration_since(since(told)?);
                Some(Duration::try_from(after).unwrap_or_default())
            };
            let mut all: Vec<_> = self.told.values().filter_map(after).collect();
            all.sort();
            all
        };
        Statuses {
            after_creation: first_after(|told| told.created),
            after_children: first_after(|told| told.children),
            most_writes: self.told.values().map(|it| it.writes).max().unwrap_or(0),
        }
    }
}

type ToldOf = BTreeMap<(String, String), Told>;

fn note_status(told: &mut ToldOf, event: &AuditEvent) {
    let is_write = matches!(event.verb.as_str(), "patch" | "update");
    if is_write && event.resource.ends_with("/status") && event.code == 200 {
        let told = told.entry(key(event)).or_default();
        told.writes += 1;
        told.status.get_or_insert(event.answered);
    }
}

/// A child has the name of its resource.
fn note_child(told: &mut ToldOf, event: &AuditEvent) {
    let is_child = matches!(event.resource.as_str(), "deployments" | "services");
    if is_child && event.code == 201 {
        let told = told.entry(key(event)).or_default();
        if told.status.is_none() {
            told.children = Some(event.answered);
        }
    }
}

fn note_creation(told: &mut ToldOf, event: &AuditEvent) {
    // The namespaces are the fleet's, too.
    if event.verb == "create" && event.code == 201 && event.resource != "namespaces" {
        let told = told.entry(key(event)).or_default();
        told.created = Some(event.answered);
    }
}

fn key(event: &AuditEvent) -> (String, String) {
    (event.namespace.clone(), event.name.clone())
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
