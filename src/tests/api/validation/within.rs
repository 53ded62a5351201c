//! Generates values from a schema, for the property tests of validation and conversion.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use quartet_versions::limits::{LABEL, NAME, QUALIFIED_NAME, VISIBLE};

/// Values within every bound of `schema`. Without fields of other versions; may violate the rules that the API
/// server has for a Deployment.
pub(crate) fn within(schema: &'static Value) -> BoxedStrategy<Value> {
    if schema["x-kubernetes-int-or-string"] == true {
        return prop_oneof![
            (0..=i64::from(u32::MAX)).prop_map(Value::from),
            prop::sample::select(vec!["0", "100m", "64Mi", "1.5", "1e3", ".5Gi"])
                .prop_map(Value::from),
        ]
        .boxed();
    }
    match schema["type"].as_str().expect("a type") {
        "boolean" => any::<bool>().prop_map(Value::from).boxed(),
        "integer" => {
            #[allow(clippy::cast_possible_truncation, reason = "bounds are within 2^53")]
            let bound = |name: &str| schema[name].as_f64().expect("a bound") as i64;
            let (min, max) = (bound("minimum"), bound("maximum"));
            prop_oneof![Just(min), Just(max), min..=max]
                .prop_map(Value::from)
                .boxed()
        }
        "string" if schema["format"] == "date-time" => Just(json!("2026-11-21T06:39:00Z")).boxed(),
        "string" => match schema["enum"].as_array() {
            Some(choices) => prop::sample::select(choices.as_slice()).boxed(),
            None => {
                let min = size(schema, "minLength").unwrap_or(0);
                let max = size(schema, "maxLength").expect("a length");
                let pattern = schema["pattern"].as_str().unwrap_or_default();
                text(min, max, pattern).prop_map(Value::from).boxed()
            }
        },
        "array" => {
            let max = size(schema, "maxItems").expect("a length").min(3);
            vec(within(&schema["items"]), 0..=max)
                .prop_map(move |mut items| {
                    let mut seen = Vec::new();
                    items.retain(|item| {
                        let identity = identity(schema, item);
                        let is_new = identity.is_none() || !seen.contains(&identity);
                        seen.push(identity);
                        is_new
                    });
                    Value::Array(items)
                })
                .boxed()
        }
        "object" => match schema.get("additionalProperties") {
            Some(values) => {
                let max = size(schema, "maxProperties").expect("a size").min(3);
                let key = text(1, 63, QUALIFIED_NAME);
                btree_map(key, within(values), 0..=max)
                    .prop_map(|map| Value::Object(map.into_iter().collect()))
                    .boxed()
            }
            None => object(schema),
        },
        other => panic!("a type that no spec has: {other}"),
    }
}

fn size(schema: &Value, bound: &str) -> Option<usize> {
    usize::try_from(schema[bound].as_u64()?).ok()
}

fn identity(list: &Value, item: &Value) -> Option<Vec<Value>> {
    match list["x-kubernetes-list-type"].as_str()? {
        "set" => Some(vec![item.clone()]),
        "map" => {
            let keys = list["x-kubernetes-list-map-keys"].as_array()?.iter();
            keys.map(|key| Some(item[key.as_str()?].clone())).collect()
        }
        _ => None,
    }
}

fn object(schema: &'static Value) -> BoxedStrategy<Value> {
    let is_required = |name: &str| {
        let required = schema["required"].as_array();
        required.is_some_and(|required| required.iter().any(|it| it == name))
    };
    let fields = schema["properties"].as_object().into_iter().flatten();
    fields
        .fold(Just(Map::new()).boxed(), |so_far, (name, field)| {
            let required = is_required(name);
            let pattern = field["pattern"]
                .as_str()
                .filter(|_| field["type"] == "string");
            // Only the API server knows what matches another regular expression.
            let is_known = |pattern| [VISIBLE, LABEL, QUALIFIED_NAME, NAME].contains(&pattern);
            if !required && !pattern.is_none_or(is_known) {
                return so_far;
            }
            let value = within(field);
            let value = if required {
                value.prop_map(Some).boxed()
            } else {
                prop_oneof![Just(None), Just(Some(Value::Null)), value.prop_map(Some)].boxed()
            };
            (so_far, value)
                .prop_map(|(mut object, value)| {
                    if let Some(value) = value {
                        object.insert(name.clone(), value);
                    }
                    object
                })
                .boxed()
        })
        .prop_map(move |mut object| {
            let rules = schema["x-kubernetes-validations"].to_string();
            let has_port = object.get("nodePort").is_some_and(|port| !port.is_null());
            // Only some types of Service have a node port.
            if has_port && rules.contains("nodePort") {
                object.insert("type".to_owned(), json!("NodePort"));
            }
            Value::Object(object)
        })
        .boxed()
}

fn text(min: usize, max: usize, pattern: &'static str) -> BoxedStrategy<String> {
    let allowed = match pattern {
        VISIBLE => '!'..='~',
        _ => 'a'..='z',
    };
    let characters: Vec<char> = allowed.collect();
    let length = min..=max.min(min + 8);
    let text = vec(prop::sample::select(characters), length);
    text.prop_map(String::from_iter).boxed()
}
