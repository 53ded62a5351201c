//! Reads the API server's audit log as it grows: one event per request.
//!
//! Bodies are parsed only on demand, because the log of a whole test run has hundreds of megabytes
//! and most readers only count requests.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// A request that the API server responded to.
#[derive(Debug, Clone)]
pub struct AuditEvent {
    /// The RBAC verb, e.g. `patch`.
    pub verb: String,
    /// API group; empty for the core.
    pub group: String,
    /// API version without the group, e.g. `v1`.
    pub version: String,
    /// Plural, and after a slash the subresource; empty for other URLs.
    pub resource: String,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// Name; empty for lists.
    pub name: String,
    /// HTTP status code.
    pub code: u16,
    /// The user, e.g. `system:serviceaccount:ns:name`.
    pub user: String,
    /// The impersonated user; empty without impersonation.
    pub impersonated: String,
    /// The client's user agent.
    pub user_agent: String,
    /// Path and query.
    pub uri: String,
    /// When the request was received, in microseconds.
    pub received: Timestamp,
    /// When the request was completed; for a watch, when the response started.
    pub answered: Timestamp,
    /// The request body, if the audit policy records it.
    pub request: Option<Box<RawValue>>,
    /// The response body, if the audit policy records it.
    pub response: Option<Box<RawValue>>,
}

impl AuditEvent {
    /// Reports whether it was a dry run, which stores nothing.
    pub fn is_dry_run(&self) -> bool {
        let (_, query) = self.uri.split_once('?').unwrap_or_default();
        query.split('&').any(|part| part.starts_with("dryRun="))
    }

    /// Reports whether it is not a list or watch, which fill a cache.
    pub fn is_single(&self) -> bool {
        !matches!(self.verb.as_str(), "watch" | "list")
    }

    /// Returns the event without its bodies, which a reader that keeps many events has no room for; a deletion
    /// keeps its options.
    #[must_use]
    pub fn without_bodies_but_of_deletions(mut self) -> Self {
        self.response = None;
        self.request = self.request.filter(|_| self.verb == "delete");
        self
    }

    /// Returns the request body; null if it is not recorded.
    pub fn request_body(&self) -> Value {
        let body = self.request.as_ref();
        body.and_then(|body| serde_json::from_str(body.get()).ok())
            .unwrap_or_default()
    }
}

/// A position in an audit log: everything before it has been read.
#[derive(Debug)]
pub struct AuditLog {
    lines: BufReader<File>,
    /// An incomplete line at the end of the log.
    begun: Vec<u8>,
    /// Requests without a response yet, by their audit ID. Only those that the policy also records
    /// when they are received.
    unanswered: HashMap<String, AuditEvent>,
}

impl AuditLog {
    /// Opens the log at `path` at its beginning.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            lines: BufReader::with_capacity(1 << 20, File::open(path)?),
            begun: Vec::new(),
            unanswered: HashMap::new(),
        })
    }

    /// Returns the requests read so far that have no response: those in progress, and those of an
    /// API server that was killed, which may have stored their objects.
    pub fn unanswered(&self) -> impl Iterator<Item = &AuditEvent> {
        self.unanswered.values()
    }

    /// Calls `take` with each request since the last call, in the order of the log. Parses only
    /// lines that `concerns` accepts, because parsing takes most of the time.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(
        &mut self,
        mut concerns: impl FnMut(&str) -> bool,
        mut take: impl FnMut(AuditEvent),
    ) -> io::Result<()> {
        loop {
            self.lines.read_until(b'\n', &mut self.begun)?;
            if self.begun.last() != Some(&b'\n') {
                return Ok(());
            }
            let line = String::from_utf8_lossy(&self.begun);
            if concerns(&line)
                && let Ok(line) = serde_json::from_str::<Line>(&line)
            {
                if line.stage == "RequestReceived" {
                    let id = line.audit_id.clone();
                    self.unanswered.insert(id, line.event());
                } else {
                    self.unanswered.remove(&line.audit_id);
                    if line.is_answer() {
                        take(line.event());
                    }
                }
            }
            self.begun.clear();
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Line {
    #[serde(rename = "auditID")]
    audit_id: String,
    stage: String,
    verb: String,
    #[serde(rename = "requestURI")]
    uri: String,
    user: User,
    impersonated_user: User,
    user_agent: String,
    object_ref: ObjectReference,
    response_status: ResponseStatus,
    request_object: Option<Box<RawValue>>,
    response_object: Option<Box<RawValue>>,
    request_received_timestamp: Timestamp,
    stage_timestamp: Timestamp,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct User {
    username: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ObjectReference {
    api_group: String,
    api_version: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ResponseStatus {
    code: u16,
}

impl Line {
    /// Reports whether this line of a response counts. A watch has one when its response starts and one
    /// when it ends; the first counts.
    fn is_answer(&self) -> bool {
        (self.stage == "ResponseStarted") == (self.verb == "watch")
    }

    /// Returns the request of this line.
    fn event(self) -> AuditEvent {
        let object = self.object_ref;
        let mut resource = object.resource;
        if !object.subresource.is_empty() {
            resource = format!("{resource}/{}", object.subresource);
        }
        AuditEvent {
            verb: self.verb,
            group: object.api_group,
            version: object.api_version,
            resource,
            namespace: object.namespace,
            name: object.name,
            code: self.response_status.code,
            user: self.user.username,
            impersonated: self.impersonated_user.username,
            user_agent: self.user_agent,
            uri: self.uri,
            received: self.request_received_timestamp,
            answered: self.stage_timestamp,
            request: self.request_object,
            response: self.response_object,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use serde_json::json;

    use super::*;

    fn line(verb: &str, stage: &str, uri: &str) -> String {
        json!({
            "auditID": uri, "stage": stage, "verb": verb, "userAgent": "quartet-operator/0.1.0", "requestURI": uri,
            "user": {"username": "admin"}, "impersonatedUser": {"username": "somebody"},
            "objectRef": {"apiGroup": "g", "apiVersion": "v1", "resource": "memcacheds",
                "subresource": "status", "namespace": "n", "name": "a"},
            "responseStatus": {"code": 200}, "requestObject": {"a": 1},
            "requestReceivedTimestamp": "2026-01-01T00:00:00.000001Z",
            "stageTimestamp": "2026-01-01T00:00:00.000002Z",
        })
        .to_string()
    }

    #[test]
    fn a_request_is_reported_as_unanswered_until_it_has_a_response() {
        let path = std::env::temp_dir().join(format!("audit-open-{}", std::process::id()));
        let mut file = File::create(&path).unwrap();
        let mut log = AuditLog::open(&path).unwrap();
        let mut count = 0;
        for uri in ["/a", "/b"] {
            writeln!(file, "{}", line("patch", "RequestReceived", uri)).unwrap();
        }
        log.read(|_| true, |_| count += 1).unwrap();
        assert_eq!((count, log.unanswered().count()), (0, 2));
        writeln!(file, "{}", line("patch", "ResponseComplete", "/a")).unwrap();
        log.read(|_| true, |_| count += 1).unwrap();
        assert_eq!(count, 1);
        let unanswered: Vec<_> = log.unanswered().map(|it| it.uri.as_str()).collect();
        assert_eq!(unanswered, ["/b"]);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn later_lines_are_read_by_later_calls_and_an_incomplete_line_is_not() {
        let path = std::env::temp_dir().join(format!("audit-reader-{}", std::process::id()));
        let mut file = File::create(&path).unwrap();
        let (first, second) = (line("get", "ResponseComplete", "/"), "not JSON\n");
        write!(file, "{first}\n{}", &first[..20]).unwrap();
        let mut log = AuditLog::open(&path).unwrap();
        let count = |log: &mut AuditLog| {
            let mut count = 0;
            log.read(|_| true, |_| count += 1).unwrap();
            count
        };
        assert_eq!(count(&mut log), 1);
        write!(file, "{}\n{second}", &first[20..]).unwrap();
        assert_eq!(count(&mut log), 1);
        assert_eq!(count(&mut log), 0);
        std::fs::remove_file(path).unwrap();
    }
}
