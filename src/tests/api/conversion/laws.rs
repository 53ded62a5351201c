//! Properties of conversion, for every ordered pair of versions and every object that could be
//! stored.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::converted;
use super::generators::{arbitrary_json, arbitrary_spec, pairs_and_objects};
use crate::kinds::DATA_ANNOTATION;
use crate::tests::api::validation::within;
use crate::tests::workload::kinds;
use quartet_versions::conversion::hub_spec;
use quartet_versions::limits::QUALIFIED_NAME;
use quartet_versions::replicas::at;

/// Drops about a quarter of the fields, of the keys of maps, and of the entries of lists that have keys.
fn drop_some(value: &mut Value, schema: &Value, random: &mut fastrand::Rng) {
    match value {
        Value::Object(fields) => fields.retain(|name, value| {
            drop_some(value, &schema["properties"][name], random);
            random.u8(0..4) > 0
        }),
        Value::Array(entries) if schema["x-kubernetes-list-type"] == "map" => {
            entries.retain(|_| random.u8(0..4) > 0);
        }
        _ => {}
    }
}

/// An object whose last field goes with a field of the other version goes, too.
fn without_empty(value: Value) -> Value {
    let Value::Object(fields) = value else {
        return value;
    };
    let fields = fields
        .into_iter()
        .map(|(name, value)| (name, without_empty(value)));
    Value::Object(fields.filter(|(_, value)| *value != json!({})).collect())
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
    fn only_our_annotations_of_the_metadata_change_and_nothing_of_the_status(
        (kind, _, to, object) in pairs_and_objects()
    ) {
        let mut there = converted(kind, &object, to);
        let qualified = regex::Regex::new(QUALIFIED_NAME).unwrap();
        if let Some(annotations) = there.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
            annotations.retain(|name, _| {
                let ours = name.strip_prefix(DATA_ANNOTATION);
                let (_, name) = name.split_once('/').unwrap_or_default();
                assert!(ours.is_none() || name.len() <= 63 && qualified.is_match(name), "{name}");
                ours.is_none()
            });
            if annotations.is_empty() {
                there["metadata"].as_object_mut().unwrap().remove("annotations");
            }
        }
        prop_assert_eq!(&there["metadata"], &object["metadata"]);
        prop_assert_eq!(&there["status"], &object["status"]);
    }

    /// What a server-side apply does in the original version to remove fields that no manifest names any more.
    #[test]
    fn a_field_goes_with_its_annotation_and_no_other_does(
        (kind, spec) in prop::sample::select(kinds()).prop_flat_map(|kind| (Just(kind), within(kind.schema_of(&kind.hub)))),
        dropped in any::<u64>(),
    ) {
        let of = |spec| json!({"apiVersion": kind.api_version(&kind.hub), "metadata": {"name": "x"}, "spec": spec});
        let mut fewer = spec.clone();
        drop_some(&mut fewer, kind.schema_of(&kind.hub), &mut fastrand::Rng::with_seed(dropped));
        let names = |object: &Value| object["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
        let mut merged = converted(kind, &of(spec), &kind.spoke);
        let pruned = converted(kind, &of(fewer.clone()), &kind.spoke);
        let mut annotations = names(&merged);
        annotations.retain(|name, _| names(&pruned).contains_key(name));
        merged["metadata"]["annotations"] = json!(annotations);
        merged["spec"] = pruned["spec"].clone();
        let back = converted(kind, &merged, &kind.hub);
        let read = hub_spec(kind, &kind.spoke, &merged["spec"], Some(&merged["metadata"]["annotations"]));
        prop_assert_eq!(&read, &back["spec"]);
        prop_assert_eq!(without_empty(read), without_empty(fewer), "by way of {}", merged);
    }

    #[test]
    fn a_change_through_one_version_arrives_in_the_other_and_keeps_its_own_fields(
        (kind, from, to, object) in pairs_and_objects(),
        index in any::<prop::sample::Index>(),
        change in prop::option::of(arbitrary_json()),
    ) {
        let mut there = converted(kind, &object, to);
        let field = index.get(kind.field_mappings);
        let (path, origin) = if from.name == kind.hub.name { (field.spoke, field.hub) } else { (field.hub, field.spoke) };
        let Some(spec @ Value::Object(_)) = there.get_mut("spec") else { return Ok(()) };
        match &change {
            // The API server would reject a PATCH below a value that is not an object.
            Some(_) if path.len() > 1 && spec.get(path[0]).is_some_and(|parent| !parent.is_object()) => return Ok(()),
            Some(change) => *path.iter().fold(spec, |at, name| &mut at[*name]) = change.clone(),
            None => {
                let (last, path) = path.split_last().unwrap();
                let parent = path.iter().try_fold(spec, |at, name| at.get_mut(*name));
                _ = parent.and_then(Value::as_object_mut).map(|parent| parent.remove(*last));
            }
        }
        let back = converted(kind, &there, from);
        let (before, after) = (object["spec"].as_object().unwrap(), back["spec"].as_object().unwrap());
        prop_assert_eq!(at(&back["spec"], origin), change.as_ref(), "by way of {}", there);
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
