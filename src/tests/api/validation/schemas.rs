//! Every field of every schema has bounds.

use serde_json::Value;

use crate::tests::workload::{kinds, schema_of};
use quartet_versions::limits::QUALIFIED_NAME_MAX;
use quartet_versions::rules::{KEYS_ARE_NAMES, KEYS_MESSAGE};

#[test]
fn the_rule_of_keys_says_the_longest_qualified_name() {
    for text in [KEYS_ARE_NAMES, KEYS_MESSAGE] {
        assert!(text.contains(&QUALIFIED_NAME_MAX.to_string()), "{text}");
    }
}

/// Panics if a part of `schema` has no bounds.
fn assert_bounded(path: &str, schema: &Value) {
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
            assert_bounded(&format!("{path}[]"), &schema["items"]);
        }
        Some("object") if schema["additionalProperties"].is_null() => {
            has("properties");
            for (name, field) in schema["properties"].as_object().into_iter().flatten() {
                assert_bounded(&format!("{path}.{name}"), field);
            }
        }
        Some("object") => {
            has("maxProperties");
            has("x-kubernetes-validations");
            assert_bounded(&format!("{path}{{}}"), &schema["additionalProperties"]);
        }
        other => panic!("{path}: {other:?}"),
    }
}

#[test]
fn every_field_of_every_version_has_bounds() {
    for kind in kinds() {
        for version in [&kind.spoke, &kind.hub] {
            assert_bounded(&format!("{kind:?} {version:?}"), schema_of(kind, version));
        }
    }
}
