//! The requests of managers in an API server's audit log. Reads the log; sends no requests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use devcluster::{AuditEvent, AuditLog};

/// The prefix of the user agent of every manager, and of no other client.
const USER_AGENT: &str = "\"userAgent\":\"quartet-operator/";

/// A log, and the managers' requests in the part that was read.
struct Read {
    log: AuditLog,
    requests: Vec<AuditEvent>,
}

/// The logs that this process has read: each call reads only new lines.
static LOGS: Mutex<BTreeMap<PathBuf, Read>> = Mutex::new(BTreeMap::new());

/// Returns the managers' requests in `namespace`, or in any; a watch counts when its response
/// starts, other requests when they are completed.
pub fn requests(log: &Path, namespace: Option<&str>) -> Vec<AuditEvent> {
    read(log, |it| {
        namespace.is_none_or(|namespace| it.namespace == namespace)
    })
}

/// Returns the requests of the managers that impersonate a user whose name begins with `prefix`.
pub fn requests_as(log: &Path, prefix: &str) -> Vec<AuditEvent> {
    read(log, |it| it.impersonated.starts_with(prefix))
}

fn read(log: &Path, is_wanted: impl Fn(&AuditEvent) -> bool) -> Vec<AuditEvent> {
    let mut logs = LOGS.lock().unwrap_or_else(PoisonError::into_inner);
    let read = logs.entry(log.to_owned()).or_insert_with(|| Read {
        log: AuditLog::open(log).expect("the audit log"),
        requests: Vec::new(),
    });
    let Read { log, requests } = read;
    let is_managers = |line: &str| line.contains(USER_AGENT);
    let take = |event: AuditEvent| requests.push(event.without_bodies_but_of_deletions());
    log.read(is_managers, take).expect("the audit log");
    let wanted = requests
        .iter()
        .filter(|request| !request.resource.is_empty() && is_wanted(request));
    wanted.cloned().collect()
}
