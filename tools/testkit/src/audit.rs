//! What managers asked of the API server, as its audit log tells it. Reads the log; asks
//! nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use devcluster::{AuditEvent, AuditLog};
use jiff::Timestamp;
use serde_json::Value;

/// Every manager of ours says so in its user agent; nobody else does.
const USER_AGENT: &str = "\"userAgent\":\"quartet-operator/";

/// A request of a manager.
#[derive(Debug, Clone)]
pub struct Request {
    /// As RBAC has it.
    pub verb: String,
    /// API group; empty for the core.
    pub group: String,
    /// Plural, and after a slash the subresource.
    pub resource: String,
    /// Empty outside namespaces.
    pub namespace: String,
    /// Empty for lists and creations.
    pub name: String,
    /// The status code of the answer.
    pub code: u64,
    /// Who asked, e.g. `system:serviceaccount:ns:name`.
    pub user: String,
    /// Whom that user impersonated; empty for nobody.
    pub impersonated: String,
    /// When it came in.
    pub received: Timestamp,
    /// When it was answered.
    pub answered: Timestamp,
    /// The body, of deletions only.
    pub body: Value,
}

impl Request {
    /// Not one that fills a cache.
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

/// A log, and what managers asked in the part that was read.
struct Read {
    log: AuditLog,
    requests: Vec<Request>,
}

/// The logs that this process has looked at: each poll reads only what is new.
static LOGS: Mutex<BTreeMap<PathBuf, Read>> = Mutex::new(BTreeMap::new());

/// What managers asked about `namespace`, or about any; a watch counts when it is answered,
/// all else when it is done.
pub fn requests(log: &Path, namespace: Option<&str>) -> Vec<Request> {
    let mut logs = LOGS.lock().unwrap_or_else(PoisonError::into_inner);
    let read = logs.entry(log.to_owned()).or_insert_with(|| Read {
        log: AuditLog::open(log).expect("the audit log"),
        requests: Vec::new(),
    });
    let Read { log, requests } = read;
    let is_managers = |line: &str| line.contains(USER_AGENT);
    let take = |event: AuditEvent| requests.push(Request::of(event));
    log.read(is_managers, take).expect("the audit log");
    let of_namespace = requests
        .iter()
        .filter(|request| namespace.is_none_or(|namespace| request.namespace == namespace))
        .filter(|request| !request.resource.is_empty());
    of_namespace.cloned().collect()
}
