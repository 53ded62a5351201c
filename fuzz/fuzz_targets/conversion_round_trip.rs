//! Conversion round trips give the same object, for every ordered pair of versions and any spec;
//! converting text gives the same result as converting a parsed tree.
#![no_main]

use arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use quartet_operator::kinds::DATA_ANNOTATION;
use quartet_operator::kinds::OPERATORS;
use quartet_operator_fuzz::{is_json, resources};
use quartet_versions::conversion::{Converted, MOST_VALUES, convert, convert_into, hub_spec};
use quartet_versions::raw::{Members, has_at_most};
use quartet_versions::{Kind, Version};
use serde_json::{Value, json};

fuzz_target!(|input: &[u8]| {
    if is_json(input) {
        let Ok(text) = std::str::from_utf8(input) else {
            return;
        };
        let tree = serde_json::from_str(text).ok();
        for operator in OPERATORS {
            let kind = operator.kind();
            for to in [&kind.spoke, &kind.hub] {
                check_text(kind, text, tree.as_ref(), to);
            }
            if let Some(object) = &tree {
                check_law(kind, object);
            }
        }
    } else if let Ok(sample) = resources::sample(&mut Unstructured::new(input)) {
        let kind = sample.kind;
        for text in [
            sample.object.to_string(),
            serde_json::to_string_pretty(&sample.object).expect("has a text"),
        ] {
            for to in [&kind.spoke, &kind.hub] {
                check_text(kind, &text, Some(&sample.object), to);
            }
        }
        check_law(kind, &sample.object);
    }
});

/// Checks that `text` converts as its tree does.
fn check_text(kind: &Kind, text: &str, tree: Option<&Value>, to: &Version) {
    let Ok(object) = Members::of(text) else {
        assert_eq!(tree.and_then(Value::as_object), None, "no members are read");
        return;
    };
    let mut out = b"before".to_vec();
    let converted = convert_into(&mut out, kind, object, to);
    let written = out.strip_prefix(b"before").expect("only adds to it");
    let Some(tree) = tree else { return };
    match (converted, convert(kind, tree.clone(), to)) {
        (Ok(by_text), Ok(by_tree)) => {
            let object: Value = serde_json::from_slice(written).expect("writes JSON");
            assert_eq!(object, by_tree.object);
            assert_eq!(by_text.1, by_tree.data_left_out);
        }
        (Err(by_text), Err(by_tree)) => assert_eq!(by_text, by_tree),
        (by_text, by_tree) => panic!("{by_text:?} by text, {by_tree:?} by tree"),
    }
}

/// Converts there and back, and there again.
fn check_law(kind: &'static Kind, object: &Value) {
    let versions = [&kind.spoke, &kind.hub];
    let version_of = |object: &Value| {
        let name = object["apiVersion"].as_str()?;
        versions.into_iter().find(|it| kind.api_version(it) == name)
    };
    let Some(from) = version_of(object) else {
        assert!(convert(kind, object.clone(), &kind.hub).is_err());
        return;
    };
    // The webhook rejects more.
    if !has_at_most(MOST_VALUES, &object["spec"].to_string()) {
        return;
    }
    for to in versions {
        let Some(there) = lossless(kind, object, to) else {
            continue;
        };
        assert_eq!(there["apiVersion"], kind.api_version(to).as_str());
        let Some(back) = lossless(kind, &there, from) else {
            continue;
        };
        if data_of(object).is_none() {
            assert_eq!(settled(&back), settled(object), "by way of {there}");
        }
        // With foreign data in the annotation, the round trip is exact from the first conversion
        // on.
        if let Some(again) = lossless(kind, &back, to) {
            assert_eq!(settled(&again), settled(&there), "by way of {back}");
        }
    }
    let spec = object.get("spec").cloned().unwrap_or_default();
    let annotations = object.get("metadata").and_then(|it| it.get("annotations"));
    let hub = convert(kind, object.clone(), &kind.hub).expect("is converted");
    let mut expected = hub.object.get("spec").cloned().unwrap_or_default();
    // The mark of an object without space for its conversion data, which is rejected: a conversion
    // in process needs no space.
    if let Some(spec) = expected.as_object_mut() {
        spec.remove("conversionDataOmitted");
    }
    assert_eq!(hub_spec(kind, from, &spec, annotations), expected);
}

fn data_of(object: &Value) -> Option<&Value> {
    let annotations = object.get("metadata")?.get("annotations")?.as_object()?;
    let ours = annotations
        .iter()
        .find(|(name, _)| name.starts_with(DATA_ANNOTATION));
    ours.map(|(_, value)| value)
}

/// Returns the object in version `to`; `None` if the annotations have no space for all of it.
fn lossless(kind: &Kind, object: &Value, to: &Version) -> Option<Value> {
    let Converted {
        object,
        data_left_out,
    } = match convert(kind, object.clone(), to) {
        // More values than the webhook reads, with those of foreign data.
        Err(error) if error.to_string().contains("cannot read its spec") => return None,
        converted => converted.expect("is converted"),
    };
    (!data_left_out).then_some(object)
}

/// Null and empty annotations are equal to absent ones, also for the API server, and absent or null metadata
/// to the empty ones of an answer.
fn settled(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(members) = object.as_object_mut() {
        let metadata = members.entry("metadata").or_insert(Value::Null);
        if metadata.is_null() {
            *metadata = json!({});
        }
    }
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        let is_empty = metadata.get("annotations").is_some_and(|annotations| {
            annotations.is_null() || annotations.as_object().is_some_and(|it| it.is_empty())
        });
        if is_empty {
            metadata.remove("annotations");
        }
    }
    object
}
