//! Which rules apply to which request.

use serde_json::{Value, json};

use super::admission::{asked, message, said};
use super::*;
use crate::kinds::DATA_ANNOTATION;
use quartet_versions::conversion::MOST_VALUES;

const INVALID: &str = "must be greater than or equal to 0";

#[tokio::test]
async fn a_service_that_only_the_annotation_asks_for_needs_a_name_that_fits() {
    let server = Server::start().await;
    let object = |data: Option<Value>| {
        let mut object = memcached("v1alpha1", json!({"size": 1}));
        object["metadata"]["name"] = json!("1.x");
        if let Some(data) = data {
            object["metadata"]["annotations"] = json!({DATA_ANNOTATION: data.to_string()});
        }
        object
    };
    let on = || Some(json!({"v1": {"service": {"enabled": true}}}));
    let off = || Some(json!({"v1": {"service": {"enabled": false}}}));
    let (on, off) = (object(on()), object(off()));
    let error = "metadata.name: Invalid value: \"1.x\": must be a DNS-1035 label";
    for rejected in [creation(&on), update(&off, &on)] {
        let said = said(&server, MEMCACHED_SPOKE, &rejected).await;
        assert!(said.contains(error), "{said}");
    }
    let mut scaled = on.clone();
    scaled["spec"]["size"] = json!(2);
    // A name that the API server has yet to generate.
    let mut unnamed = on.clone();
    unnamed["metadata"] =
        json!({"generateName": "1.", "annotations": unnamed["metadata"]["annotations"]});
    let (created, updated) = (creation(&object(None)), update(&on, &scaled));
    for allowed in [created, creation(&off), updated, creation(&unnamed)] {
        assert_eq!(said(&server, MEMCACHED_SPOKE, &allowed).await, "");
    }
}

#[tokio::test]
async fn an_error_names_the_object_or_what_the_request_calls_it() {
    let server = Server::start().await;
    let named = |in_object: Option<&str>, in_request: Option<&str>| {
        let mut object = memcached("v1alpha1", json!({"size": -1}));
        object["metadata"] = json!({"name": in_object});
        let mut review = creation(&object);
        review["request"]["name"] = json!(in_request);
        review
    };
    for (review, name) in [
        (named(Some("a"), Some("b")), "a"),
        (named(None, Some("b")), "b"),
        (named(None, None), ""),
    ] {
        let said = said(&server, MEMCACHED_SPOKE, &review).await;
        let expected = format!("Memcached.cache.example.com \"{name}\" is invalid: spec.size");
        assert!(said.starts_with(&expected), "{said}");
    }
}

#[tokio::test]
async fn an_object_is_going_away_only_with_a_time_of_its_deletion() {
    let server = Server::start().await;
    let old = memcached("v1alpha1", json!({"size": 1}));
    for (timestamp, is_allowed) in [(json!("2026-11-21T06:39:00Z"), true), (Value::Null, false)] {
        let mut new = memcached("v1alpha1", json!({"size": -1}));
        new["metadata"]["deletionTimestamp"] = timestamp;
        let updated = said(&server, MEMCACHED_SPOKE, &update(&old, &new)).await;
        assert_eq!(updated.is_empty(), is_allowed);
        // At its creation, nothing goes away.
        let created = said(&server, MEMCACHED_SPOKE, &creation(&new)).await;
        assert!(created.contains(INVALID));
    }
}

#[tokio::test]
async fn a_spec_of_too_many_values_is_rejected() {
    let server = Server::start().await;
    let object = |label: &str| {
        let values = vec![0; MOST_VALUES + 1];
        let mut object = memcached("v1", json!({"replicas": 1, "values": values}));
        object["metadata"]["annotations"] = json!({"a": label});
        object
    };
    let rejected = asked(&server, MEMCACHED_HUB, &creation(&object("b"))).await;
    assert_eq!(rejected["status"]["code"], 400);
    assert_eq!(message(&rejected), "the spec holds too many values");
    let small = memcached("v1", json!({"replicas": 1}));
    let rejected = asked(&server, MEMCACHED_HUB, &update(&small, &object("b"))).await;
    assert_eq!(rejected["status"]["code"], 400);
    // An old value that cannot be read is nothing to compare with.
    let review = update(&object("b"), &memcached("v1", json!({"replicas": -1})));
    let said = said(&server, MEMCACHED_HUB, &review).await;
    assert!(said.contains(INVALID), "{said}");
}

#[tokio::test]
async fn a_scale_is_held_to_the_limit_and_other_subresources_are_not() {
    let server = Server::start_with(TlsVersion::Tls13, 10).await;
    // `kubectl scale` and autoscalers write this object.
    let scale =
        |replicas: Value| json!({"metadata": {"name": "x"}, "spec": {"replicas": replicas}});
    let said = async |sub_resource: &str, old: Value, new: Value| {
        let mut review = update(&scale(old), &scale(new));
        review["request"]["subResource"] = json!(sub_resource);
        said(&server, MEMCACHED_HUB, &review).await
    };
    let many = said("scale", json!(1), json!("many")).await;
    assert_eq!(many, "spec.replicas of the Scale is not an integer");
    let over = "Scale.autoscaling \"x\" is invalid: spec.replicas: Invalid value: 11: \
                must be less than or equal to 10, the operator's limit (--max-replicas)";
    let negative = "greater than or equal to 0";
    for (old, new, complaint) in [
        (json!(1), json!(10), ""),
        (json!(100), json!(99), ""),
        (json!(11), json!(11), ""),
        // Go leaves a zero out.
        (json!(1), Value::Null, ""),
        (Value::Null, json!(11), over),
        (json!(10), json!(11), over),
        (json!(0), json!(-1), negative),
        (json!(1), json!(-1), negative),
        (json!(-1), json!(-2), negative),
    ] {
        let said = said("scale", old, new).await;
        assert!(said.contains(complaint), "{said}");
        assert_eq!(said.is_empty(), complaint.is_empty(), "{said}");
    }
    assert_eq!(said("other", json!(1), json!(-1)).await, "");
}

#[tokio::test]
async fn an_unknown_operation_and_a_long_uid_are_rejected() {
    let server = Server::start().await;
    let mut review = creation(&memcached("v1alpha1", json!({"size": 1})));
    review["request"]["uid"] = json!("u".repeat(257));
    let reply = server.post(MEMCACHED_SPOKE, &review).await;
    assert_eq!(reply.code, 400);
    let expected = "request.uid is missing, empty or too long";
    assert_eq!(reply.json()["message"], expected);
    review["request"]["uid"] = json!("u".repeat(256));
    assert_eq!(said(&server, MEMCACHED_SPOKE, &review).await, "");
    review["request"]["operation"] = json!("PATCH");
    let said = said(&server, MEMCACHED_SPOKE, &review).await;
    assert_eq!(said, "request.operation is unknown");
}
