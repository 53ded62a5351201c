//! The limits of the data of a conversion: what is left out beyond them, and that the data of every
//! valid object is below.

use serde_json::{Value, json};

use super::{converted, of};
use crate::kinds::{DATA_ANNOTATION, memcached};
use crate::tests::workload::kinds;
use quartet_versions::conversion::{ANNOTATIONS_LIMIT_BYTES, MOST_VALUES, OMITTED, convert};
use quartet_versions::limits::{LABEL, NAME, QUALIFIED_NAME, QUALIFIED_NAME_MAX, QUANTITY_MAX};
use quartet_versions::raw::has_at_most;

/// The data of a valid object leaves room for other annotations.
const DATA_LIMIT_BYTES: usize = 32 * 1024;
/// And so do those of its fields.
const FIELDS_LIMIT_BYTES: usize =
    ANNOTATIONS_LIMIT_BYTES - DATA_LIMIT_BYTES - 24 * (317 + 4 * 2048);

#[test]
fn data_that_passes_the_limit_of_annotations_is_left_out_and_told() {
    let kind = &memcached::KIND;
    let text = json!({"v1": {"image": "a"}}).to_string();
    let room = ANNOTATIONS_LIMIT_BYTES - DATA_ANNOTATION.len() - text.len() - "k".len();
    for (others, left_out) in [(room, false), (room + 1, true)] {
        let metadata = json!({"name": "x", "annotations": {"k": "x".repeat(others)}});
        let spec = json!({"replicas": 1, "image": "a"});
        let hub = of(kind, &kind.hub, metadata.clone(), spec);
        let spoke = convert(kind, hub, &kind.spoke).unwrap();
        assert_eq!(spoke.data_left_out, left_out);
        let expected = if left_out {
            json!({"size": 1, OMITTED: text.len()})
        } else {
            json!({"size": 1})
        };
        assert_eq!(spoke.object["spec"], expected);
        assert_eq!(spoke.object["metadata"] == metadata, left_out);
        // There and back, as the API server converts for server-side apply: the loss stays
        // visible.
        let hub = convert(kind, spoke.object, &kind.hub).unwrap();
        assert_eq!(hub.object["spec"].get(OMITTED).is_some(), left_out);
        assert_eq!(hub.object["spec"].get("image").is_none(), left_out);
    }
}

#[test]
fn the_annotation_cannot_say_that_data_was_left_out() {
    let kind = &memcached::KIND;
    let omitted = json!({OMITTED: 1, "memory": 8});
    let data = json!({"v1": omitted, "v1alpha1": omitted}).to_string();
    let metadata = json!({"name": "x", "annotations": {DATA_ANNOTATION: data}});
    for (from, to) in [(&kind.spoke, &kind.hub), (&kind.hub, &kind.spoke)] {
        let object = of(kind, from, metadata.clone(), json!({}));
        assert_eq!(converted(kind, &object, to)["spec"].get(OMITTED), None);
    }
}

#[test]
fn objects_without_a_place_for_the_annotation_still_convert() {
    let kind = &memcached::KIND;
    for metadata in [json!(1), json!({"annotations": []})] {
        let hub = of(kind, &kind.hub, metadata, json!({"image": "a"}));
        assert!(convert(kind, hub, &kind.spoke).unwrap().data_left_out);
    }
}

/// The longest JSON within the bounds of `schema`.
fn largest(schema: &Value) -> Value {
    let size = |bound: &str| usize::try_from(schema[bound].as_u64().unwrap()).unwrap();
    let text = |max: usize, pattern: &str| {
        // A quote is escaped once in the data, and its escape again in the object; the limit
        // applies to the data only.
        let is_name = [LABEL, QUALIFIED_NAME, NAME].contains(&pattern);
        let character = if is_name { "a" } else { "\"" };
        character.repeat(max)
    };
    if schema["x-kubernetes-int-or-string"] == true {
        return json!("1".repeat(QUANTITY_MAX.into()));
    }
    match schema["type"].as_str().unwrap() {
        "boolean" => json!(false),
        "integer" => {
            #[allow(clippy::cast_possible_truncation, reason = "bounds are within 2^53")]
            let bounds = ["minimum", "maximum"].map(|it| schema[it].as_f64().unwrap() as i64);
            json!(bounds.iter().max_by_key(|bound| bound.to_string().len()))
        }
        "string" => match schema["enum"].as_array() {
            Some(choices) => json!(choices.iter().max_by_key(|it| it.to_string().len())),
            None => {
                let pattern = schema["pattern"].as_str().unwrap_or_default();
                json!(text(size("maxLength"), pattern))
            }
        },
        "array" => Value::Array(vec![largest(&schema["items"]); size("maxItems")]),
        _ if schema["additionalProperties"].is_object() => {
            let key = text(QUALIFIED_NAME_MAX.into(), QUALIFIED_NAME);
            let value = largest(&schema["additionalProperties"]);
            let entries = 0..size("maxProperties");
            let entries = entries.map(|index| (format!("{index:03}{}", &key[3..]), value.clone()));
            Value::Object(entries.collect())
        }
        _ => {
            let fields = schema["properties"].as_object().unwrap().iter();
            let fields = fields.map(|(name, field)| (name.clone(), largest(field)));
            Value::Object(fields.collect())
        }
    }
}

#[test]
fn the_data_of_every_valid_object_is_below_32_kib() {
    for kind in kinds() {
        for (from, to) in [(&kind.spoke, &kind.hub), (&kind.hub, &kind.spoke)] {
            let spec = largest(kind.schema_of(from));
            let object = of(kind, from, json!({"name": "x"}), spec);
            let there = converted(kind, &object, to);
            let data = there["metadata"]["annotations"][DATA_ANNOTATION]
                .as_str()
                .unwrap_or_default();
            let context = format!("{} {} -> {}", kind.kind, from.name, to.name);
            assert!(data.len() < DATA_LIMIT_BYTES, "{context}: {}", data.len());
            // The annotations of the fields have room where the data has, beside 24 of 2048 characters.
            let all = there["metadata"]["annotations"]
                .as_object()
                .into_iter()
                .flatten();
            let bytes = all.map(|(name, it)| name.len() + it.as_str().unwrap().len());
            let bytes = bytes.sum::<usize>() - data.len();
            println!("{context}: {} bytes of data, {bytes} others", data.len());
            assert!(bytes < FIELDS_LIMIT_BYTES, "{context}: {bytes}");
        }
    }
}

#[test]
fn every_valid_spec_has_at_most_half_of_the_values_that_are_read() {
    for kind in kinds() {
        for version in [&kind.spoke, &kind.hub] {
            let spec = largest(kind.schema_of(version)).to_string();
            let are_few = has_at_most(MOST_VALUES / 2, &spec);
            assert!(are_few, "{kind:?} {version:?}");
        }
    }
}
