//! Properties of conversion, for every ordered pair of versions and every object that could be
//! stored: those that the old CRDs allowed, and others.

mod raw;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{
    ANNOTATIONS_LIMIT_BYTES, ConversionError, Converted, DATA_ANNOTATION, DATA_LIMIT_BYTES,
    OMITTED, convert, get, hub_spec,
};
use crate::api::shape::tests::within;
use crate::api::shape::{Characters, Shape};
use crate::api::{Kind, Version, elasticweb, memcached};
use crate::operators::kinds;

/// Every kind with each of its versions, by name.
pub(crate) fn kinds_and_versions() -> impl Strategy<Value = (&'static Kind, &'static str)> {
    prop::sample::select(kinds()).prop_flat_map(|kind| {
        (
            Just(kind),
            prop::sample::select(vec![kind.spoke.name, kind.hub.name]),
        )
    })
}

/// Every ordered pair of versions.
fn pairs() -> impl Strategy<Value = (&'static Kind, &'static Version, &'static Version)> {
    let pairs = kinds().into_iter().flat_map(|kind| {
        [
            (kind, &kind.spoke, &kind.hub),
            (kind, &kind.hub, &kind.spoke),
        ]
    });
    prop::sample::select(pairs.collect::<Vec<_>>())
}

/// Field names of one version or the other, and unknown ones.
const NAMES: &[&str] = &[
    "size",
    "count",
    "replicas",
    "image",
    "port",
    "singlePodsQPS",
    "totalQPS",
    "capacity",
    "perPodQPS",
    "targetQPS",
    "service",
    "nodePort",
    "containerPort",
    "resources",
    "v1",
    "v1alpha1",
    "conversionDataOmitted",
    "unknown",
    "",
];

fn arbitrary_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        prop_oneof![Just(0), Just(-1), Just(1), any::<i64>()].prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::Array),
            btree_map(prop::sample::select(NAMES), inner, 0..5).prop_map(|object| {
                Value::Object(
                    object
                        .into_iter()
                        .map(|(name, value)| (name.to_owned(), value))
                        .collect(),
                )
            }),
        ]
    })
}

/// Any JSON; more often objects with known field names.
pub(crate) fn arbitrary_spec() -> impl Strategy<Value = Value> {
    let object =
        btree_map(prop::sample::select(NAMES), arbitrary_json(), 0..8).prop_map(|object| {
            Value::Object(
                object
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value))
                    .collect(),
            )
        });
    prop_oneof![4 => object, 1 => arbitrary_json()]
}

/// Valid specs of the version, other JSON, and no spec.
fn spec_of(version: &'static Version) -> impl Strategy<Value = Option<Value>> {
    prop_oneof![
        1 => Just(None),
        4 => within(&version.spec).prop_map(Some),
        4 => arbitrary_spec().prop_map(Some),
    ]
}

/// Metadata with and without other annotations.
fn metadata() -> impl Strategy<Value = Value> {
    let annotations = btree_map("[a-z./]{1,9}", ".{0,9}", 1..4);
    (prop::option::of(annotations), arbitrary_json()).prop_map(|(annotations, rest)| {
        let mut metadata = json!({"name": "x", "managedFields": rest});
        if let Some(annotations) = annotations {
            metadata["annotations"] = json!(annotations);
        }
        metadata
    })
}

fn object(
    kind: &Kind,
    version: &Version,
    metadata: Value,
    spec: Option<Value>,
    status: Value,
) -> Value {
    let mut object = json!({
        "apiVersion": kind.api_version(version),
        "kind": kind.kind,
        "metadata": metadata,
        "status": status,
    });
    if let Some(spec) = spec {
        object["spec"] = spec;
    }
    object
}

/// Any object of a kind and version, with or without our conversion data.
pub(crate) fn arbitrary_object(
    kind: &'static Kind,
    version: &'static str,
) -> impl Strategy<Value = Value> {
    let version = kind.version(version).unwrap();
    let data = prop::option::of(arbitrary_spec());
    (spec_of(version), data, arbitrary_json()).prop_map(move |(spec, data, status)| {
        let mut metadata = json!({"name": "x"});
        if let Some(data) = data {
            let data = json!({"v1": data, "v2": data, "v1alpha1": data}).to_string();
            metadata["annotations"] = json!({DATA_ANNOTATION: data});
        }
        object(kind, version, metadata, spec, status)
    })
}

fn converted(kind: &Kind, object: &Value, to: &Version) -> Value {
    let Converted {
        object,
        data_left_out,
    } = convert(kind, object.clone(), to).unwrap();
    assert!(!data_left_out);
    object
}

/// A pair of versions and an object in the first, before any conversion.
fn pairs_and_objects()
-> impl Strategy<Value = (&'static Kind, &'static Version, &'static Version, Value)> {
    pairs().prop_flat_map(|(kind, from, to)| {
        (metadata(), spec_of(from), arbitrary_json()).prop_map(move |(metadata, spec, status)| {
            (kind, from, to, object(kind, from, metadata, spec, status))
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn there_and_back_is_the_same_object((kind, from, to, object) in pairs_and_objects()) {
        let there = converted(kind, &object, to);
        prop_assert_eq!(&there["apiVersion"], &json!(kind.api_version(to)));
        let back = converted(kind, &there, from);
        prop_assert_eq!(back, object, "by way of {}", there);
    }

    #[test]
    fn whatever_stands_in_the_annotation_what_comes_out_keeps_the_law(
        (kind, from, to, mut object) in pairs_and_objects(),
        data in prop_oneof![
            ".{0,20}".prop_map(Value::from),
            arbitrary_json().prop_map(|data| Value::from(data.to_string())),
            arbitrary_spec().prop_map(|data| Value::from(json!({"v1": data, "v2": data, "v1alpha1": data}).to_string())),
            arbitrary_json(),
        ],
    ) {
        if !object["metadata"]["annotations"].is_object() {
            object["metadata"]["annotations"] = json!({});
        }
        object["metadata"]["annotations"][DATA_ANNOTATION] = data;
        let there = converted(kind, &object, to);
        let back = converted(kind, &there, from);
        prop_assert_eq!(converted(kind, &back, to), there, "by way of {}", back);
    }

    #[test]
    fn only_our_annotation_of_the_metadata_changes_and_nothing_of_the_status(
        (kind, _, to, object) in pairs_and_objects()
    ) {
        let mut there = converted(kind, &object, to);
        if let Some(annotations) = there.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
            annotations.remove(DATA_ANNOTATION);
            if annotations.is_empty() {
                there["metadata"].as_object_mut().unwrap().remove("annotations");
            }
        }
        prop_assert_eq!(&there["metadata"], &object["metadata"]);
        prop_assert_eq!(&there["status"], &object["status"]);
    }

    #[test]
    fn a_change_through_one_version_arrives_in_the_other_and_keeps_its_own_fields(
        (kind, from, to, object) in pairs_and_objects(),
        index in any::<prop::sample::Index>(),
        change in prop::option::of(arbitrary_json()),
    ) {
        let mut there = converted(kind, &object, to);
        let field = index.get(kind.moves);
        let (path, origin) = if from.name == kind.hub.name { (field.spoke, field.hub) } else { (field.hub, field.spoke) };
        let Some(spec) = there.get_mut("spec").and_then(Value::as_object_mut) else { return Ok(()) };
        match &change {
            // The API server would reject a PATCH below a value that is not an object.
            Some(_) if path.len() > 1 && spec.get(path[0]).is_some_and(|parent| !parent.is_object()) => return Ok(()),
            Some(change) => super::set(spec, path, change.clone()),
            None => super::remove(spec, path),
        }
        let back = converted(kind, &there, from);
        let (before, after) = (object["spec"].as_object().unwrap(), back["spec"].as_object().unwrap());
        prop_assert_eq!(get(after, origin), change.as_ref(), "by way of {}", there);
        for (name, value) in before.iter().filter(|(name, _)| *name != origin[0]) {
            prop_assert_eq!(after.get(name), Some(value), "by way of {}", there);
        }
    }

    #[test]
    fn what_the_reconcilers_read_is_what_conversion_gives(
        (kind, from, _, object) in pairs_and_objects(), data in ".{0,20}"
    ) {
        let mut object = object;
        object["metadata"]["annotations"] = json!({DATA_ANNOTATION: data});
        let spec = object.get("spec").cloned().unwrap_or_default();
        let hub = converted(kind, &object, &kind.hub);
        let annotations = object["metadata"].get("annotations");
        prop_assert_eq!(hub_spec(kind, from, &spec, annotations), hub.get("spec").cloned().unwrap_or_default());
    }
}

fn spoke_memcached(spec: Value) -> Value {
    object(
        &memcached::KIND,
        &memcached::KIND.spoke,
        json!({"name": "x"}),
        Some(spec),
        json!({}),
    )
}

#[test]
fn what_the_old_crds_stored_moves_as_it_is_and_needs_no_annotation() {
    for size in [json!(3), json!(0), json!(-5), Value::Null, json!("3")] {
        let hub = converted(
            &memcached::KIND,
            &spoke_memcached(json!({"size": size})),
            &memcached::KIND.hub,
        );
        assert_eq!(hub["spec"], json!({"replicas": size}));
        assert_eq!(hub["metadata"], json!({"name": "x"}));
    }
    let hub = converted(
        &memcached::KIND,
        &spoke_memcached(json!({})),
        &memcached::KIND.hub,
    );
    assert_eq!(
        hub["spec"],
        json!({}),
        "absent stays absent: conversion does not default"
    );
}

#[test]
fn an_elasticweb_is_nested_and_flattened() {
    let kind = &elasticweb::KIND;
    let spec =
        json!({"image": "nginx:1.17.1", "port": 30003, "singlePodsQPS": 800, "totalQPS": 2400});
    let spoke = object(
        kind,
        &kind.spoke,
        json!({"name": "x"}),
        Some(spec),
        json!({"realQPS": 800}),
    );
    let hub = converted(kind, &spoke, &kind.hub);
    let nested = json!({
        "image": "nginx:1.17.1",
        "capacity": {"perPodQPS": 800, "targetQPS": 2400},
        "service": {"nodePort": 30003},
    });
    assert_eq!(hub["spec"], nested);
    assert_eq!(hub["metadata"], json!({"name": "x"}));
}

#[test]
fn the_annotation_holds_only_what_the_target_cannot_say() {
    let kind = &elasticweb::KIND;
    let spec = json!({
        "image": "a",
        "podSecurity": "Baseline",
        "capacity": {"perPodQPS": 1},
        "service": {"port": 81, "nodePort": 30003},
    });
    let hub = object(kind, &kind.hub, json!({"name": "x"}), Some(spec), json!({}));
    let spoke = converted(kind, &hub, &kind.spoke);
    assert_eq!(
        spoke["spec"],
        json!({"image": "a", "port": 30003, "singlePodsQPS": 1})
    );
    let data: Value = serde_json::from_str(
        spoke["metadata"]["annotations"][DATA_ANNOTATION]
            .as_str()
            .unwrap(),
    )
    .unwrap();
    assert_eq!(
        data,
        json!({"v2": {"podSecurity": "Baseline", "service": {"port": 81}}})
    );
}

#[test]
fn data_meant_for_the_other_version_is_not_mistaken_for_ours() {
    let kind = &memcached::KIND;
    let data = json!({"v1": {"memory": 128}}).to_string();
    let metadata = json!({"name": "x", "annotations": {DATA_ANNOTATION: data}});
    // A manifest of the spoke version that was rewritten by hand and still has its annotation.
    let hub = object(
        kind,
        &kind.hub,
        metadata,
        Some(json!({"replicas": 1})),
        json!({}),
    );
    assert_eq!(
        converted(kind, &hub, &kind.spoke)["spec"],
        json!({"size": 1})
    );
}

#[test]
fn data_cannot_bring_back_what_the_version_that_was_written_can_say_itself() {
    let kind = &memcached::KIND;
    let data = json!({"v1": {"replicas": 9, "memory": 128}}).to_string();
    let metadata = json!({"name": "x", "annotations": {DATA_ANNOTATION: data}});
    for (spoke, hub) in [
        (json!({}), json!({"memory": 128})),
        (json!({"size": 2}), json!({"replicas": 2, "memory": 128})),
        (
            json!({"size": null}),
            json!({"replicas": null, "memory": 128}),
        ),
    ] {
        let spoke = object(kind, &kind.spoke, metadata.clone(), Some(spoke), json!({}));
        assert_eq!(converted(kind, &spoke, &kind.hub)["spec"], hub);
    }
}

#[test]
fn an_object_in_the_wanted_version_is_not_touched() {
    let kind = &memcached::KIND;
    let metadata = json!({"annotations": {DATA_ANNOTATION: "anything"}});
    let hub = object(
        kind,
        &kind.hub,
        metadata,
        Some(json!({"replicas": 1})),
        json!({}),
    );
    assert_eq!(converted(kind, &hub, &kind.hub), hub);
}

#[test]
fn data_that_passes_the_limit_of_annotations_is_left_out_and_told() {
    let kind = &memcached::KIND;
    let text = json!({"v1": {"image": "a"}}).to_string();
    let room = ANNOTATIONS_LIMIT_BYTES - DATA_ANNOTATION.len() - text.len() - "k".len();
    for (others, left_out) in [(room, false), (room + 1, true)] {
        let metadata = json!({"name": "x", "annotations": {"k": "x".repeat(others)}});
        let hub = object(
            kind,
            &kind.hub,
            metadata.clone(),
            Some(json!({"replicas": 1, "image": "a"})),
            json!({}),
        );
        let spoke = convert(kind, hub, &kind.spoke).unwrap();
        assert_eq!(spoke.data_left_out, left_out);
        let omitted = json!({"size": 1, OMITTED: text.len()});
        let expected = if left_out {
            omitted
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
        let object = object(kind, from, metadata.clone(), Some(json!({})), json!({}));
        assert_eq!(converted(kind, &object, to)["spec"].get(OMITTED), None);
    }
}

#[test]
fn objects_without_a_place_for_the_annotation_still_convert() {
    let kind = &memcached::KIND;
    for metadata in [Value::Null, json!(1), json!({"annotations": []})] {
        let hub = object(
            kind,
            &kind.hub,
            metadata,
            Some(json!({"image": "a"})),
            json!({}),
        );
        assert!(convert(kind, hub, &kind.spoke).unwrap().data_left_out);
    }
}

#[test]
fn what_is_not_an_object_of_the_kind_is_named() {
    let kind = &memcached::KIND;
    assert_eq!(
        convert(kind, json!(1), &kind.hub),
        Err(ConversionError::NotAnObject { kind: "Memcached" })
    );
    for api_version in [
        "",
        "v1",
        "cache.example.com/v2",
        "proxy.example.com/v1alpha1",
    ] {
        let error = convert(kind, json!({"apiVersion": api_version}), &kind.hub).unwrap_err();
        assert!(
            error.to_string().contains(&format!("{api_version:?}")),
            "{error}"
        );
    }
}

/// The longest JSON within the bounds of `shape`.
fn largest(shape: &Shape) -> Value {
    let text = |max: u16, characters: &Characters| {
        // A quote is escaped once in the data, and its escape again in the object; the limit
        // applies to the data only.
        let character = if characters.allow("\"") { "\"" } else { "a" };
        character.repeat(usize::from(max))
    };
    match shape {
        Shape::Boolean => json!(false),
        Shape::Integer { min, max } => json!(if min.to_string().len() > max.to_string().len() {
            min
        } else {
            max
        }),
        Shape::Text {
            max, characters, ..
        } => json!(text(*max, characters)),
        Shape::Time => json!("2026-11-21T06:39:00Z"),
        Shape::Choice(choices) => json!(choices.iter().max_by_key(|choice| choice.len()).unwrap()),
        Shape::Quantity => json!("1".repeat(crate::api::quantity::MAX_LENGTH)),
        Shape::List { items, max, .. } => Value::Array(vec![largest(items); usize::from(*max)]),
        Shape::Map {
            max,
            key_max,
            key_characters,
            values,
        } => {
            let key = text(*key_max, key_characters);
            let entries =
                (0..*max).map(|index| (format!("{index:03}{}", &key[3..]), largest(values)));
            Value::Object(entries.collect())
        }
        Shape::Object { fields, .. } => {
            let fields = fields.iter();
            let fields = fields.filter(|field| !matches!(field.shape, Shape::Moved { .. }));
            Value::Object(
                fields
                    .map(|field| (field.name.to_owned(), largest(&field.shape)))
                    .collect::<Map<_, _>>(),
            )
        }
        Shape::Moved { .. } | Shape::Unchecked => Value::Null,
    }
}

#[test]
fn the_data_of_every_valid_object_is_below_32_kib() {
    for kind in kinds() {
        for (from, to) in [(&kind.spoke, &kind.hub), (&kind.hub, &kind.spoke)] {
            let object = object(
                kind,
                from,
                json!({"name": "x"}),
                Some(largest(&from.spec)),
                json!({}),
            );
            let there = converted(kind, &object, to);
            let data = there["metadata"]["annotations"][DATA_ANNOTATION]
                .as_str()
                .unwrap_or_default();
            println!(
                "{} {} -> {}: {} bytes",
                kind.kind,
                from.name,
                to.name,
                data.len()
            );
            assert!(
                data.len() < DATA_LIMIT_BYTES,
                "{} {}: {}",
                kind.kind,
                from.name,
                data.len()
            );
        }
    }
}
