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
use super::rules::Rule;
use super::shape::{Characters, Field, INT64_MAX, Merge, Shape};
use crate::bounded::{MOST_QUOTED, beginning_of, shortened};

/// Every rule that `spec` violates. Null stands for an absent spec.
pub fn spec_errors(shape: &Shape, spec: &Value) -> Vec<FieldError> {
    errors_since(shape, spec, None)
}

/// The rules that an update to `new` violates, or a creation, where there is no `old`. An unchanged
/// value passes even if a newer rule forbids it, since such an object could otherwise never be
/// updated. This is the ratcheting validation of the API server (KEP-4008), including its way to
/// match items of lists. `old` is called only if it can make a difference.
pub fn update_errors<'o>(
    shape: &Shape,
    new: &Value,
    old: impl FnOnce() -> Option<&'o Value>,
) -> Vec<FieldError> {
    let errors = spec_errors(shape, new);
    if errors.is_empty() && !shape.has_transitions() {
        return errors;
    }
    old().map_or(errors, |old| errors_since(shape, new, Some(old)))
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

    /// Adds an error that shows the invalid value.
    fn invalid(&mut self, path: &Path<'_>, value: Value, detail: String) {
        self.add(path, ErrorReason::Invalid, Some(value), detail);
    }

    /// `old` is the previous value, if there was one.
    fn check(&mut self, path: &Path<'_>, shape: &Shape, value: &Value, old: Option<&Value>) {
        if old == Some(value) {
            return;
        }
        match (shape, value) {
            (Shape::Unchecked, _)
            | (Shape::Boolean, Value::Bool(_))
            | (Shape::Time, Value::String(_)) => {}
            (Shape::Integer { min, max }, Value::Number(number)) if !number.is_f64() => {
                // An unsigned number that does not fit is larger than any bound.
                let number = number.as_i64().unwrap_or(i64::MAX);
                if number < *min {
                    let detail = format!("must be greater than or equal to {min}");
                    self.invalid(path, value.clone(), detail);
                } else if number > *max {
                    let detail = format!("must be less than or equal to {max}");
                    self.invalid(path, value.clone(), detail);
                }
            }
            (
                Shape::Text {
                    min,
                    max,
                    characters,
                },
                Value::String(text),
            ) => self.check_text(path, (*min, *max), characters, text),
            (Shape::Choice(choices), Value::String(text)) => {
                if !choices.contains(text) {
                    let all: Vec<String> = choices.iter().map(|it| format!("{it:?}")).collect();
                    let detail = format!("supported values: {}", all.join(", "));
                    self.add(path, ErrorReason::NotSupported, Some(value.clone()), detail);
                }
            }
            (Shape::Quantity, Value::String(text)) => {
                let is_valid = text.len() <= quantity::MAX_LENGTH && quantity::is_valid(text);
                self.check_quantity(path, is_valid, value);
            }
            (Shape::Quantity, Value::Number(number)) if !number.is_f64() => {
                let number = number.as_i64();
                let is_valid = number.is_some_and(|number| (0..=INT64_MAX).contains(&number));
                self.check_quantity(path, is_valid, value);
            }
            (Shape::List { items, max, merge }, Value::Array(list)) => {
                let old = old.and_then(Value::as_array);
                self.check_list(path, (items, merge), *max, list, old);
            }
            (
                Shape::Map {
                    max,
                    key_max,
                    key_characters,
                    values,
                },
                Value::Object(map),
            ) => {
                if map.len() > usize::from(*max) {
                    return self.too_many(path, map.len(), *max);
                }
                let old = old.and_then(Value::as_object);
                for (key, value) in map {
                    let path = Path::Field(path, key);
                    let old = old.and_then(|old| old.get(key));
                    if old.is_none() {
                        self.check_text(&path, (1, *key_max), key_characters, key);
                    }
                    self.check(&path, values, value, old);
                }
            }
            (Shape::Object { fields, rules }, Value::Object(object)) => {
                let old = old.and_then(Value::as_object);
                self.check_object(path, fields, rules, object, old);
            }
            (Shape::Boolean, _) => self.wrong_type(path, "boolean", value),
            (Shape::Integer { .. }, _) => self.wrong_type(path, "integer", value),
            (Shape::Text { .. } | Shape::Time | Shape::Choice(_), _) => {
                self.wrong_type(path, "string", value);
            }
            (Shape::Quantity, _) => self.wrong_type(path, "integer,string", value),
            (Shape::List { .. }, _) => self.wrong_type(path, "array", value),
            (Shape::Map { .. } | Shape::Object { .. }, _) => {
                self.wrong_type(path, "object", value);
            }
        }
    }

    /// As in kube-openapi, the value that the error shows is the actual type.
    fn wrong_type(&mut self, path: &Path<'_>, expected: &str, value: &Value) {
        let actual = type_name(value);
        let detail = format!("{path} in body must be of type {expected}: {actual:?}");
        self.add(path, ErrorReason::TypeInvalid, Some(actual.into()), detail);
    }

    fn check_text(
        &mut self,
        path: &Path<'_>,
        (min, max): (u16, u16),
        characters: &Characters,
        text: &str,
    ) {
        let length = text.chars().count();
        if length > usize::from(max) {
            let detail = format!("may not be more than {max} bytes");
            self.add(path, ErrorReason::TooLong, None, detail);
        } else if length < usize::from(min) {
            let detail = format!("must be at least {min} chars long");
            self.invalid(path, shortened(text).into(), detail);
        } else if !characters.allow(text) {
            let detail = format!("must match '{}'", characters.pattern().unwrap_or_default());
            self.invalid(path, shortened(text).into(), detail);
        }
    }

    fn check_quantity(&mut self, path: &Path<'_>, is_valid: bool, value: &Value) {
        if !is_valid {
            let detail = "must be a quantity that is not negative, such as 100m, 0.5 or 64Mi";
            self.invalid(path, value.clone(), detail.to_owned());
        }
    }

    fn check_list(
        &mut self,
        path: &Path<'_>,
        (items, merge): (&Shape, &Merge),
        max: u16,
        list: &[Value],
        old: Option<&Vec<Value>>,
    ) {
        if list.len() > usize::from(max) {
            return self.too_many(path, list.len(), max);
        }
        let identity = |item: &Value| -> Option<Vec<Value>> {
            match merge {
                Merge::Atomic => None,
                Merge::Set => Some(vec![item.clone()]),
                Merge::Map(keys) => keys.iter().map(|key| item.get(key).cloned()).collect(),
            }
        };
        for (index, item) in list.iter().enumerate() {
            let path = Path::Item(path, index);
            let own = identity(item);
            let is_same = |other: &&Value| own.is_some() && identity(other) == own;
            self.check(
                &path,
                items,
                item,
                old.and_then(|old| old.iter().find(is_same)),
            );
            if list.iter().take(index).any(|earlier| is_same(&earlier)) {
                let item = Some(item.clone());
                self.add(&path, ErrorReason::Duplicate, item, String::new());
            }
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
        for rule in rules.iter().filter(|rule| !(rule.holds)(object)) {
            let value = object.get(rule.field);
            let was_violated = |old: &Map<_, _>| !(rule.holds)(old) && old.get(rule.field) == value;
            if !old.is_some_and(was_violated) {
                let (path, detail) = (Path::Field(path, rule.field), rule.message.to_owned());
                self.add(&path, ErrorReason::Invalid, value.cloned(), detail);
            }
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
        // A null counts as not set; the API server drops it, too.
        let Some(value) = value.filter(is_set) else {
            if field.required && !was_missing {
                self.add(&path, ErrorReason::Required, None, String::new());
            }
            return;
        };
        let before = self.found.len();
        let old = old.flatten().filter(is_set);
        self.check(&path, &field.shape, value, old);
        let violated = field.transition.zip(old);
        let violated = violated.filter(|(rule, old)| !rule.allows(old, value));
        if let Some((rule, _)) = violated.filter(|_| self.found.len() == before) {
            self.invalid(&path, value.clone(), rule.message().to_owned());
        }
    }

    fn too_many(&mut self, path: &Path<'_>, actual: usize, max: u16) {
        let detail = format!("must have at most {max} items");
        self.add(path, ErrorReason::TooMany, Some(actual.into()), detail);
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
