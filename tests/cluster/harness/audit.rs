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
pub(crate) struct Request {
    pub(crate) verb: String,
    /// API group; empty for the core.
    pub(crate) group: String,
    /// Plural, and after a slash the subresource.
    pub(crate) resource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) code: u64,
    /// Who asked, e.g. `system:serviceaccount:ns:name`.
    pub(crate) user: String,
    /// Whom that user impersonated; empty for nobody.
    #[allow(dead_code)] // by the tests of `election`
    pub(crate) impersonated: String,
    #[allow(dead_code)] // unused by the test of the whole run
    pub(crate) received: Timestamp,
    #[allow(dead_code)] // by the tests of `election`
    pub(crate) answered: Timestamp,
    /// The body, of deletions only.
    pub(crate) body: Value,
}

impl Request {
    /// Not one that fills a cache.
    pub(crate) fn is_single(&self) -> bool {
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
pub(crate) fn requests(log: &Path, namespace: Option<&str>) -> Vec<Request> {
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
