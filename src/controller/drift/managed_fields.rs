//! The entries of `metadata.managedFields`: whether they changed, and the patch that replaces them. Pure; the
//! caller sends the patch.

use std::hash::{Hash as _, Hasher as _};

use serde_json::{Value, json};

use crate::controller::drift::fingerprint::{hash_whole, is_apply};
use crate::controller::drift::fixed_hash::FixedHasher;
use crate::json::Json;

/// A hash of all that a [fingerprint](super::fingerprint) is computed from besides the spec: what was
/// applied, and the metadata that may be part of it. While it is the same, the spec is the same in all that
/// was applied, if `metadata.generation`, which is part of the hash, counts the changes of the spec.
pub(crate) fn digest(object: &Json<'_>) -> u64 {
    let mut hasher = FixedHasher::default();
    let metadata = object.get("metadata").unwrap_or(&Json::Null);
    let entries = metadata.get("managedFields").and_then(Json::as_array);
    for entry in entries.into_iter().flatten().filter(|it| is_apply(it)) {
        hash_whole(entry.get("manager").unwrap_or(&Json::Null), &mut hasher);
        match entry.get("fieldsV1") {
            Some(Json::Unparsed(text)) => text.hash(&mut hasher),
            fields => hash_whole(fields.unwrap_or(&Json::Null), &mut hasher),
        }
    }
    for (name, value) in metadata.as_object().into_iter().flatten() {
        match (name.as_ref(), value) {
            ("resourceVersion" | "managedFields", _) => {}
            ("annotations", Json::Object(members)) => {
                for (name, value) in members.iter().filter(|(name, _)| !is_of_rollout(name)) {
                    name.hash(&mut hasher);
                    hash_whole(value, &mut hasher);
                }
            }
            (name, value) => {
                name.hash(&mut hasher);
                hash_whole(value, &mut hasher);
            }
        }
    }
    hasher.finish()
}

/// Whether an annotation is of the Deployment controller, which counts rollouts with it. Nobody else
/// applies these.
fn is_of_rollout(annotation: &str) -> bool {
    annotation.starts_with("deployment.kubernetes.io/")
}

/// The JSON patch that replaces `managedFields` in the version that was read.
pub(crate) fn replacement(object: &Value, entries: Vec<Value>) -> Option<Value> {
    let metadata = object.get("metadata")?;
    Some(json!([
        {"op": "test", "path": "/metadata/uid", "value": metadata.get("uid")?},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": metadata.get("resourceVersion")?},
        {"op": "replace", "path": "/metadata/managedFields", "value": entries},
    ]))
}
