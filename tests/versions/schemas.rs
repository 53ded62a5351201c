//! What a schema of a CRD says of an object, and schemas that say less. Reads and writes JSON only.

use serde_json::Value;

/// Takes every lower bound out of a schema.
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
