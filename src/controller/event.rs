//! Events on a resource, for transitions that want a human's eye. A healthy life emits none.

use serde_json::{Value, json};

use super::call::{CallError, Caller, Location};
use crate::api::Kind;
use crate::operators::Resource;

/// Who reports: the name that `kubectl describe` shows.
const REPORTER: &str = "quartet-operator.example.com/manager";

/// The API server's limit of `note` (`pkg/apis/core/validation/events.go`, `NoteLengthLimit`).
const NOTE_LIMIT: usize = 1024;

/// Writes one Warning Event about `resource`.
///
/// # Errors
/// As the API server answers; the caller goes on without.
pub(crate) async fn publish(
    caller: &Caller,
    kind: &Kind,
    resource: &Resource,
    reason: &str,
    note: &str,
) -> Result<Value, CallError> {
    let now = jiff::Timestamp::now();
    // Names of Events need only be unique: the resource's, cut, and the time in nanoseconds.
    let prefix = resource
        .name
        .get(..resource.name.len().min(200))
        .unwrap_or(kind.plural);
    let name = format!(
        "{}.{:x}",
        prefix.trim_end_matches(['-', '.']),
        now.as_nanosecond()
    );
    let note = note
        .get(..note.floor_char_boundary(NOTE_LIMIT))
        .unwrap_or(note);
    let body = json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": resource.namespace},
        "eventTime": now.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string(),
        "type": "Warning",
        "reason": reason,
        "action": "Reconcile",
        "note": note,
        "reportingController": REPORTER,
        "reportingInstance": kind.field_manager,
        "regarding": {
            "apiVersion": resource.api_version,
            "kind": kind.kind,
            "namespace": resource.namespace,
            "name": resource.name,
            "uid": resource.uid,
        },
    });
    let at = Location {
        api: "/apis/events.k8s.io/v1",
        plural: "events",
        namespace: &resource.namespace,
        name: &name,
    };
    caller.create(at, &body).await
}
