//! Merges JSON.

use serde_json::Value;

/// Merges `more` into `object`, at any depth; its values take precedence.
pub fn merge(object: &mut Value, more: Value) {
    match (object, more) {
        (Value::Object(object), Value::Object(more)) => {
            for (name, value) in more {
                merge(object.entry(name).or_insert(Value::Null), value);
            }
        }
        (object, more) => *object = more,
    }
}
