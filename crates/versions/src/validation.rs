//! Checks a spec against the parts of its schema that a reconcile relies on: types, required fields, choices,
//! and bounds of numbers. Errors have the form of the API server's, which checks all rules. Pure and total:
//! takes any JSON.

mod field_error;
mod service_name;

use serde_json::Value;

pub use field_error::{ErrorReason, FieldError};
use quartet_http::bounded::shortened;
pub(super) use service_name::SERVICE_NAME_MESSAGE;
pub use service_name::{ServiceName, service_name_error};

/// Largest number of errors of one spec.
pub const MOST_ERRORS: usize = 64;

/// What is wrong with `spec`. Null stands for an absent spec.
pub(super) fn spec_errors(schema: &Value, spec: &Value) -> Vec<FieldError> {
    let mut found = Vec::new();
    match spec {
        Value::Null => found.push(FieldError::required("spec")),
        _ => check("spec", schema, spec, &mut found),
    }
    found.truncate(MOST_ERRORS);
    found
}

fn check(path: &str, schema: &Value, value: &Value, found: &mut Vec<FieldError>) {
    if found.len() >= MOST_ERRORS {
        return;
    }
    let expected = match schema["x-kubernetes-int-or-string"] == true {
        true => "integer,string",
        false => schema["type"].as_str().unwrap_or_default(),
    };
    match (expected, value) {
        ("", _) | ("boolean", Value::Bool(_)) => {}
        ("integer", Value::Number(number)) if !number.is_f64() => {
            check_bounds(path, schema, value, found);
        }
        ("integer,string", Value::Number(number)) if number.is_u64() => {}
        ("string" | "integer,string", Value::String(_)) => {
            let choices = schema["enum"].as_array();
            if let Some(choices) = choices.filter(|choices| !choices.contains(value)) {
                let all: Vec<String> = choices.iter().map(Value::to_string).collect();
                let detail = format!("must be one of {}", all.join(", "));
                found.push(FieldError::invalid(path, value.clone(), detail));
            }
        }
        ("array", Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                check(&format!("{path}[{index}]"), &schema["items"], item, found);
            }
        }
        ("object", Value::Object(_)) => check_object(path, schema, value, found),
        _ => {
            // As in kube-openapi, the value that the error shows is the actual type.
            let actual = type_name(value);
            let detail = format!("{path} in body must be of type {expected}: {actual:?}");
            found.push(FieldError::invalid(path, actual.into(), detail));
        }
    }
}

fn check_bounds(path: &str, schema: &Value, value: &Value, found: &mut Vec<FieldError>) {
    // Bounds are within 2^53, so that the comparison is exact.
    let number = value.as_f64();
    let (min, max) = (schema["minimum"].as_f64(), schema["maximum"].as_f64());
    let detail = match (min, max) {
        (Some(min), _) if number < Some(min) => format!("must be greater than or equal to {min}"),
        (_, Some(max)) if number > Some(max) => format!("must be less than or equal to {max}"),
        _ => return,
    };
    found.push(FieldError::invalid(path, value.clone(), detail));
}

fn check_object(path: &str, schema: &Value, object: &Value, found: &mut Vec<FieldError>) {
    let required = schema["required"].as_array();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        // A null counts as not set; the API server drops it, too.
        match object.get(name).filter(|value| !value.is_null()) {
            Some(value) => check(&path, field, value, found),
            None if required.is_some_and(|required| required.iter().any(|it| it == name)) => {
                found.push(FieldError::required(&path));
            }
            None => {}
        }
    }
    if let Some(values) = schema.get("additionalProperties") {
        for (key, value) in object.as_object().into_iter().flatten() {
            check(&format!("{path}.{}", shortened(key)), values, value, found);
        }
    }
}

/// The name that kube-openapi uses for the type of a JSON value.
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
