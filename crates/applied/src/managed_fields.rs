//! The patch that replaces the entries of `metadata.managedFields`. Pure; the caller sends it.

use serde_json::{Value, json};

/// The JSON patch that replaces `managedFields` in the version that was read.
pub fn replacement(object: &Value, entries: Vec<Value>) -> Option<Value> {
    let metadata = object.get("metadata")?;
    Some(json!([
        {"op": "test", "path": "/metadata/uid", "value": metadata.get("uid")?},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": metadata.get("resourceVersion")?},
        {"op": "replace", "path": "/metadata/managedFields", "value": entries},
    ]))
}
