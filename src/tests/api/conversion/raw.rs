//! Conversion of text gives the same result as conversion of trees, for every object and every
//! way to write it.

use proptest::collection::btree_map;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::generators::{arbitrary_json, arbitrary_spec, pairs, spec_of};
use super::of;
use crate::kinds::{DATA_ANNOTATION, memcached};
use quartet_versions::conversion::{
    ANNOTATIONS_LIMIT_BYTES, ConversionError, Converted, MOST_VALUES, convert, convert_into,
};
use quartet_versions::raw::Members;
use quartet_versions::{Kind, Version};

/// The result of converting `text`.
fn convert_text(kind: &Kind, text: &str, to: &Version) -> Result<Converted, ConversionError> {
    let object = Members::of(text).unwrap();
    let mut out = b"before ".to_vec();
    let (_, data_left_out) = convert_into(&mut out, kind, object, to)?;
    let converted = out.strip_prefix(b"before ").unwrap();
    Ok(Converted {
        object: serde_json::from_slice(converted).unwrap(),
        data_left_out,
    })
}

/// Valid annotations, invalid ones, and some with our data.
fn odd_metadata() -> impl Strategy<Value = Value> {
    let data = prop_oneof![
        3 => arbitrary_spec()
            .prop_map(|data| json!(json!({"v1": data, "v2": data, "v1alpha1": data}).to_string())),
        1 => arbitrary_json(),
    ];
    let others = btree_map("[a-z./\"\\\\é]{1,9}", arbitrary_json(), 0..4);
    let annotations = (prop::option::of(data), others).prop_map(|(data, others)| {
        let mut annotations = json!(others);
        if let Some(data) = data {
            annotations[DATA_ANNOTATION] = data;
        }
        annotations
    });
    let annotations = prop_oneof![4 => annotations, 1 => arbitrary_json()];
    let object = (prop::option::of(annotations), arbitrary_json()).prop_map(
        |(annotations, managed_fields)| {
            let mut metadata = json!({"name": "x", "managedFields": managed_fields});
            if let Some(annotations) = annotations {
                metadata["annotations"] = annotations;
            }
            metadata
        },
    );
    prop_oneof![6 => object, 1 => arbitrary_json()]
}

/// Also objects that are never stored: without metadata, without a version, with more members.
fn odd_objects() -> impl Strategy<Value = (&'static Kind, &'static Version, Value)> {
    pairs().prop_flat_map(|(kind, from, to)| {
        let version = prop_oneof![
            6 => Just(Some(json!(kind.api_version(from)))),
            1 => Just(Some(json!(kind.api_version(to)))),
            1 => prop::option::of(arbitrary_json()),
        ];
        let members = (
            version,
            prop::option::weighted(0.9, odd_metadata()),
            spec_of(kind, from),
            prop::option::of(arbitrary_json()),
            prop::option::of(arbitrary_json()),
        );
        members.prop_map(move |(version, metadata, spec, status, more)| {
            let members = [
                ("apiVersion", version),
                ("metadata", metadata),
                ("spec", spec),
                ("status", status),
                ("more \"of\" it", more),
            ];
            let present = |(name, value): (&str, Option<Value>)| Some((name.to_owned(), value?));
            let present = members.into_iter().filter_map(present);
            (kind, to, Value::Object(present.collect()))
        })
    })
}

/// Ways to write the same object.
#[derive(Debug, Clone, Copy)]
enum Hand {
    Compact,
    Spacious,
    Escaped,
}

fn written(object: &Value, hand: Hand) -> String {
    match hand {
        Hand::Compact => object.to_string(),
        Hand::Spacious => serde_json::to_string_pretty(object).unwrap(),
        Hand::Escaped => object
            .to_string()
            .replace("conversion-data", "conversion\\u002ddata")
            .replace("apiVersion", "\\u0061piVersion")
            .replace("\"spec\"", "\"s\\u0070ec\""),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn text_and_tree_convert_alike(
        (kind, to, object) in odd_objects(),
        hand in prop::sample::select(vec![Hand::Compact, Hand::Spacious, Hand::Escaped]),
    ) {
        let text = written(&object, hand);
        prop_assert_eq!(convert_text(kind, &text, to), convert(kind, object, to), "{}", text);
    }
}

#[test]
fn what_is_not_touched_keeps_every_byte() {
    let kind = &memcached::KIND;
    let text = r#"{ "kind":"Memcached","metadata" : {"name":"\u0078", "n": 1e400 },
        "apiVersion":"cache.example.com/v1alpha1", "status":{ "replicas": 3.0 }, "spec": {"size" : 3} }"#;
    let object = Members::of(text).unwrap();
    let mut out = Vec::new();
    convert_into(&mut out, kind, object, &kind.hub).unwrap();
    let before = r#"{"apiVersion":"cache.example.com/v1","kind":"Memcached","metadata":{"name":"\u0078", "n": 1e400 },"#;
    let after = r#""spec":{"replicas":3},"status":{ "replicas": 3.0 }}"#;
    assert_eq!(String::from_utf8(out).unwrap(), format!("{before}{after}"));
}

#[test]
fn the_limit_of_annotations_counts_characters_and_not_their_escapes() {
    let kind = &memcached::KIND;
    let data = json!({"v1": {"image": "a"}}).to_string();
    let room = ANNOTATIONS_LIMIT_BYTES - DATA_ANNOTATION.len() - data.len() - "k".len();
    for (others, left_out) in [(room, false), (room + 1, true)] {
        let metadata = json!({"name": "x", "annotations": {"k": "\"".repeat(others)}});
        let spec = json!({"replicas": 1, "image": "a"});
        let hub = of(kind, &kind.hub, metadata, spec);
        let converted = convert_text(kind, &hub.to_string(), &kind.spoke).unwrap();
        assert_eq!(converted.data_left_out, left_out);
        assert_eq!(Ok(converted), convert(kind, hub, &kind.spoke));
    }
}

#[test]
fn a_spec_that_could_not_have_been_stored_is_an_error_and_not_a_tree() {
    let kind = &memcached::KIND;
    let spec_of = |spec: &str| format!(r#"{{"apiVersion":"cache.example.com/v1","spec":{spec}}}"#);
    let wide = format!(r#"{{"a":[0{}]}}"#, ",0".repeat(MOST_VALUES));
    let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(200), "]".repeat(200));
    for (spec, problem) in [
        (wide.as_str(), "more than 500 values"),
        (&deep, "recursion limit exceeded"),
        (r#"{"a":1e400}"#, "number out of range"),
        (r#"{"a":"\ud800"}"#, "unexpected end of hex escape"),
    ] {
        let error = convert_text(kind, &spec_of(spec), &kind.spoke).unwrap_err();
        assert!(error.to_string().contains(problem), "{error}");
    }
    let long_text = format!(r#"{{"image":"{}"}}"#, ",".repeat(2 * MOST_VALUES));
    assert!(convert_text(kind, &spec_of(&long_text), &kind.spoke).is_ok());
}

#[test]
fn a_spec_with_as_many_values_as_are_read_is_restored() {
    let kind = &memcached::KIND;
    // No field of it is in the other version.
    let spec = json!({"more": vec![0; MOST_VALUES - 2]});
    let hub = of(kind, &kind.hub, json!({"name": "x"}), spec);
    let there = convert_text(kind, &hub.to_string(), &kind.spoke).unwrap();
    assert!(!there.data_left_out);
    let back = convert_text(kind, &there.object.to_string(), &kind.hub).unwrap();
    assert_eq!(back.object["spec"], hub["spec"]);
}

#[test]
fn data_that_could_not_be_ours_is_not_read() {
    let kind = &memcached::KIND;
    for (values, is_restored) in [(MOST_VALUES - 3, true), (MOST_VALUES - 2, false)] {
        let more = vec![0; values];
        let data = json!({"v1": {"memory": 8, "more": more}}).to_string();
        let metadata = json!({"name": "x", "annotations": {DATA_ANNOTATION: data}});
        let spoke = of(kind, &kind.spoke, metadata, json!({"size": 1}));
        let hub = convert_text(kind, &spoke.to_string(), &kind.hub).unwrap();
        assert_eq!(hub.object["spec"].get("memory").is_some(), is_restored);
    }
}
