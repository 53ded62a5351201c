//! What the manager checks of a schema, and what it leaves to the API server.

use proptest::prelude::*;
use regex::Regex;
use serde_json::{Value, json};

use crate::tests::workload::kinds;
use quartet_versions::limits::{QUALIFIED_NAME_MAX, VISIBLE, allows};
use quartet_versions::rules::{KEYS_ARE_NAMES, KEYS_MESSAGE};
use quartet_versions::validation::update_errors;

proptest! {
    #[test]
    fn allowed_characters_are_those_that_the_pattern_in_the_schema_matches(
        text in "[ -~é\n]{0,4}"
    ) {
        let is_allowed = text.chars().all(|character| allows(VISIBLE, character));
        let pattern = Regex::new(VISIBLE).unwrap();
        prop_assert_eq!(is_allowed, pattern.is_match(&text), "{:?}", text);
    }
}

#[test]
fn the_rule_of_keys_says_the_bounds_that_the_manager_checks() {
    for text in [KEYS_ARE_NAMES, KEYS_MESSAGE] {
        assert!(text.contains(&QUALIFIED_NAME_MAX.to_string()), "{text}");
    }
}

/// Panics if the manager leaves a part of `schema` to the API server.
fn assert_checked(path: &str, schema: &Value) {
    if schema["x-kubernetes-int-or-string"] == true {
        return;
    }
    let has = |bound: &str| assert!(!schema[bound].is_null(), "{path}: no {bound}");
    match schema["type"].as_str() {
        Some("boolean") => {}
        Some("integer") => {
            has("minimum");
            has("maximum");
        }
        Some("string") if schema["enum"].is_array() => {}
        Some("string") => {
            has("maxLength");
        }
        Some("array") => {
            has("maxItems");
            assert_checked(&format!("{path}[]"), &schema["items"]);
        }
        Some("object") if schema["additionalProperties"].is_null() => {
            has("properties");
            for (name, field) in schema["properties"].as_object().into_iter().flatten() {
                assert_checked(&format!("{path}.{name}"), field);
            }
        }
        Some("object") => {
            has("maxProperties");
            has("x-kubernetes-validations");
            assert_checked(&format!("{path}{{}}"), &schema["additionalProperties"]);
        }
        other => panic!("{path}: {other:?}"),
    }
}

#[test]
fn the_manager_checks_every_field_of_every_version() {
    for kind in kinds() {
        for version in [&kind.spoke, &kind.hub] {
            assert_checked(&format!("{kind:?} {version:?}"), &version.spec);
        }
    }
}

#[test]
fn what_the_manager_does_not_know_is_left_to_the_api_server() {
    let (text, key) = (json!("é"), json!({"é": true}));
    for (schema, value) in [
        (json!({}), json!(1.5)),
        (
            json!({"type": "number", "minimum": 0, "maximum": 1}),
            json!(1.5),
        ),
        (json!({"type": "integer"}), json!(-1)),
        (json!({"type": "string"}), text.clone()),
        (
            json!({"type": "string", "maxLength": 1, "pattern": "^a$"}),
            text.clone(),
        ),
        (
            json!({"type": "string", "maxLength": 1, "pattern": "^[^é]*$"}),
            text,
        ),
        (json!({"type": "array"}), json!([1, 1])),
        (
            json!({"type": "object", "additionalProperties": {"type": "boolean"}}),
            key,
        ),
        (
            json!({"type": "integer", "x-kubernetes-validations": [{"rule": "self > 5"}]}),
            json!(1),
        ),
    ] {
        assert_eq!(update_errors(&schema, &value, None), [], "{schema}");
    }
}
