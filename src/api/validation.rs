//! Checks a spec against the rules of its schema. Errors have the form of the API server's. Pure
//! and total: takes any JSON. Depends on [`super::shape`] only.

mod field_error;
mod service_name;

use serde_json::{Map, Value};

use field_error::Path;
pub use field_error::{ErrorReason, FieldError};
pub(super) use service_name::SERVICE_NAME_MESSAGE;
pub use service_name::{ServiceName, service_name_error};

use super::quantity;
use super::shape::{Characters, Field, INT64_MAX, Merge, Rule, Shape};
use crate::bounded::{MOST_QUOTED, beginning_of, shortened};

/// Every rule that `spec` violates. Null stands for an absent spec.
pub fn spec_errors(shape: &Shape, spec: &Value) -> Vec<FieldError> {
    errors_since(shape, spec, None)
}

/// The rules that an update from `old` to `new` violates. An unchanged value passes even if a
/// newer rule forbids it, since such an object could otherwise never be updated. This is the
/// ratcheting validation of the API server (KEP-4008), including its way to match items of lists.
pub fn update_errors(shape: &Shape, new: &Value, old: &Value) -> Vec<FieldError> {
    errors_since(shape, new, Some(old))
}

fn errors_since(shape: &Shape, spec: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Errors::default();
    if old == Some(spec) {
        return errors.found;
    }
    let path = Path::Spec;
    if spec.is_null() {
        errors.add(&path, ErrorReason::Required, None, String::new());
    } else {
        errors.check(&path, shape, spec, old);
    }
    errors.found
}

/// The errors found so far.
#[derive(Default)]
struct Errors {
    found: Vec<FieldError>,
}

/// Largest number of errors in one response.
const MOST_ERRORS: usize = 64;

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

    /// `old` is the previous value, if there was one.
    fn check(&mut self, path: &Path<'_>, shape: &Shape, value: &Value, old: Option<&Value>) {
        if old == Some(value) {
            return;
        }
        match shape {
            Shape::Boolean if value.is_boolean() => {}
            Shape::Boolean => self.wrong_type(path, "boolean", value),
            Shape::Integer { min, max } => self.check_integer(path, *min, *max, value),
            Shape::Text {
                min,
                max,
                characters,
            } => match value.as_str() {
                Some(text) => self.check_text(path, *min, *max, characters, text),
                None => self.wrong_type(path, "string", value),
            },
            Shape::Time if value.is_string() => {}
            Shape::Time => self.wrong_type(path, "string", value),
            Shape::Choice(choices) => match value.as_str() {
                Some(text) if choices.iter().any(|choice| choice == text) => {}
                Some(_) => {
                    let supported: Vec<String> =
                        choices.iter().map(|choice| format!("{choice:?}")).collect();
                    let detail = format!("supported values: {}", supported.join(", "));
                    self.add(path, ErrorReason::NotSupported, Some(value.clone()), detail);
                }
                None => self.wrong_type(path, "string", value),
            },
            Shape::Quantity => self.check_quantity(path, value),
            Shape::List { items, max, merge } => match value.as_array() {
                Some(list) => {
                    let old = old.and_then(Value::as_array);
                    self.check_list(path, items, *max, merge, list, old);
                }
                None => self.wrong_type(path, "array", value),
            },
            Shape::Map {
                max,
                key_max,
                key_characters,
                values,
            } => match value.as_object() {
                Some(map) => {
                    let old = old.and_then(Value::as_object);
                    self.check_map(path, *max, *key_max, key_characters, values, map, old);
                }
                None => self.wrong_type(path, "object", value),
            },
            Shape::Object { fields, rules } => match value.as_object() {
                Some(object) => {
                    let old = old.and_then(Value::as_object);
                    self.check_object(path, fields, rules, object, old);
                }
                None => self.wrong_type(path, "object", value),
            },
            Shape::Moved { message } => {
                self.add(path, ErrorReason::Forbidden, None, message.clone());
            }
            Shape::Unchecked => {}
        }
    }

    /// As in kube-openapi, the value that the error shows is the actual type.
    fn wrong_type(&mut self, path: &Path<'_>, expected: &str, value: &Value) {
        let actual = type_name(value);
        let detail = format!("{path} in body must be of type {expected}: {actual:?}");
        self.add(
            path,
            ErrorReason::TypeInvalid,
            Some(Value::from(actual)),
            detail,
        );
    }

    fn check_integer(&mut self, path: &Path<'_>, min: i64, max: i64, value: &Value) {
        let number = match value {
            Value::Number(number) => match number.as_i64() {
                Some(number) => number,
                // A fraction, or larger than any bound.
                None if number.is_u64() => i64::MAX,
                None => return self.wrong_type(path, "integer", value),
            },
            _ => return self.wrong_type(path, "integer", value),
        };
        if number < min {
            let detail = format!("must be greater than or equal to {min}");
            self.add(path, ErrorReason::Invalid, Some(value.clone()), detail);
        } else if number > max {
            let detail = format!("must be less than or equal to {max}");
            self.add(path, ErrorReason::Invalid, Some(value.clone()), detail);
        }
    }

    fn check_text(
        &mut self,
        path: &Path<'_>,
        min: u16,
        max: u16,
        characters: &Characters,
        text: &str,
    ) {
        let length = text.chars().count();
        if length > usize::from(max) {
            self.add(
                path,
                ErrorReason::TooLong,
                None,
                format!("may not be more than {max} bytes"),
            );
        } else if length < usize::from(min) {
            let detail = format!("must be at least {min} chars long");
            self.add(
                path,
                ErrorReason::Invalid,
                Some(Value::from(shortened(text))),
                detail,
            );
        } else if !characters.allow(text) {
            let detail = format!("must match '{}'", characters.pattern().unwrap_or_default());
            self.add(
                path,
                ErrorReason::Invalid,
                Some(Value::from(shortened(text))),
                detail,
            );
        }
    }

    fn check_quantity(&mut self, path: &Path<'_>, value: &Value) {
        let valid = match value {
            Value::String(text) => text.len() <= quantity::MAX_LENGTH && quantity::is_valid(text),
            Value::Number(number) if number.is_f64() => {
                return self.wrong_type(path, "integer,string", value);
            }
            Value::Number(number) => number
                .as_i64()
                .is_some_and(|number| (0..=INT64_MAX).contains(&number)),
            _ => return self.wrong_type(path, "integer,string", value),
        };
        if !valid {
            let detail =
                "must be a quantity that is not negative, such as 100m, 0.5 or 64Mi".to_owned();
            self.add(path, ErrorReason::Invalid, Some(value.clone()), detail);
        }
    }

    fn check_list(
        &mut self,
        path: &Path<'_>,
        items: &Shape,
        max: u16,
        merge: &Merge,
        list: &[Value],
        old: Option<&Vec<Value>>,
    ) {
        if list.len() > usize::from(max) {
            return self.too_many(path, list.len(), max);
        }
        for (index, item) in list.iter().enumerate() {
            let path = Path::Item(path, index);
            let identity = |item: &Value| -> Option<Vec<Value>> {
                match merge {
                    Merge::Atomic => None,
                    Merge::Set => Some(vec![item.clone()]),
                    Merge::Map(keys) => keys.iter().map(|key| item.get(key).cloned()).collect(),
                }
            };
            let own = identity(item);
            let old = old
                .filter(|_| own.is_some())
                .and_then(|old| old.iter().find(|old| identity(old) == own));
            self.check(&path, items, item, old);
            if own.is_some()
                && list
                    .iter()
                    .take(index)
                    .any(|earlier| identity(earlier) == own)
            {
                self.add(
                    &path,
                    ErrorReason::Duplicate,
                    Some(item.clone()),
                    String::new(),
                );
            }
        }
    }

    #[allow(clippy::too_many_arguments, reason = "the fields of the shape, each by name")]
    fn check_map(
        &mut self,
        path: &Path<'_>,
        max: u16,
        key_max: u16,
        key_characters: &Characters,
        values: &Shape,
        map: &Map<String, Value>,
        old: Option<&Map<String, Value>>,
    ) {
        if map.len() > usize::from(max) {
            return self.too_many(path, map.len(), max);
        }
        for (key, value) in map {
            let path = Path::Field(path, key);
            let old = old.and_then(|old| old.get(key));
            if old.is_none() {
                self.check_text(&path, 1, key_max, key_characters, key);
            }
            self.check(&path, values, value, old);
        }
    }

    fn check_object(
        &mut self,
        path: &Path<'_>,
        fields: &[Field],
        rules: &[&Rule],
        object: &Map<String, Value>,
        old: Option<&Map<String, Value>>,
    ) {
        let before = self.found.len();
        for field in fields {
            let old = old.map(|old| old.get(&field.name));
            self.check_field(path, field, object.get(&field.name), old);
        }
        if self.found.len() > before {
            // Rules over several fields are checked only if each field is valid.
            return;
        }
        for rule in rules.iter().filter(|rule| !(rule.kept)(object)) {
            let was_violated = |old: &Map<_, _>| {
                !(rule.kept)(old) && old.get(rule.field) == object.get(rule.field)
            };
            if old.is_some_and(was_violated) {
                continue;
            }
            let value = object.get(rule.field).cloned();
            self.add(
                &Path::Field(path, rule.field),
                ErrorReason::Invalid,
                value,
                rule.message.to_owned(),
            );
        }
    }

    /// `old` is the previous value of the field; the outer `None` means that there was no object.
    fn check_field(
        &mut self,
        parent: &Path<'_>,
        field: &Field,
        value: Option<&Value>,
        old: Option<Option<&Value>>,
    ) {
        let is_set = |value: &&Value| !value.is_null();
        let was_missing = old.is_some_and(|old| old.filter(is_set).is_none());
        let path = Path::Field(parent, &field.name);
        match value {
            // A null counts as not set; the API server drops it, too.
            None | Some(Value::Null) if field.required && !was_missing => {
                self.add(&path, ErrorReason::Required, None, String::new());
            }
            None | Some(Value::Null) => {}
            Some(value) => {
                let before = self.found.len();
                let old = old.flatten().filter(is_set);
                self.check(&path, &field.shape, value, old);
                let broken = field.transition.zip(old);
                let broken = broken.filter(|(rule, old)| !rule.allows(old, value));
                if let Some((rule, _)) = broken.filter(|_| self.found.len() == before) {
                    let (quoted, why) = (Some(value.clone()), rule.message().to_owned());
                    self.add(&path, ErrorReason::Invalid, quoted, why);
                }
            }
        }
    }

    fn too_many(&mut self, path: &Path<'_>, actual: usize, max: u16) {
        let value = Some(Value::from(actual));
        self.add(
            path,
            ErrorReason::TooMany,
            value,
            format!("must have at most {max} items"),
        );
    }
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

#[cfg(test)]
mod tests;
