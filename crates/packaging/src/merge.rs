//! Merges a patch as kustomize does.

use serde_json::Value;

/// Merges objects field by field, and lists of named items by name, with new items first. Any other
/// value is replaced.
pub(crate) fn merge(base: &mut Value, patch: Value) {
    match (base, patch) {
        (Value::Object(base), Value::Object(patch)) => {
            for (field, value) in patch {
                merge(base.entry(field).or_insert(Value::Null), value);
            }
        }
        (Value::Array(base), Value::Array(patch))
            if patch.iter().all(|it| it["name"].is_string()) =>
        {
            for item in patch.into_iter().rev() {
                match base.iter_mut().find(|it| it["name"] == item["name"]) {
                    Some(there) => merge(there, item),
                    None => base.insert(0, item),
                }
            }
        }
        (base, patch) => *base = patch,
    }
}
