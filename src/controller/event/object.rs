//! An Event, and its object in the API. Pure. Used by the recorder, the correlator and the writer.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

/// The reporting controller, shown by `kubectl describe`.
pub(super) const REPORTER: &str = "quartet-operator";
/// The type of an Event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub(in crate::controller) enum Severity {
    /// Information for users.
    Normal,
    /// A problem that users must solve.
    Warning,
}

/// The reason and note of an Event. Notes must not vary much, since equal Events are counted as one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::controller) struct Notice {
    pub(in crate::controller) severity: Severity,
    /// CamelCase.
    pub(in crate::controller) reason: String,
    /// A sentence.
    pub(in crate::controller) note: String,
}

/// A recorded Event.
#[derive(Debug, Clone)]
pub(in crate::controller) struct Event {
    pub(in crate::controller) key: Key,
    pub(in crate::controller) at: Timestamp,
}

/// What equal Events have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::controller) struct Key {
    pub(in crate::controller) regarding: Regarding,
    pub(in crate::controller) notice: Notice,
}

/// The resource of an Event, as in its JSON.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::controller) struct Regarding {
    pub(in crate::controller) api_version: String,
    pub(in crate::controller) kind: &'static str,
    pub(in crate::controller) namespace: String,
    pub(in crate::controller) name: String,
    pub(in crate::controller) uid: String,
}

impl Event {
    /// The name of the Event object, unique by the time in nanoseconds.
    pub(super) fn object_name(&self) -> String {
        let Regarding { kind, name, .. } = &self.key.regarding;
        let prefix = name.get(..name.len().min(200)).unwrap_or(kind);
        let prefix = prefix.trim_end_matches(['-', '.']);
        format!("{prefix}.{:x}", self.at.as_nanosecond())
    }

    /// The Event object, reported by the process `instance`.
    pub(super) fn body(&self, name: &str, instance: &str) -> Value {
        let Key { regarding, notice } = &self.key;
        json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": regarding.namespace},
            "eventTime": micro_time(self.at),
            "type": notice.severity,
            "reason": notice.reason,
            "action": "Reconcile",
            "note": notice.note,
            "reportingController": REPORTER,
            "reportingInstance": instance,
            "regarding": regarding,
        })
    }
}

/// The format of `MicroTime`.
pub(super) fn micro_time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}
