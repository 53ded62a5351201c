//! Every version of resources and children in an audit log, ordered by etcd revision.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;

use devcluster::{AuditEvent, AuditLog};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{RACE, earlier, wanted};

/// The user agent of every manager begins with this.
const USER_AGENT: &str = "quartet-operator/";

/// An object, by its path on the API server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) plural: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (plural, namespace, name) = (&self.plural, &self.namespace, &self.name);
        write!(formatter, "{plural} {namespace}/{name}")
    }
}

/// A version of an object, made by one write.
#[derive(Debug, Clone)]
pub(crate) struct Version {
    /// The etcd revision; for a deletion, that of the last write before it.
    pub(crate) revision: u64,
    pub(crate) uid: String,
    pub(crate) is_gone: bool,
    pub(crate) is_managers: bool,
    /// The writer: the user agent, or else the user.
    pub(crate) by: String,
    pub(crate) received: Timestamp,
    pub(crate) answered: Timestamp,
    /// The response, JSON.
    object: String,
    /// The body of a manager's apply, JSON.
    request: Option<String>,
    /// The replicas of a write through the scale subresource.
    scaled: Option<i64>,
}

impl Version {
    pub(crate) fn object(&self) -> Value {
        serde_json::from_str(&self.object).unwrap_or_default()
    }

    pub(crate) fn request_object(&self) -> Value {
        let request = self.request.as_deref().unwrap_or_default();
        serde_json::from_str(request).unwrap_or_default()
    }
}

/// A status that a manager wrote.
#[derive(Debug, Clone)]
pub(crate) struct StatusWrite {
    pub(crate) key: Key,
    pub(crate) uid: String,
    /// The API version of the request, e.g. `v1alpha1`.
    pub(crate) api_version: String,
    pub(crate) revision: u64,
    /// Its `observedGeneration`.
    pub(crate) observed: i64,
    pub(crate) is_ready: bool,
    pub(crate) received: Timestamp,
    pub(crate) answered: Timestamp,
}

/// A write without a known outcome.
struct Unanswered {
    key: Key,
    at: Timestamp,
}

/// See the top of this file.
pub(crate) struct History {
    log: AuditLog,
    versions: HashMap<Key, Vec<Version>>,
    status_writes: Vec<StatusWrite>,
    unanswered: Vec<Unanswered>,
}

impl History {
    pub(crate) fn open(log: &Path) -> Self {
        History {
            log: AuditLog::open(log).unwrap_or_else(|error| panic!("{}: {error}", log.display())),
            versions: HashMap::new(),
            status_writes: Vec::new(),
            unanswered: Vec::new(),
        }
    }

    /// Reads the lines since the last call for which `concerns` is true.
    pub(crate) fn read(&mut self, concerns: impl Fn(&str) -> bool) {
        let History {
            log,
            versions,
            status_writes,
            unanswered,
        } = self;
        let mut take = |event: AuditEvent| take(event, versions, status_writes, unanswered);
        // Only writes are logged with bodies.
        let is_write = |line: &str| !line.contains("\"level\":\"Metadata\"");
        let read = log.read(|line| is_write(line) && concerns(line), &mut take);
        read.expect("the audit log");
        for (key, versions) in &mut self.versions {
            put_in_order(&key.plural, versions);
        }
    }

    pub(crate) fn status_writes(&self) -> impl Iterator<Item = &StatusWrite> {
        self.status_writes.iter()
    }

    /// Returns every object with its versions.
    pub(crate) fn objects(&self) -> impl Iterator<Item = (&Key, &[Version])> {
        let all = self.versions.iter();
        all.map(|(key, versions)| (key, versions.as_slice()))
    }

    /// Returns the versions of the object when the status was written, the newest first.
    pub(crate) fn past(&self, key: &Key, write: &StatusWrite) -> Vec<&Version> {
        let versions = self.versions.get(key).into_iter().flatten();
        let mut past: Vec<_> = versions
            // A deletion has no revision of its own, so it counts as earlier if it ended earlier.
            .filter(|version| {
                if version.is_gone {
                    version.answered <= write.received
                } else {
                    version.revision <= write.revision
                }
            })
            .collect();
        past.reverse();
        past
    }

    /// Returns the resource at the generation of the status, the newest first: the last version
    /// before the status, and those up to [`RACE`] older.
    pub(crate) fn specs(&self, write: &StatusWrite) -> Vec<Value> {
        let mut specs = Vec::new();
        for version in self.past(&write.key, write) {
            let object = version.object();
            if version.uid != write.uid || object["metadata"]["generation"] != write.observed {
                continue;
            }
            specs.push(object);
            if version.answered < earlier(write.received, RACE) {
                break;
            }
        }
        specs
    }

    /// Returns the last apply by a manager that led to this version.
    pub(crate) fn last_apply(&self, key: &Key, version: &Version) -> Option<&Version> {
        let versions = self.versions.get(key)?.iter().rev();
        let mut applies = versions.filter(|it| it.uid == version.uid && it.request.is_some());
        applies.find(|apply| apply.revision <= version.revision)
    }

    /// Reports whether a write of the object since its last known version got no response, or none
    /// that shows the outcome: the API server may have been killed after it stored the object.
    pub(crate) fn is_uncertain(&self, key: &Key, write: &StatusWrite) -> bool {
        let known = self.past(key, write).first().map(|it| it.received);
        let is_since =
            |at: Timestamp| known.is_none_or(|known| at >= known) && at <= write.answered;
        let mut of_unknown_outcome = self.unanswered.iter();
        of_unknown_outcome.any(|one| one.key == *key && is_since(one.at))
            || self.log.unanswered().any(|event| {
                let plural = event.resource.split('/').next();
                plural == Some(&*key.plural)
                    && (&event.namespace, &event.name) == (&key.namespace, &key.name)
                    && !event.is_dry_run()
                    && is_since(event.received)
            })
    }
}

fn take(
    event: AuditEvent,
    versions: &mut HashMap<Key, Vec<Version>>,
    status_writes: &mut Vec<StatusWrite>,
    unanswered: &mut Vec<Unanswered>,
) {
    let (plural, subresource) = event
        .resource
        .split_once('/')
        .unwrap_or((&event.resource, ""));
    let is_write = !matches!(event.verb.as_str(), "get" | "list" | "watch");
    if !is_write || event.is_dry_run() {
        return;
    }
    let answer = event.response.as_ref().map_or("null", |it| it.get());
    let response: Value = serde_json::from_str(answer).unwrap_or_default();
    let key = Key {
        plural: plural.to_owned(),
        namespace: event.namespace.clone(),
        // The request of a creation has no name if the API server generates it.
        name: match response["metadata"]["name"].as_str() {
            Some(name) if event.name.is_empty() => name.to_owned(),
            _ => event.name.clone(),
        },
    };
    if event.code >= 500 && is_uncertain(event.code, &text(&response["message"])) {
        unanswered.push(Unanswered {
            key,
            at: event.answered,
        });
        return;
    }
    if event.code >= 300 {
        return;
    }
    if event.verb == "deletecollection" {
        for item in response["items"].as_array().into_iter().flatten() {
            let name = item["metadata"]["name"].as_str().unwrap_or_default();
            let key = Key {
                name: name.to_owned(),
                ..key.clone()
            };
            versions.entry(key).or_default().push(version(&event, item));
        }
        return;
    }
    let is_managers = event.user_agent.starts_with(USER_AGENT);
    // `migrate-storage` has an object stored anew with an empty patch, which says nothing of its own.
    let is_rewrite = event.request_body() == json!({});
    let is_status = subresource == "status" && wanted::operator(plural).is_some();
    if is_managers && is_status && !is_rewrite {
        status_writes.push(status_write(&event, key.clone(), &response));
    }
    versions
        .entry(key)
        .or_default()
        .push(version(&event, &response));
}

/// Reports whether such a response leaves open what etcd stored. Webhooks are called before.
fn is_uncertain(code: u16, message: &str) -> bool {
    const OPEN: [&str; 4] = ["etcdserver", "timeout", "timed out", "context"];
    let is_admission = message.contains("failed calling webhook");
    !is_admission && (code == 504 || OPEN.iter().any(|part| message.contains(part)))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn revision(object: &Value) -> u64 {
    let revision = object["metadata"]["resourceVersion"].as_str();
    revision.and_then(|it| it.parse().ok()).unwrap_or_default()
}

fn version(event: &AuditEvent, object: &Value) -> Version {
    let metadata = &object["metadata"];
    let is_status = object["kind"] == "Status";
    let is_deletion = event.verb.starts_with("delete");
    let has_finalizers = metadata["finalizers"]
        .as_array()
        .is_some_and(|it| !it.is_empty());
    let is_ending = !metadata["deletionTimestamp"].is_null();
    let is_managers = event.user_agent.starts_with(USER_AGENT);
    let is_scale = event.resource.ends_with("/scale");
    let is_apply = event.verb == "patch" && !event.resource.contains('/');
    let request = event.request.as_ref().filter(|_| is_managers && is_apply);
    Version {
        revision: revision(object),
        uid: if is_status {
            text(&object["details"]["uid"])
        } else {
            text(&metadata["uid"])
        },
        is_gone: is_status || (is_deletion || is_ending) && !has_finalizers,
        is_managers,
        by: if event.user_agent.is_empty() {
            event.user.clone()
        } else {
            event.user_agent.clone()
        },
        received: event.received,
        answered: event.answered,
        object: object.to_string(),
        request: request.map(|it| it.get().to_owned()),
        scaled: is_scale.then(|| object["spec"]["replicas"].as_i64().unwrap_or_default()),
    }
}

fn status_write(event: &AuditEvent, key: Key, object: &Value) -> StatusWrite {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let status = &object["status"];
    StatusWrite {
        key,
        uid: text(&object["metadata"]["uid"]),
        api_version: event.version.clone(),
        revision: revision(object),
        observed: status["observedGeneration"].as_i64().unwrap_or_default(),
        is_ready: conditions.any(|it| it["type"] == "Ready" && it["status"] == "True"),
        received: event.received,
        answered: event.answered,
    }
}

/// Sorts versions by revision. The object of a deletion is its last version before, and a write of
/// the scale subresource is the version before with other replicas.
fn put_in_order(plural: &str, versions: &mut [Version]) {
    let mut last: HashMap<String, u64> = HashMap::new();
    for version in versions.iter().filter(|it| !it.is_gone) {
        let last = last.entry(version.uid.clone()).or_default();
        *last = version.revision.max(*last);
    }
    for version in versions.iter_mut().filter(|it| it.is_gone) {
        version.revision = last.get(&version.uid).copied().unwrap_or(version.revision);
    }
    versions.sort_by_key(|it| (it.revision, it.is_gone, it.answered));
    for index in 1..versions.len() {
        if let Some(replicas) = versions[index].scaled.take() {
            let (before, after) = (versions[index - 1].object(), versions[index].object());
            versions[index].object = scaled(plural, before, &after, replicas).to_string();
        }
    }
}

fn scaled(plural: &str, mut before: Value, scale: &Value, replicas: i64) -> Value {
    let version = text(&before["apiVersion"]);
    let version = version.rsplit('/').next().unwrap_or_default().to_owned();
    let version = wanted::operator(plural).and_then(|it| it.kind().version(&version));
    let path = version.map_or("spec.replicas".to_owned(), |version| {
        version.pods.blamed(&before["spec"]).0
    });
    let path = format!("/{}", path.replace('.', "/"));
    if before.pointer(&path).and_then(Value::as_i64) != Some(replicas) {
        if let Some(generation) = before["metadata"]["generation"].as_i64() {
            before["metadata"]["generation"] = json!(generation + 1);
        }
        let fields = path.trim_start_matches('/').split('/');
        *fields.fold(&mut before, |at, field| &mut at[field]) = json!(replicas);
    }
    before["metadata"]["resourceVersion"] = scale["metadata"]["resourceVersion"].clone();
    before
}
