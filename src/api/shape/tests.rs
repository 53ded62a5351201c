//! Allowed characters, and the generated values for the property tests of validation and
//! conversion.

mod within;

use proptest::prelude::*;
use regex::Regex;

use serde_json::json;

use super::{Characters, Shape};
use crate::api::limits::{LABEL, NAME, VISIBLE};
use crate::api::schema::of_schema;
use crate::api::shape;
use crate::operators::tests::kinds;

pub(crate) use within::within;

proptest! {
    #[test]
    fn allowed_characters_are_those_that_the_pattern_in_the_schema_matches(
        text in "[ -~é\n]{0,4}", pattern in prop::sample::select(&[VISIBLE, LABEL, NAME][..])
    ) {
        let set = Characters::of_pattern(pattern);
        prop_assert_eq!(set.pattern(), Some(pattern));
        let pattern = Regex::new(pattern).unwrap();
        prop_assert_eq!(set.allow(&text), pattern.is_match(&text), "{:?}", text);
    }
}

/// Reports whether the manager leaves a part of `shape` to the API server.
fn has_unchecked(shape: &Shape) -> bool {
    match shape {
        Shape::Unchecked => true,
        Shape::List { items, .. } => has_unchecked(items),
        Shape::Map { values, .. } => has_unchecked(values),
        Shape::Object { fields, .. } => fields.iter().any(|field| has_unchecked(&field.shape)),
        _ => false,
    }
}

#[test]
fn the_manager_checks_every_field_of_every_version() {
    for kind in kinds() {
        for version in [&kind.spoke, &kind.hub] {
            assert!(!has_unchecked(&version.spec), "{kind:?} {version:?}");
        }
    }
}

#[test]
fn what_a_shape_cannot_say_is_left_to_the_api_server() {
    for schema in [
        json!({}),
        json!({"type": "number", "minimum": 0, "maximum": 1}),
        json!({"type": "integer"}),
        json!({"type": "string"}),
        json!({"type": "string", "maxLength": 100_000}),
        json!({"type": "string", "enum": [1]}),
        json!({"type": "array", "items": {"type": "boolean"}}),
        json!({"type": "object", "additionalProperties": {"type": "boolean"}, "maxProperties": 1}),
    ] {
        let schema = serde_json::from_value(schema).unwrap();
        assert!(matches!(of_schema(&schema), Shape::Unchecked), "{schema:?}");
    }
    for pattern in [
        "^a$",
        "^[^a]*$",
        "^[[:alpha:]]*$",
        "^[a-]*$",
        r"^[\w]*$",
        "^[é]*$",
    ] {
        let characters = Characters::of_pattern(pattern);
        assert!(matches!(characters, Characters::Matching), "{pattern}");
    }
}
