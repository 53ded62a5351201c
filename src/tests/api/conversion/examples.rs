//! Single conversions: what moves where, what the annotation keeps, what is refused.

use serde_json::{Value, json};

use super::{converted, of};
use crate::kinds::{DATA_ANNOTATION, elasticweb, memcached};
use crate::tests::workload::kinds;
use quartet_versions::conversion::convert;

#[test]
fn what_the_old_crds_stored_moves_as_it_is_and_needs_no_annotation() {
    let kind = &memcached::KIND;
    let in_hub = |spec| {
        let spoke = of(kind, &kind.spoke, json!({"name": "x"}), spec);
        converted(kind, &spoke, &kind.hub)
    };
    for size in [json!(3), json!(0), json!(-5), Value::Null, json!("3")] {
        let hub = in_hub(json!({"size": size}));
        assert_eq!(hub["spec"], json!({"replicas": size}));
        assert_eq!(hub["metadata"], json!({"name": "x"}));
    }
    // Absent stays absent: conversion does not default.
    assert_eq!(in_hub(json!({}))["spec"], json!({}));
}

#[test]
fn an_elasticweb_is_nested_and_flattened() {
    let kind = &elasticweb::KIND;
    let spec =
        json!({"image": "nginx:1.17.1", "port": 30003, "singlePodsQPS": 800, "totalQPS": 2400});
    let spoke = of(kind, &kind.spoke, json!({"name": "x"}), spec);
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
    let hub = of(kind, &kind.hub, json!({"name": "x"}), spec);
    let spoke = converted(kind, &hub, &kind.spoke);
    let expected = json!({"image": "a", "port": 30003, "singlePodsQPS": 1});
    assert_eq!(spoke["spec"], expected);
    let data = json!({"v2": {"podSecurity": "Baseline", "service": {"port": 81}}}).to_string();
    let found = &spoke["metadata"]["annotations"][DATA_ANNOTATION];
    assert_eq!(*found, data);
}

#[test]
fn data_meant_for_the_other_version_is_not_mistaken_for_ours() {
    let kind = &memcached::KIND;
    let data = json!({"v1": {"memory": 128}}).to_string();
    let metadata = json!({"name": "x", "annotations": {DATA_ANNOTATION: data}});
    // A manifest of the spoke version that was rewritten by hand and still has its annotation.
    let hub = of(kind, &kind.hub, metadata, json!({"replicas": 1}));
    let found = &converted(kind, &hub, &kind.spoke)["spec"];
    assert_eq!(*found, json!({"size": 1}));
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
        let spoke = of(kind, &kind.spoke, metadata.clone(), spoke);
        assert_eq!(converted(kind, &spoke, &kind.hub)["spec"], hub);
    }
}

#[test]
fn each_field_has_an_annotation_that_belongs_to_the_data_beside_it() {
    let kind = &memcached::KIND;
    let spec = json!({
        "memory": 64, "service": {}, "imagePullSecrets": [{"name": "b"}],
        "scheduling": {"tolerations": [{"operator": "Exists"}]},
    });
    let hub = of(kind, &kind.hub, json!({"name": "x"}), spec);
    let mut spoke = converted(kind, &hub, &kind.spoke);
    let annotations = spoke["metadata"]["annotations"].as_object_mut().unwrap();
    let mut names: Vec<&str> = annotations
        .keys()
        .map(|it| &it[DATA_ANNOTATION.len()..])
        .collect();
    names.retain(|name| !name.chars().any(|it| it.is_ascii_digit()));
    let readable = [
        "",
        ".spec",
        ".spec.imagePullSecrets",
        ".spec.memory",
        ".spec.scheduling",
        ".spec.scheduling.tolerations",
        ".spec.service",
    ];
    assert_eq!(names, readable);
    // The entry of the list, and its key.
    assert_eq!(annotations.len(), readable.len() + 2, "{annotations:?}");

    // Of data that was written alone, every field counts.
    annotations.remove(&format!("{DATA_ANNOTATION}.spec.memory"));
    annotations[DATA_ANNOTATION] = json!(json!({"v1": {"memory": 128, "threads": 2}}).to_string());
    let back = converted(kind, &spoke, &kind.hub);
    assert_eq!(back["spec"], json!({"memory": 128, "threads": 2}));
    assert_eq!(back["metadata"], json!({"name": "x"}));
}

#[test]
fn an_object_in_the_wanted_version_is_not_touched() {
    let kind = &memcached::KIND;
    let metadata = json!({"annotations": {DATA_ANNOTATION: "anything"}});
    let hub = of(kind, &kind.hub, metadata, json!({"replicas": 1}));
    assert_eq!(converted(kind, &hub, &kind.hub), hub);
}

#[test]
fn what_is_not_an_object_of_the_kind_is_named() {
    let kind = &memcached::KIND;
    let error = convert(kind, json!(1), &kind.hub).unwrap_err();
    let wanted = "cannot convert a Memcached: expected an object";
    assert_eq!(error.to_string(), wanted);
    let others = ["cache.example.com/v2", "proxy.example.com/v1alpha1"];
    for api_version in ["", "v1"].into_iter().chain(others) {
        let error = convert(kind, json!({"apiVersion": api_version}), &kind.hub);
        let error = error.unwrap_err().to_string();
        assert!(error.contains(&format!("{api_version:?}")), "{error}");
    }
}

/// During a server-side apply, the API server converts an object without the fields of a field manager,
/// and rejects an answer whose metadata is absent or null.
#[test]
fn an_object_without_metadata_gets_an_empty_one() {
    for kind in kinds() {
        for (from, to) in [(&kind.spoke, &kind.hub), (&kind.hub, &kind.spoke)] {
            let api_version = |version| kind.api_version(version);
            let pruned = json!({
                "apiVersion": api_version(from), "kind": kind.kind, "status": {"replicas": 1},
            });
            let expected = json!({
                "apiVersion": api_version(to), "kind": kind.kind, "metadata": {},
                "status": {"replicas": 1},
            });
            assert_eq!(converted(kind, &pruned, to), expected);
            let mut null = pruned.clone();
            null["metadata"] = Value::Null;
            assert_eq!(converted(kind, &null, to), expected);
        }
    }
    // The annotation has a place there.
    let kind = &memcached::KIND;
    let hub = json!({
        "apiVersion": kind.api_version(&kind.hub), "kind": kind.kind, "spec": {"memory": 128},
    });
    let back = converted(kind, &converted(kind, &hub, &kind.spoke), &kind.hub);
    assert_eq!(back["spec"], hub["spec"]);
}
