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

#[tokio::test]
async fn a_negative_size_is_rejected_in_the_words_of_the_api_server() {
    let server = Server::start().await;
    let object = memcached("v1alpha1", json!({"size": -1}));
    let response = asked(&server, MEMCACHED_SPOKE, &creation(&object)).await;
    assert_eq!(
        response,
        json!({
            "uid": "u-1",
            "allowed": false,
            "status": {
                "status": "Failure",
                "code": 422,
                "reason": "Invalid",
                "message": "Memcached.cache.example.com \"x\" is invalid: \
                    spec.size: Invalid value: -1: must be greater than or equal to 0",
                "details": {"group": "cache.example.com", "kind": "Memcached", "name": "x", "causes": [{
                    "reason": "FieldValueInvalid",
                    "message": "Invalid value: -1: must be greater than or equal to 0",
                    "field": "spec.size",
                }]},
            },
        })
    );
}

#[tokio::test]
async fn every_sample_is_allowed_at_the_endpoint_of_its_kind_and_version_and_at_no_other() {
    let server = Server::start().await;
    for kind in kinds() {
        for version in [&kind.spoke, &kind.hub] {
            let sample = crate::packaging::sample(kind, version).unwrap();
            for (endpoint_kind, endpoint_version) in kinds()
                .iter()
                .flat_map(|kind| [(kind, &kind.spoke), (kind, &kind.hub)])
            {
                let path = paths::validate(endpoint_kind, endpoint_version);
                let response = asked(&server, &path, &creation(&sample)).await;
                let is_its_own =
                    endpoint_kind.kind == kind.kind && endpoint_version.name == version.name;
                assert_eq!(response["allowed"], json!(is_its_own), "{path} {response}");
                if !is_its_own {
                    assert_eq!(response["status"]["code"], 400);
                }
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
            let response = asked(&server, MEMCACHED_SPOKE, &review).await;
            assert_eq!(message(&response), "");
        }
        let mut review = update(&broken, object);
        review["request"]["subResource"] = json!("status");
        assert_eq!(message(&asked(&server, MEMCACHED_SPOKE, &review).await), "");
    }
}

#[tokio::test]
async fn an_update_that_leaves_what_is_wrong_alone_passes() {
    let server = Server::start().await;
    let old = memcached("v1", json!({"replicas": -1, "memory": 64}));
    let labelled = {
        let mut new = old.clone();
        new["metadata"]["labels"] = json!({"a": "b"});
        new
    };
    let other_field = memcached("v1", json!({"replicas": -1, "memory": 65}));
    for new in [labelled, other_field] {
        let response = asked(&server, MEMCACHED_HUB, &update(&old, &new)).await;
        assert_eq!(message(&response), "");
    }
    let worse = memcached("v1", json!({"replicas": -2, "memory": 64}));
    let response = asked(&server, MEMCACHED_HUB, &update(&old, &worse)).await;
    assert!(message(&response).contains("spec.replicas: Invalid value: -2"));
}

#[tokio::test]
async fn more_pods_than_the_limit_are_rejected_but_fewer_than_before_are_not() {
    let server = Server::start_with(TlsVersion::Tls12, 10).await;
    let of = |size: i64| memcached("v1alpha1", json!({"size": size}));
    let create = async |size| {
        let response = asked(&server, MEMCACHED_SPOKE, &creation(&of(size))).await;
        message(&response).to_owned()
    };
    let change = async |old, new| {
        let response = asked(&server, MEMCACHED_SPOKE, &update(&of(old), &of(new))).await;
        message(&response).to_owned()
    };
    assert_eq!(create(10).await, "");
    assert_eq!(
        create(11).await,
        "Memcached.cache.example.com \"x\" is invalid: spec.size: Invalid value: 11: \
         must be less than or equal to 10, the operator's limit (--max-replicas)"
    );
    assert_eq!(change(100, 99).await, "");
    assert!(change(100, 101).await.contains("101"));
    assert!(change(1, 11).await.contains("11"));
}

#[tokio::test]
async fn derived_pods_are_counted_in_the_version_that_was_written() {
    let server = Server::start_with(TlsVersion::Tls12, 3).await;
    let of = |version: &str, spec: Value| {
        json!({"apiVersion": format!("elasticweb.example.com/{version}"), "kind": "ElasticWeb",
            "metadata": {"name": "x"}, "spec": spec})
    };
    let spoke = |total: i64| {
        of(
            "v1",
            json!({"image": "i", "port": 30003, "singlePodsQPS": 800, "totalQPS": total}),
        )
    };
    let path = "/validate-elasticweb-example-com-v1-elasticweb";
    assert_eq!(
        message(&asked(&server, path, &creation(&spoke(2400))).await),
        ""
    );
    assert!(
        message(&asked(&server, path, &creation(&spoke(2401))).await).ends_with(
            "spec.totalQPS: Invalid value: 2401: gives 4 pods, which must be less than or equal \
             to 3, the operator's limit (--max-replicas)"
        )
    );
    let hub = of(
        "v2",
        json!({"image": "i", "capacity": {"perPodQPS": 1, "targetQPS": i32::MAX}, "service": {"nodePort": 30003}}),
    );
    let path = "/validate-elasticweb-example-com-v2-elasticweb";
    let response = asked(&server, path, &creation(&hub)).await;
    assert!(
        message(&response)
            .contains("spec.capacity.targetQPS: Invalid value: 2147483647: gives 2147483647 pods")
    );
}

#[tokio::test]
async fn a_name_that_no_service_can_have_is_rejected_where_a_service_is_new() {
    let server = Server::start().await;
    let of = |enabled: Value| {
        let mut object = memcached(
            "v1",
            json!({"service": {"enabled": enabled}, "replicas": 1}),
        );
        object["metadata"]["name"] = json!("1.x");
        object
    };
    let rejected = asked(&server, MEMCACHED_HUB, &creation(&of(json!(true)))).await;
    assert!(
        message(&rejected)
            .contains("metadata.name: Invalid value: \"1.x\": must be a DNS-1035 label")
    );
    let rejected = asked(
        &server,
        MEMCACHED_HUB,
        &update(&of(json!(false)), &of(json!(true))),
    )
    .await;
    assert!(message(&rejected).contains("metadata.name"));
    for enabled in [json!(false), Value::Null] {
        let allowed = asked(&server, MEMCACHED_HUB, &creation(&of(enabled))).await;
        assert_eq!(message(&allowed), "");
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
        assert_eq!(
            server.metric(&series),
            1.0,
            "{series}: {}",
            server.metrics()
        );
    }
    let requests = format!(
        "controller_runtime_webhook_requests_total{{webhook=\"{MEMCACHED_SPOKE}\",code=\"200\"}}"
    );
    assert_eq!(server.metric(&requests), 5.0);
    let in_flight =
        format!("controller_runtime_webhook_requests_in_flight{{webhook=\"{MEMCACHED_SPOKE}\"}}");
    assert_eq!(server.metric(&in_flight), 0.0);
    let latency = format!(
        "controller_runtime_webhook_latency_seconds_count{{webhook=\"{MEMCACHED_SPOKE}\"}}"
    );
    assert_eq!(server.metric(&latency), 5.0);
}
