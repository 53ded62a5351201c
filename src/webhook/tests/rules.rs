//! Which rules apply to which request.

use serde_json::{Value, json};

use super::admission::{asked, message};
use super::*;
use crate::api::DATA_ANNOTATION;
use crate::api::conversion::MOST_VALUES;

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
    let said = async |review: Value| {
        let answer = asked(&server, MEMCACHED_SPOKE, &review).await;
        message(&answer).to_owned()
    };
    let error = "metadata.name: Invalid value: \"1.x\": must be a DNS-1035 label";
    assert!(said(creation(&object(on()))).await.contains(error));
    assert!(
        said(update(&object(off()), &object(on())))
            .await
            .contains(error)
    );
    for allowed in [
        creation(&object(None)),
        creation(&object(off())),
        update(&object(on()), &{
            let mut scaled = object(on());
            scaled["spec"]["size"] = json!(2);
            scaled
        }),
    ] {
        assert_eq!(said(allowed).await, "");
    }
    // A name that the API server has yet to generate.
    let mut unnamed = object(on());
    unnamed["metadata"] =
        json!({"generateName": "1.", "annotations": unnamed["metadata"]["annotations"]});
    assert_eq!(said(creation(&unnamed)).await, "");
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
        let answer = asked(&server, MEMCACHED_SPOKE, &review).await;
        let expected = format!("Memcached.cache.example.com \"{name}\" is invalid: spec.size");
        assert!(message(&answer).starts_with(&expected), "{answer}");
    }
}

#[tokio::test]
async fn an_object_is_going_away_only_with_a_time_of_its_deletion() {
    let server = Server::start().await;
    let old = memcached("v1alpha1", json!({"size": 1}));
    for (timestamp, is_allowed) in [(json!("2026-11-21T06:39:00Z"), true), (Value::Null, false)] {
        let mut new = memcached("v1alpha1", json!({"size": -1}));
        new["metadata"]["deletionTimestamp"] = timestamp;
        let answer = asked(&server, MEMCACHED_SPOKE, &update(&old, &new)).await;
        assert_eq!(message(&answer).is_empty(), is_allowed);
        // At its creation, nothing goes away.
        let answer = asked(&server, MEMCACHED_SPOKE, &creation(&new)).await;
        assert!(message(&answer).contains(INVALID));
    }
}

#[tokio::test]
async fn a_spec_of_too_many_values_is_rejected_unless_it_was_there() {
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
    let review = update(&object("b"), &object("c"));
    let allowed = asked(&server, MEMCACHED_HUB, &review).await;
    assert_eq!(message(&allowed), "");
    let small = memcached("v1", json!({"replicas": 1}));
    let rejected = asked(&server, MEMCACHED_HUB, &update(&small, &object("b"))).await;
    assert_eq!(rejected["status"]["code"], 400);
    // An old value that cannot be read is nothing to compare with.
    let review = update(&object("b"), &memcached("v1", json!({"replicas": -1})));
    assert!(message(&asked(&server, MEMCACHED_HUB, &review).await).contains(INVALID));
}

#[tokio::test]
async fn a_scale_is_checked_and_other_subresources_are_not() {
    let server = Server::start_with(TlsVersion::Tls13, 10).await;
    let scale =
        |replicas: Value| json!({"metadata": {"name": "x"}, "spec": {"replicas": replicas}});
    let said = async |sub_resource: &str, old: Value, new: Value| {
        let mut review = update(&scale(old), &scale(new));
        review["request"]["subResource"] = json!(sub_resource);
        let answer = asked(&server, MEMCACHED_HUB, &review).await;
        (
            answer["status"]["code"].clone(),
            message(&answer).to_owned(),
        )
    };
    let (code, text) = said("scale", json!(1), json!("many")).await;
    assert_eq!(code, 400);
    assert_eq!(text, "spec.replicas of the Scale is not an integer");
    assert_eq!(said("scale", json!(1), Value::Null).await.1, "");
    assert_eq!(said("scale", json!(11), json!(11)).await.1, "", "unchanged");
    let (code, text) = said("scale", json!(10), json!(11)).await;
    assert_eq!(code, 422);
    assert!(text.contains("the operator's limit"), "{text}");
    assert_eq!(said("other", json!(1), json!(-1)).await.1, "");
}

#[tokio::test]
async fn a_review_without_a_kind_an_operation_or_a_uid_is_rejected() {
    let server = Server::start().await;
    let good = creation(&memcached("v1alpha1", json!({"size": 1})));
    for (path, value, text) in [
        (
            "/kind",
            json!("Review"),
            "this endpoint answers reviews of apiVersion",
        ),
        (
            "/apiVersion",
            json!("admission.k8s.io/v1beta1"),
            "this endpoint answers reviews",
        ),
        ("/request", Value::Null, "the review has no request"),
        (
            "/request/uid",
            json!(""),
            "request.uid is missing, empty or too long",
        ),
        (
            "/request/uid",
            json!("u".repeat(257)),
            "request.uid is missing, empty or too long",
        ),
    ] {
        let mut review = good.clone();
        *review.pointer_mut(path).unwrap() = value;
        let reply = server.post(MEMCACHED_SPOKE, &review).await;
        assert_eq!(reply.code, 400, "{path}");
        assert_eq!(reply.json()["kind"], "Status");
        let said = reply.json()["message"].as_str().unwrap().to_owned();
        assert!(said.starts_with(text), "{path}: {said}");
    }
    let mut review = good.clone();
    review["request"]["uid"] = json!("u".repeat(256));
    assert_eq!(message(&asked(&server, MEMCACHED_SPOKE, &review).await), "");
    review["request"]["operation"] = json!("PATCH");
    let rejected = asked(&server, MEMCACHED_SPOKE, &review).await;
    assert_eq!(message(&rejected), "request.operation is unknown");
}
