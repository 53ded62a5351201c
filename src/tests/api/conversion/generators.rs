//! Objects of every kind and version: those that the old CRDs allowed, and others.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::object;
use crate::kinds::DATA_ANNOTATION;
use crate::tests::api::validation::within;
use crate::tests::workload::kinds;
use quartet_versions::{Kind, Version};

/// Every kind with each of its versions, by name.
pub(crate) fn kinds_and_versions() -> impl Strategy<Value = (&'static Kind, &'static str)> {
    prop::sample::select(kinds()).prop_flat_map(|kind| {
        let versions = vec![kind.spoke.name, kind.hub.name];
        (Just(kind), prop::sample::select(versions))
    })
}

/// Every ordered pair of versions.
pub(super) fn pairs() -> impl Strategy<Value = (&'static Kind, &'static Version, &'static Version)>
{
    let pairs = kinds().into_iter().flat_map(|kind| {
        let (spoke, hub) = (&kind.spoke, &kind.hub);
        [(kind, spoke, hub), (kind, hub, spoke)]
    });
    prop::sample::select(pairs.collect::<Vec<_>>())
}

/// Field names of one version or the other, and unknown ones.
fn names() -> impl Strategy<Value = &'static str> {
    let known = "size count replicas image port singlePodsQPS totalQPS capacity perPodQPS targetQPS \
                 service nodePort containerPort resources v1 v1alpha1 conversionDataOmitted";
    let names = known.split(' ').chain(["unknown", ""]);
    prop::sample::select(names.collect::<Vec<_>>())
}

pub(super) fn arbitrary_json() -> impl Strategy<Value = Value> {
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
            btree_map(names(), inner, 0..5).prop_map(|object| json!(object)),
        ]
    })
}

/// Any JSON; more often objects with known field names.
pub(crate) fn arbitrary_spec() -> impl Strategy<Value = Value> {
    let object = btree_map(names(), arbitrary_json(), 0..8).prop_map(|object| json!(object));
    prop_oneof![4 => object, 1 => arbitrary_json()]
}

/// Valid specs of the version, other JSON, and no spec.
pub(super) fn spec_of(
    kind: &Kind,
    version: &Version,
) -> impl Strategy<Value = Option<Value>> + use<> {
    prop_oneof![
        1 => Just(None),
        4 => within(kind.schema_of(version)).prop_map(Some),
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

/// Any object of a kind and version, with or without our conversion data.
pub(crate) fn arbitrary_object(
    kind: &'static Kind,
    version: &'static str,
) -> impl Strategy<Value = Value> {
    let version = kind.version(version).unwrap();
    let data = prop::option::of(arbitrary_spec());
    (spec_of(kind, version), data, arbitrary_json()).prop_map(move |(spec, data, status)| {
        let mut metadata = json!({"name": "x"});
        if let Some(data) = data {
            let data = json!({"v1": data, "v2": data, "v1alpha1": data}).to_string();
            metadata["annotations"] = json!({DATA_ANNOTATION: data});
        }
        object(kind, version, metadata, spec, status)
    })
}

/// A pair of versions and an object in the first, before any conversion.
pub(super) fn pairs_and_objects()
-> impl Strategy<Value = (&'static Kind, &'static Version, &'static Version, Value)> {
    pairs().prop_flat_map(|(kind, from, to)| {
        (metadata(), spec_of(kind, from), arbitrary_json()).prop_map(
            move |(metadata, spec, status)| {
                (kind, from, to, object(kind, from, metadata, spec, status))
            },
        )
    })
}
