//! Generates values from a shape, for the property tests of validation and conversion in this
//! crate, and for those of `tests/versions` against a real API server. The latter include this
//! file beside a module `shape`.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::shape::{Characters, Field, Merge, Shape};

/// Values within every bound of `shape`. Without fields of other versions; may violate rules over
/// several fields.
pub(crate) fn within(shape: &'static Shape) -> BoxedStrategy<Value> {
    match shape {
        Shape::Boolean => any::<bool>().prop_map(Value::from).boxed(),
        Shape::Integer { min, max } => prop_oneof![Just(*min), Just(*max), *min..=*max]
            .prop_map(Value::from)
            .boxed(),
        Shape::Text {
            min,
            max,
            characters,
        } => text(*min, *max, characters).prop_map(Value::from).boxed(),
        Shape::Time => Just(json!("2026-11-21T06:39:00Z")).boxed(),
        Shape::Choice(choices) => prop::sample::select(choices.as_slice())
            .prop_map(Value::from)
            .boxed(),
        Shape::Quantity => prop_oneof![
            (0..=i64::from(u32::MAX)).prop_map(Value::from),
            prop::sample::select(vec!["0", "100m", "64Mi", "1.5", "1e3", ".5Gi"])
                .prop_map(Value::from),
        ]
        .boxed(),
        Shape::List { items, max, merge } => vec(within(items), 0..=usize::from(*max).min(3))
            .prop_map(move |mut items| {
                let mut seen = Vec::new();
                items.retain(|item| {
                    let identity = identity(merge, item);
                    let is_new = identity.is_none() || !seen.contains(&identity);
                    seen.push(identity);
                    is_new
                });
                Value::Array(items)
            })
            .boxed(),
        Shape::Map {
            max,
            key_max,
            key_characters,
            values,
        } => btree_map(
            text(1, *key_max, key_characters),
            within(values),
            0..=usize::from(*max).min(3),
        )
        .prop_map(|map| Value::Object(map.into_iter().collect()))
        .boxed(),
        Shape::Object { fields, .. } => object(fields),
        Shape::Unchecked => Just(Value::Null).boxed(),
    }
}

fn identity(merge: &Merge, item: &Value) -> Option<Vec<Value>> {
    match merge {
        Merge::Atomic => None,
        Merge::Set => Some(vec![item.clone()]),
        Merge::Map(keys) => Some(keys.iter().map(|key| item[key].clone()).collect()),
    }
}

fn object(fields: &'static [Field]) -> BoxedStrategy<Value> {
    fields
        .iter()
        .fold(Just(Map::new()).boxed(), |so_far, field| {
            match field.shape {
                // Only the API server knows what matches the regular expression.
                Shape::Text {
                    characters: Characters::Matching,
                    ..
                } if !field.required => return so_far,
                _ => {}
            }
            let value = within(&field.shape);
            let value = if field.required {
                value.prop_map(Some).boxed()
            } else {
                prop_oneof![Just(None), Just(Some(Value::Null)), value.prop_map(Some)].boxed()
            };
            (so_far, value)
                .prop_map(|(mut object, value)| {
                    if let Some(value) = value {
                        object.insert(field.name.clone(), value);
                    }
                    object
                })
                .boxed()
        })
        .prop_map(Value::Object)
        .boxed()
}

fn text(min: u16, max: u16, characters: &'static Characters) -> BoxedStrategy<String> {
    let character = match characters {
        Characters::In { ranges, .. } => prop::sample::select(ranges.as_slice())
            .prop_flat_map(|(first, last)| prop::char::range(first, last))
            .boxed(),
        Characters::Any | Characters::Matching => prop::char::range('a', 'z').boxed(),
    };
    let length = usize::from(min)..=usize::from(max).min(usize::from(min) + 8);
    vec(character, length).prop_map(String::from_iter).boxed()
}
