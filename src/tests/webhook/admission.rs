use serde_json::{Value, json};

use super::*;
use quartet_webhook::paths;

/// Posts a review; checks the common fields and returns the response.
pub(super) async fn asked(server: &Server, path: &str, review: &Value) -> Value {
    let reply = server.post(path, review).await;
    assert_eq!(reply.code, 200, "{reply:?}");
    assert_eq!(reply.header("content-type"), Some("application/json"));
    let answer = reply.json();
    assert_eq!(answer["apiVersion"], "admission.k8s.io/v1");
    assert_eq!(answer["kind"], "AdmissionReview");
    assert_eq!(answer["response"]["uid"], review["request"]["uid"]);
    answer["response"].clone()
}

/// The message of a rejection, or nothing.
pub(super) fn message(response: &Value) -> &str {
    assert_eq!(response["allowed"], json!(response["status"].is_null()));
    response["status"]["message"].as_str().unwrap_or("")
}

/// Posts a review; returns the message of the rejection, or nothing.
pub(super) async fn said(server: &Server, path: &str, review: &Value) -> String {
    message(&asked(server, path, review).await).to_owned()
}

#[tokio::test]
async fn a_negative_size_is_rejected_in_the_words_of_the_api_server() {
    let server = Server::start().await;
    let object = memcached("v1alpha1", json!({"size": -1}));
    let response = asked(&server, MEMCACHED_SPOKE, &creation(&object)).await;
    let cause = json!({
        "reason": "FieldValueInvalid", "field": "spec.size",
        "message": "Invalid value: -1: must be greater than or equal to 0",
    });
    let status = json!({
        "status": "Failure", "code": 422, "reason": "Invalid",
        "message": "Memcached.cache.example.com \"x\" is invalid: \
                    spec.size: Invalid value: -1: must be greater than or equal to 0",
        "details": {"group": "cache.example.com", "kind": "Memcached", "name": "x", "causes": [cause]},
    });
    let expected = json!({"uid": "u-1", "allowed": false, "status": status});
    assert_eq!(response, expected);
}

#[tokio::test]
async fn every_sample_is_allowed_at_the_endpoint_of_its_kind_and_version_and_at_no_other() {
    let server = Server::start().await;
    let all = kinds().into_iter();
    let all: Vec<_> = all
        .flat_map(|kind| [(kind, &kind.spoke), (kind, &kind.hub)])
        .collect();
    for (kind, version) in &all {
        let sample = crate::packaging::sample(kind, version).unwrap();
        for (at_kind, at_version) in &all {
            let path = paths::validate(at_kind, at_version);
            let response = asked(&server, &path, &creation(&sample)).await;
            let is_its_own = (at_kind.kind, at_version.name) == (kind.kind, version.name);
            assert_eq!(response["allowed"], json!(is_its_own), "{path} {response}");
            if !is_its_own {
                assert_eq!(response["status"]["code"], 400);
            }
        }
    }
}

#[tokio::test]
async fn deletions_connects_and_status_are_never_rejected_whatever_the_object() {
    let server = Server::start().await;
    let broken = memcached("v1alpha1", json!({"size": -1}));
    for object in [&broken, &Value::Null, &json!([1])] {
        for operation in ["DELETE", "CONNECT"] {
            let mut review = creation(object);
            review["request"]["operation"] = json!(operation);
            review["request"]["oldObject"] = broken.clone();
            assert_eq!(said(&server, MEMCACHED_SPOKE, &review).await, "");
        }
        let mut review = update(&broken, object);
        review["request"]["subResource"] = json!("status");
        assert_eq!(said(&server, MEMCACHED_SPOKE, &review).await, "");
    }
}

#[tokio::test]
async fn an_update_that_leaves_what_is_wrong_alone_passes() {
    let server = Server::start().await;
    let old = memcached("v1", json!({"replicas": -1, "memory": 64}));
    let mut labelled = old.clone();
    labelled["metadata"]["labels"] = json!({"a": "b"});
    let other_field = memcached("v1", json!({"replicas": -1, "memory": 65}));
    for new in [labelled, other_field] {
        let review = update(&old, &new);
        assert_eq!(said(&server, MEMCACHED_HUB, &review).await, "");
    }
    let worse = memcached("v1", json!({"replicas": -2, "memory": 64}));
    let said = said(&server, MEMCACHED_HUB, &update(&old, &worse)).await;
    assert!(said.contains("spec.replicas: Invalid value: -2"), "{said}");
}

#[tokio::test]
async fn more_pods_than_the_limit_are_rejected_but_fewer_than_before_are_not() {
    let server = Server::start_with(TlsVersion::Tls12, 10).await;
    let of = |size: i64| memcached("v1alpha1", json!({"size": size}));
    let over = "Memcached.cache.example.com \"x\" is invalid: spec.size: Invalid value: 11: \
                must be less than or equal to 10, the operator's limit (--max-replicas)";
    for (review, complaint) in [
        (creation(&of(10)), ""),
        (creation(&of(11)), over),
        (update(&of(100), &of(99)), ""),
        (update(&of(100), &of(101)), "101"),
        (update(&of(1), &of(11)), "11"),
    ] {
        let said = said(&server, MEMCACHED_SPOKE, &review).await;
        assert!(said.contains(complaint), "{said}");
        assert_eq!(said.is_empty(), complaint.is_empty(), "{said}");
    }
}

#[tokio::test]
async fn derived_pods_are_counted_in_the_version_that_was_written() {
    let server = Server::start_with(TlsVersion::Tls12, 3).await;
    let said = async |version: &str, spec: Value| {
        let path = format!("/validate-elasticweb-example-com-{version}-elasticweb");
        let api_version = format!("elasticweb.example.com/{version}");
        let metadata = json!({"name": "x"});
        let object = json!({"apiVersion": api_version, "kind": "ElasticWeb", "metadata": metadata, "spec": spec});
        said(&server, &path, &creation(&object)).await
    };
    let spoke =
        |total: i64| json!({"image": "i", "port": 30003, "singlePodsQPS": 800, "totalQPS": total});
    assert_eq!(said("v1", spoke(2400)).await, "");
    let message = said("v1", spoke(2401)).await;
    let expected = "spec.totalQPS: Invalid value: 2401: gives 4 pods, which must be less than or equal \
                    to 3, the operator's limit (--max-replicas)";
    assert!(message.ends_with(expected), "{message}");
    let capacity = json!({"perPodQPS": 1, "targetQPS": i32::MAX});
    let hub = json!({"image": "i", "capacity": capacity, "service": {"nodePort": 30003}});
    let message = said("v2", hub).await;
    let expected = "spec.capacity.targetQPS: Invalid value: 2147483647: gives 2147483647 pods";
    assert!(message.contains(expected), "{message}");
}

#[tokio::test]
async fn a_name_that_no_service_can_have_is_rejected_where_a_service_is_new() {
    let server = Server::start().await;
    let of = |enabled: Value| {
        let spec = json!({"service": {"enabled": enabled}, "replicas": 1});
        let mut object = memcached("v1", spec);
        object["metadata"]["name"] = json!("1.x");
        object
    };
    let (on, off, unset) = (of(json!(true)), of(json!(false)), of(Value::Null));
    let expected = "metadata.name: Invalid value: \"1.x\": must be a DNS-1035 label";
    for review in [creation(&on), update(&off, &on)] {
        let said = said(&server, MEMCACHED_HUB, &review).await;
        assert!(said.contains(expected), "{said}");
    }
    for allowed in [creation(&off), creation(&unset)] {
        assert_eq!(said(&server, MEMCACHED_HUB, &allowed).await, "");
    }
}

#[tokio::test]
async fn decisions_are_counted_by_their_reason() {
    let server = Server::start_with(TlsVersion::Tls13, 10).await;
    let of = |size: i64| memcached("v1alpha1", json!({"size": size}));
    for review in [
        creation(&of(1)),
        creation(&of(-1)),
        creation(&of(11)),
        update(&of(11), &of(11)),
        creation(&Value::Null),
    ] {
        asked(&server, MEMCACHED_SPOKE, &review).await;
    }
    for (operation, reason) in [
        ("CREATE", "valid"),
        ("CREATE", "invalid"),
        ("CREATE", "replicas_over_limit"),
        ("UPDATE", "valid"),
        ("CREATE", "malformed"),
    ] {
        let series = format!(
            "quartet_operator_admission_decisions_total{{kind=\"Memcached\",version=\"v1alpha1\",\
             operation=\"{operation}\",reason=\"{reason}\"}}"
        );
        assert_eq!(server.metric(&series), 1.0, "{series}");
    }
    let webhook = format!("webhook=\"{MEMCACHED_SPOKE}\"");
    for (series, value) in [
        (format!("requests_total{{{webhook},code=\"200\"}}"), 5.0),
        (format!("requests_in_flight{{{webhook}}}"), 0.0),
        (format!("latency_seconds_count{{{webhook}}}"), 5.0),
    ] {
        let series = format!("controller_runtime_webhook_{series}");
        assert_eq!(server.metric(&series), value, "{series}");
    }
}
