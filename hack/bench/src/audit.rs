//! The manager's requests, counted in the API server's audit log as it grows.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde::Deserialize;

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

/// A place in the log up to which it was read.
pub(crate) struct AuditLog {
    path: PathBuf,
    lines: BufReader<File>,
    /// A line whose end is not written yet.
    begun: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    #[serde(default)]
    user_agent: String,
    stage: String,
    verb: String,
    #[serde(default)]
    object_ref: ObjectReference,
    #[serde(default)]
    response_status: ResponseStatus,
}

#[derive(Deserialize, Default)]
struct ObjectReference {
    #[serde(default)]
    resource: String,
    subresource: Option<String>,
}

#[derive(Deserialize, Default)]
struct ResponseStatus {
    #[serde(default)]
    code: u16,
}

impl AuditLog {
    /// The log at `path`, from its beginning.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let file = File::open(path).map_err(|source| Error::Read {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self {
            path: path.to_owned(),
            lines: BufReader::new(file),
            begun: String::new(),
        })
    }

    /// The manager's requests since the last call. A watch is counted when it begins, any
    /// other request when it ends.
    pub(crate) fn new_requests(&mut self) -> Result<Requests, Error> {
        let mut requests = Requests::new();
        loop {
            let read = self.lines.read_line(&mut self.begun);
            read.map_err(|source| Error::Read {
                path: self.path.clone(),
                source,
            })?;
            if !self.begun.ends_with('\n') {
                return Ok(requests);
            }
            if let Some(request) = request(&self.begun) {
                *requests.entry(request).or_default() += 1;
            }
            self.begun.clear();
        }
    }
}

/// The manager's request that a line tells of.
fn request(line: &str) -> Option<Request> {
    if !line.contains(USER_AGENT) {
        return None;
    }
    let event: Event = serde_json::from_str(line).ok()?;
    let counted = if event.verb == "watch" {
        "ResponseStarted"
    } else {
        "ResponseComplete"
    };
    if !event.user_agent.starts_with(USER_AGENT) || event.stage != counted {
        return None;
    }
    let resource = event.object_ref.resource;
    Some(Request {
        verb: event.verb,
        resource: match event.object_ref.subresource {
            Some(subresource) => format!("{resource}/{subresource}"),
            None => resource,
        },
        code: event.response_status.code,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(agent: &str, verb: &str, stage: &str) -> String {
        json!({
            "stage": stage, "verb": verb, "userAgent": agent,
            "objectRef": {"resource": "memcacheds", "subresource": "status"},
            "responseStatus": {"code": 200},
        })
        .to_string()
    }

    #[test]
    fn the_manager_s_requests_are_counted_once_each_and_nobody_else_s() {
        let ours = "quartet-operator/0.1.0";
        let request = |agent, verb, stage| request(&line(agent, verb, stage)).is_some();
        assert!(request(ours, "patch", "ResponseComplete"));
        assert!(request(ours, "watch", "ResponseStarted"));
        assert!(!request(ours, "watch", "ResponseComplete"));
        assert!(!request("kubectl/v1.36.3", "patch", "ResponseComplete"));
        assert!(!request(
            "not quartet-operator/0.1.0",
            "patch",
            "ResponseComplete"
        ));
    }

    #[test]
    fn a_request_is_named_with_its_subresource() {
        let found = request(&line("quartet-operator/1", "patch", "ResponseComplete")).unwrap();
        assert_eq!(found.resource, "memcacheds/status");
        assert_eq!(found.code, 200);
    }
}
