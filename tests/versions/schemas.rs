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

/// Adds the defaults of a schema, as the API server does: of each object that is there.
pub(crate) fn add_defaults(value: &mut Value, schema: &Value) {
    let (Some(object), Some(properties)) =
        (value.as_object_mut(), schema["properties"].as_object())
    else {
        return;
    };
    for (name, schema) in properties {
        if let Some(default) = schema.get("default") {
            object.entry(name).or_insert_with(|| default.clone());
        }
        if let Some(value) = object.get_mut(name) {
            add_defaults(value, schema);
        }
    }
}
