//! Changes of CRD schemas for tests. Reads and writes JSON only.

use serde_json::Value;

/// Removes every lower bound from a schema.
pub(crate) fn without_minimum(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.remove("minimum");
            fields.values_mut().for_each(without_minimum);
        }
        Value::Array(items) => items.iter_mut().for_each(without_minimum),
        _ => {}
    }
}
