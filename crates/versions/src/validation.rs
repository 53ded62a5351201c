//! Checks a spec against the rules of its schema. Errors have the form of the API server's. Pure
//! and total: takes any JSON.

mod field_error;
mod service_name;

use std::sync::LazyLock;

use serde_json::{Map, Number, Value, json};

use field_error::Path;
pub use field_error::{ErrorReason, FieldError};
pub(super) use service_name::SERVICE_NAME_MESSAGE;
pub use service_name::{ServiceName, service_name_error};

use super::limits::{INT64_MAX, QUALIFIED_NAME_MAX, allows};
use super::quantity;
use super::rules::{
    KEYS_ARE_NAMES, NODE_PORT_HAS_ITS_TYPE, NODE_PORT_MESSAGE, node_port_has_its_type,
};
use quartet_http::bounded::{MOST_QUOTED, beginning_of, shortened};

/// The rules of `schema` that an update to `new` violates, or a creation, where there is no `old`. Null
/// stands for an absent spec.
///
/// An unchanged value passes even if a newer rule forbids it, since such an object could otherwise
/// never be updated. This is the ratcheting validation of the API server (KEP-4008), including its
/// way to match items of lists. What the schema says in a way that this module does not know, only
/// the API server checks; none of our specs has such a rule.
pub fn update_errors(schema: &Value, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Errors::default();
    if new.is_null() && old != Some(new) {
        errors.add(&Path::Spec, ErrorReason::Required, None, String::new());
    } else {
        errors.check(&Path::Spec, schema, new, old);
    }
    errors.found
}

/// The errors found so far.
#[derive(Default)]
struct Errors {
    found: Vec<FieldError>,
}

/// What is checked here of a key for which [`KEYS_ARE_NAMES`] holds.
static KEY: LazyLock<Value> =
    LazyLock::new(|| json!({"minLength": 1, "maxLength": QUALIFIED_NAME_MAX}));

/// Largest number of errors in one response.
pub const MOST_ERRORS: usize = 64;

impl Errors {
    fn add(&mut self, path: &Path<'_>, reason: ErrorReason, value: Option<Value>, detail: String) {
        if self.found.len() < MOST_ERRORS {
            self.found.push(FieldError {
                field: shortened(&path.to_string()).into_owned(),
                reason,
                value: value.map(quoted),
                detail,
            });
        }
    }

    /// Adds an error that shows the invalid value.
    fn invalid(&mut self, path: &Path<'_>, value: Value, detail: String) {
        self.add(path, ErrorReason::Invalid, Some(value), detail);
    }

    /// `old` is the previous value, if there was one.
    fn check(&mut self, path: &Path<'_>, schema: &Value, value: &Value, old: Option<&Value>) {
        if old == Some(value) {
            return;
        }
        if schema["x-kubernetes-int-or-string"] == true {
            return self.check_quantity(path, value);
        }
        let Some(expected) = schema["type"].as_str() else {
            return;
        };
        match (expected, value) {
            ("number", _) | ("boolean", Value::Bool(_)) => {}
            ("integer", Value::Number(number)) if !number.is_f64() => {
                self.check_integer(path, schema, number);
            }
            ("string", Value::String(text)) => match schema["enum"].as_array() {
                Some(choices) => self.check_choice(path, choices, value),
                None => self.check_text(path, schema, text),
            },
            ("array", Value::Array(list)) => {
                self.check_list(path, schema, list, old.and_then(Value::as_array));
            }
            ("object", Value::Object(object)) => {
                let old = old.and_then(Value::as_object);
                match schema.get("additionalProperties") {
                    Some(_) => self.check_map(path, schema, object, old),
                    None => self.check_object(path, schema, object, old),
                }
            }
            _ => self.wrong_type(path, expected, value),
        }
    }

    /// As in kube-openapi, the value that the error shows is the actual type.
    fn wrong_type(&mut self, path: &Path<'_>, expected: &str, value: &Value) {
        let actual = type_name(value);
        let detail = format!("{path} in body must be of type {expected}: {actual:?}");
        self.add(path, ErrorReason::TypeInvalid, Some(actual.into()), detail);
    }

    fn check_integer(&mut self, path: &Path<'_>, schema: &Value, number: &Number) {
        // Bounds are within 2^53, so that the comparison is exact.
        let value = number.as_f64().unwrap_or_default();
        let min = schema["minimum"].as_f64().unwrap_or(f64::MIN);
        let max = schema["maximum"].as_f64().unwrap_or(f64::MAX);
        if value < min {
            let detail = format!("must be greater than or equal to {min}");
            self.invalid(path, number.clone().into(), detail);
        } else if value > max {
            let detail = format!("must be less than or equal to {max}");
            self.invalid(path, number.clone().into(), detail);
        }
    }

    fn check_choice(&mut self, path: &Path<'_>, choices: &[Value], value: &Value) {
        if !choices.contains(value) {
            let all: Vec<String> = choices.iter().map(Value::to_string).collect();
            let detail = format!("supported values: {}", all.join(", "));
            self.add(path, ErrorReason::NotSupported, Some(value.clone()), detail);
        }
    }

    fn check_text(&mut self, path: &Path<'_>, schema: &Value, text: &str) {
        let max = schema["maxLength"].as_u64().unwrap_or(u64::MAX);
        let min = schema["minLength"].as_u64().unwrap_or(0);
        let pattern = schema["pattern"].as_str().unwrap_or_default();
        let length = text.chars().count() as u64;
        if length > max {
            let detail = format!("may not be more than {max} bytes");
            self.add(path, ErrorReason::TooLong, None, detail);
        } else if length < min {
            let detail = format!("must be at least {min} chars long");
            self.invalid(path, shortened(text).into(), detail);
        } else if !text.chars().all(|character| allows(pattern, character)) {
            let detail = format!("must match '{pattern}'");
            self.invalid(path, shortened(text).into(), detail);
        }
    }

    fn check_quantity(&mut self, path: &Path<'_>, value: &Value) {
        let is_valid = match value {
            Value::String(text) => text.len() <= quantity::MAX_LENGTH && quantity::is_valid(text),
            Value::Number(number) if !number.is_f64() => {
                let number = number.as_i64();
                number.is_some_and(|number| (0..=INT64_MAX).contains(&number))
            }
            _ => return self.wrong_type(path, "integer,string", value),
        };
        if !is_valid {
            let detail = "must be a quantity that is not negative, such as 100m, 0.5 or 64Mi";
            self.invalid(path, value.clone(), detail.to_owned());
        }
    }

    fn check_list(
        &mut self,
        path: &Path<'_>,
        schema: &Value,
        list: &[Value],
        old: Option<&Vec<Value>>,
    ) {
        if self.has_too_many(path, &schema["maxItems"], list.len()) {
            return;
        }
        let identity = |item: &Value| -> Option<Vec<Value>> {
            match schema["x-kubernetes-list-type"].as_str()? {
                "set" => Some(vec![item.clone()]),
                "map" => {
                    let keys = schema["x-kubernetes-list-map-keys"].as_array()?.iter();
                    keys.map(|key| item.get(key.as_str()?).cloned()).collect()
                }
                _ => None,
            }
        };
        for (index, item) in list.iter().enumerate() {
            let path = Path::Item(path, index);
            let own = identity(item);
            let is_same = |other: &&Value| own.is_some() && identity(other) == own;
            let old = old.and_then(|old| old.iter().find(is_same));
            self.check(&path, &schema["items"], item, old);
            if list.iter().take(index).any(|earlier| is_same(&earlier)) {
                let item = Some(item.clone());
                self.add(&path, ErrorReason::Duplicate, item, String::new());
            }
        }
    }

    fn check_map(
        &mut self,
        path: &Path<'_>,
        schema: &Value,
        map: &Map<String, Value>,
        old: Option<&Map<String, Value>>,
    ) {
        if self.has_too_many(path, &schema["maxProperties"], map.len()) {
            return;
        }
        let has_names = has_rule(schema, KEYS_ARE_NAMES);
        for (key, value) in map {
            let path = Path::Field(path, key);
            let old = old.and_then(|old| old.get(key));
            if has_names && old.is_none() {
                self.check_text(&path, &KEY, key);
            }
            self.check(&path, &schema["additionalProperties"], value, old);
        }
    }

    fn check_object(
        &mut self,
        path: &Path<'_>,
        schema: &Value,
        object: &Map<String, Value>,
        old: Option<&Map<String, Value>>,
    ) {
        let before = self.found.len();
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            // A null counts as not set; the API server drops it, too.
            let is_set = |value: &&Value| !value.is_null();
            let previous = old.and_then(|old| old.get(name)).filter(is_set);
            let path = Path::Field(path, name);
            if let Some(value) = object.get(name).filter(is_set) {
                self.check(&path, field, value, previous);
            } else if is_required(schema, name) && (old.is_none() || previous.is_some()) {
                self.add(&path, ErrorReason::Required, None, String::new());
            }
        }
        // Rules over several fields are checked only if each field is valid.
        if self.found.len() > before || !has_rule(schema, NODE_PORT_HAS_ITS_TYPE) {
            return;
        }
        let port = object.get("nodePort");
        let was_violated =
            |old: &Map<String, Value>| !node_port_has_its_type(old) && old.get("nodePort") == port;
        if !node_port_has_its_type(object) && !old.is_some_and(was_violated) {
            let (path, detail) = (Path::Field(path, "nodePort"), NODE_PORT_MESSAGE.to_owned());
            self.add(&path, ErrorReason::Invalid, port.cloned(), detail);
        }
    }

    fn has_too_many(&mut self, path: &Path<'_>, max: &Value, actual: usize) -> bool {
        let max = max.as_u64().unwrap_or(u64::MAX);
        let is_too_many = actual as u64 > max;
        if is_too_many {
            let detail = format!("must have at most {max} items");
            self.add(path, ErrorReason::TooMany, Some(actual.into()), detail);
        }
        is_too_many
    }
}

fn is_required(schema: &Value, name: &str) -> bool {
    let required = schema["required"].as_array();
    required.is_some_and(|required| required.iter().any(|it| it == name))
}

/// Reports whether the schema has this CEL expression.
fn has_rule(schema: &Value, cel: &str) -> bool {
    let rules = schema["x-kubernetes-validations"].as_array();
    rules.is_some_and(|rules| rules.iter().any(|rule| rule["rule"] == cel))
}

/// The part of a value that an error quotes, so that the error is not as long as the review.
fn quoted(value: Value) -> Value {
    match value {
        Value::String(text) => Value::from(shortened(&text)),
        Value::Array(_) | Value::Object(_) => {
            let text = beginning_of(&value, MOST_QUOTED);
            // A value that is not cut is quoted as JSON.
            if text.ends_with('…') {
                text.into()
            } else {
                value
            }
        }
        value => value,
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
