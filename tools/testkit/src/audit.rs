//! The requests of managers in an API server's audit log. Reads the log; sends no requests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use devcluster::{AuditEvent, AuditLog};
use jiff::Timestamp;
use serde_json::Value;

/// The prefix of the user agent of every manager, and of no other client.
const USER_AGENT: &str = "\"userAgent\":\"quartet-operator/";

/// A request of a manager.
#[derive(Debug, Clone)]
pub struct Request {
    /// The RBAC verb.
    pub verb: String,
    /// API group; empty for the core.
    pub group: String,
    /// Plural, and after a slash the subresource.
    pub resource: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// Empty for lists and creations.
    pub name: String,
    /// The status code of the response.
    pub code: u64,
    /// The user, e.g. `system:serviceaccount:ns:name`.
    pub user: String,
    /// The impersonated user; empty without impersonation.
    pub impersonated: String,
    /// When it was received.
    pub received: Timestamp,
    /// When it was answered.
    pub answered: Timestamp,
    /// The body, of deletions only.
    pub body: Value,
}

impl Request {
    /// Reports whether it is not a list or watch, which fill a cache.
    pub fn is_single(&self) -> bool {
        !matches!(self.verb.as_str(), "watch" | "list")
    }

    fn of(event: AuditEvent) -> Self {
        let body = match event.verb.as_str() {
            "delete" => event.request_body(),
            _ => Value::Null,
        };
        Request {
            body,
            code: event.code.into(),
            verb: event.verb,
            group: event.group,
            resource: event.resource,
            namespace: event.namespace,
            name: event.name,
            user: event.user,
            impersonated: event.impersonated,
            received: event.received,
            answered: event.answered,
        }
    }
}

/// A log, and the managers' requests in the part that was read.
struct Read {
    log: AuditLog,
    requests: Vec<Request>,
}

/// The logs that this process has read: each call reads only new lines.
static LOGS: Mutex<BTreeMap<PathBuf, Read>> = Mutex::new(BTreeMap::new());

/// Returns the managers' requests in `namespace`, or in any; a watch counts when its response
/// starts, other requests when they are completed.
pub fn requests(log: &Path, namespace: Option<&str>) -> Vec<Request> {
    read(log, |it| {
        namespace.is_none_or(|namespace| it.namespace == namespace)
    })
}

/// Returns the requests of the managers that impersonate a user whose name begins with `prefix`.
pub fn requests_as(log: &Path, prefix: &str) -> Vec<Request> {
    read(log, |it| it.impersonated.starts_with(prefix))
}

fn read(log: &Path, is_wanted: impl Fn(&Request) -> bool) -> Vec<Request> {
    let mut logs = LOGS.lock().unwrap_or_else(PoisonError::into_inner);
    let read = logs.entry(log.to_owned()).or_insert_with(|| Read {
        log: AuditLog::open(log).expect("the audit log"),
        requests: Vec::new(),
    });
    let Read { log, requests } = read;
    let is_managers = |line: &str| line.contains(USER_AGENT);
    let take = |event: AuditEvent| requests.push(Request::of(event));
    log.read(is_managers, take).expect("the audit log");
    let wanted = requests
        .iter()
        .filter(|request| !request.resource.is_empty() && is_wanted(request));
    wanted.cloned().collect()
}
