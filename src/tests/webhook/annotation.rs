//! Admission of the annotation in which one version keeps the fields of the other, and of the room for
//! it.

use serde_json::{Value, json};

use super::admission::{asked, message, said};
use super::*;
use crate::kinds::DATA_ANNOTATION;
use quartet_versions::conversion::ANNOTATIONS_LIMIT_BYTES;

/// A Memcached of the original version with this text as the annotation.
fn with_data(size: i64, data: &str) -> Value {
    let mut object = memcached("v1alpha1", json!({"size": size}));
    object["metadata"]["annotations"] = json!({DATA_ANNOTATION: data});
    object
}

#[tokio::test]
async fn fields_in_the_annotation_must_have_the_types_of_those_of_the_spec() {
    let server = Server::start().await;
    let wrong = json!({"v1": {"memory": "5"}}).to_string();
    let right = json!({"v1": {"memory": 5}}).to_string();
    let field = format!("metadata.annotations[{DATA_ANNOTATION}]");
    let detail = "spec of v1: Invalid value: invalid type: string \"5\", expected i32";
    let made_wrong = update(&with_data(1, &right), &with_data(1, &wrong));
    for review in [creation(&with_data(1, &wrong)), made_wrong] {
        let said = said(&server, MEMCACHED_SPOKE, &review).await;
        assert!(said.contains(&field) && said.contains(detail), "{said}");
    }
    for review in [
        creation(&with_data(1, &right)),
        // What was wrong before may stay, and be changed elsewhere.
        update(&with_data(1, &wrong), &with_data(2, &wrong)),
        update(&with_data(1, &wrong), &with_data(2, &right)),
        update(&with_data(1, &wrong), &with_data(2, &format!("{wrong} "))),
    ] {
        let said = said(&server, MEMCACHED_SPOKE, &review).await;
        assert_eq!(said, "", "{review}");
    }
}

#[tokio::test]
async fn conversion_data_has_a_greatest_length() {
    let server = Server::start().await;
    let of = |size, bytes: usize| {
        let data = json!({"v1": {"image": "x".repeat(bytes - 19)}});
        with_data(size, &data.to_string())
    };
    let (most, longer, longest) = (of(1, 32768), of(1, 32769), of(2, 40000));
    for review in [creation(&longer), update(&most, &longer)] {
        let rejected = asked(&server, MEMCACHED_SPOKE, &review).await;
        let said = message(&rejected);
        let problem = "Too long: may not be more than 32768 bytes";
        assert!(said.contains(problem), "{said}");
    }
    // One that was stored before may stay, or become shorter.
    let shorter = update(&longest, &longer);
    for review in [creation(&most), update(&longest, &longest), shorter] {
        let allowed = asked(&server, MEMCACHED_SPOKE, &review).await;
        assert_eq!(message(&allowed), "");
    }
}

/// A Memcached of the new version; `memory` is a field that the original version lacks. The other
/// annotations have `others` bytes.
fn annotated(memory: Option<i64>, others: usize) -> Value {
    let mut object = memcached("v1", json!({"replicas": 1}));
    if let Some(memory) = memory {
        object["spec"]["memory"] = json!(memory);
    }
    object["metadata"]["annotations"] = json!({"a": "x".repeat(others - 1)});
    object
}

/// The bytes of the annotation that `annotated(Some(64), …)` needs in the original version.
fn needed() -> usize {
    DATA_ANNOTATION.len() + json!({"v1": {"memory": 64}}).to_string().len()
}

#[tokio::test]
async fn fields_that_the_other_version_lacks_need_room_beside_other_annotations() {
    let server = Server::start().await;
    let room = ANNOTATIONS_LIMIT_BYTES - needed();
    let full = annotated(Some(64), room);
    let too_long = "metadata.annotations: Too long: may not be more than 262144 bytes";
    for (over, review) in [
        (1, creation(&annotated(Some(64), room + 1))),
        (7, update(&full, &annotated(Some(64), room + 7))),
    ] {
        let said = said(&server, MEMCACHED_HUB, &review).await;
        let advice = format!("remove at least {over} bytes of annotations");
        assert!(said.contains(too_long) && said.contains(&advice), "{said}");
    }
    let over = annotated(Some(64), room + 7);
    for review in [
        creation(&full),
        // No field that needs room; no more than before.
        creation(&annotated(None, room + 1)),
        update(&over, &annotated(Some(65), room + 7)),
        update(&over, &annotated(Some(65), room + 6)),
    ] {
        assert_eq!(said(&server, MEMCACHED_HUB, &review).await, "");
    }
}

/// With field managers in both versions, the API server converts the object to the other version and
/// back before admission, and fields that found no room are gone.
#[tokio::test]
async fn an_apply_that_would_lose_fields_for_lack_of_room_is_rejected() {
    let server = Server::start().await;
    let room = ANNOTATIONS_LIMIT_BYTES - needed();
    let managed = |version: &str, others: usize| {
        let mut object = annotated(Some(64), others);
        let api_version = format!("cache.example.com/{version}");
        object["metadata"]["managedFields"] = json!([{"manager": "a", "apiVersion": api_version}]);
        object
    };
    let said =
        async |old: &Value, new: &Value| said(&server, MEMCACHED_HUB, &update(old, new)).await;
    let (both, lost) = (managed("v1alpha1", room), annotated(None, room + 5));
    let rejected = said(&both, &lost).await;
    for part in [
        "fields of the spec that v1alpha1 lacks have no room",
        "remove at least 5 bytes of annotations first",
    ] {
        assert!(rejected.contains(part), "{rejected}");
    }
    // There is room; no field is lost; no manager wrote in the other version.
    assert_eq!(said(&both, &annotated(None, room)).await, "");
    let over = managed("v1alpha1", room + 5);
    assert_eq!(said(&over, &annotated(Some(65), room + 5)).await, "");
    assert_eq!(said(&managed("v1", room), &lost).await, "");
    // Few annotations never lack room.
    let few = managed("v1alpha1", 100);
    assert_eq!(said(&few, &annotated(None, 16 * 1024)).await, "");
}

/// An update of a Memcached of the original version whose new object has this annotation.
fn replacement(old: &str, new: Option<&str>) -> Value {
    let new = match new {
        Some(data) => with_data(2, data),
        None => memcached("v1alpha1", json!({"size": 2})),
    };
    update(&with_data(1, old), &new)
}

#[tokio::test]
async fn a_write_that_drops_the_other_version_s_fields_is_rejected_unless_it_is_an_apply() {
    let server = Server::start().await;
    let full = json!({"v1": {"memory": 64, "threads": 2}}).to_string();
    let others = ["", "{", "[]", r#"{"v2":{"memory":64}}"#].map(Some);
    for new in others.into_iter().chain([None]) {
        let mut review = replacement(&full, new);
        let rejected = asked(&server, MEMCACHED_SPOKE, &review).await;
        assert_eq!(rejected["status"]["code"], 422, "{new:?}");
        let expected = format!(
            "metadata.annotations[{DATA_ANNOTATION}]: Required value: spec.memory, spec.threads of v1 would be \
             lost without it: replace the object in cache.example.com/v1, or use kubectl apply or patch, or \
             remove these fields in v1 first"
        );
        assert!(message(&rejected).ends_with(&expected), "{rejected}");

        let entry = |operation: &str, second: u8| {
            json!({"manager": "a", "operation": operation, "apiVersion": "cache.example.com/v1alpha1",
                "time": format!("2026-11-29T06:00:0{second}Z"), "fieldsV1": {"f:spec": {}}})
        };
        let before = json!([entry("Apply", 1), entry("Update", 1)]);
        review["request"]["oldObject"]["metadata"]["managedFields"] = before.clone();
        for (now, is_allowed) in [
            (json!([entry("Apply", 1), entry("Update", 2)]), false),
            (json!([entry("Update", 2)]), false),
            (before, false),
            (json!([entry("Apply", 2), entry("Update", 1)]), true),
        ] {
            review["request"]["object"]["metadata"]["managedFields"] = now;
            let said = said(&server, MEMCACHED_SPOKE, &review).await;
            assert_eq!(said.is_empty(), is_allowed, "{review}");
        }
    }
    for review in [
        replacement(&full, Some(&full)),
        replacement(&full, Some(r#"{"v1":{"memory":65}}"#)),
        replacement(&full, Some(r#"{"v1":{}}"#)),
        // Nothing is lost.
        replacement("", None),
        replacement("{", None),
        replacement(r#"{"v1":{}}"#, Some("")),
    ] {
        let said = said(&server, MEMCACHED_SPOKE, &review).await;
        assert_eq!(said, "", "{review}");
    }
}
