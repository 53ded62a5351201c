//! The entries of `metadata.managedFields`, and the patch that replaces them. Pure; the caller sends it.

use serde_json::{Value, json};

/// Whether `entry` has the fields of unknown managers: all that an object without managedFields had when it
/// was applied for the first time (apiserver `managedfields/internal/buildmanagerinfo.go`).
pub fn is_of_unknown(entry: &Value) -> bool {
    entry.get("manager").and_then(Value::as_str) == Some("before-first-apply")
}

/// The JSON patch that replaces `managedFields` in the version that was read.
pub fn replacement(object: &Value, entries: Vec<Value>) -> Option<Value> {
    let metadata = object.get("metadata")?;
    Some(json!([
        {"op": "test", "path": "/metadata/uid", "value": metadata.get("uid")?},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": metadata.get("resourceVersion")?},
        {"op": "replace", "path": "/metadata/managedFields", "value": entries},
    ]))
}
