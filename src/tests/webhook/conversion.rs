use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use crate::kinds::DATA_ANNOTATION;
use crate::tests::api::conversion::generators::arbitrary_object;
use quartet_versions::conversion::{ANNOTATIONS_LIMIT_BYTES, Converted, convert};

/// Checks an answer as the API server's webhook converter does: returns each object, or the error
/// message. Follows `getConvertedObjectsFromResponse`, `validateConvertedObject` and
/// `restoreObjectMeta` in apiextensions-apiserver's `pkg/apiserver/conversion/webhook_converter.go`.
fn accepted(review: &Value, answer: &Value) -> Result<Vec<Value>, String> {
    let request = &review["request"];
    if answer["apiVersion"] != "apiextensions.k8s.io/v1" || answer["kind"] != "ConversionReview" {
        return Err("expected webhook response of another version or kind".to_owned());
    }
    let response = &answer["response"];
    if response["uid"] != request["uid"] {
        return Err("expected another response.uid".to_owned());
    }
    if response["result"]["status"] != "Success" {
        return Err(response["result"]["message"].as_str().unwrap().to_owned());
    }
    let none = Vec::new();
    let objects = request["objects"].as_array().unwrap_or(&none);
    let converted = response["convertedObjects"].as_array();
    let converted = converted.ok_or("no objects")?;
    if converted.len() != objects.len() {
        return Err("returned another number of objects".to_owned());
    }
    let pairs = objects.iter().zip(converted).map(|(original, converted)| {
        if converted["apiVersion"] != request["desiredAPIVersion"] {
            return Err("invalid groupVersion".to_owned());
        }
        if converted["kind"] != original["kind"] {
            return Err("invalid kind".to_owned());
        }
        for field in ["name", "namespace", "uid"] {
            if converted["metadata"][field] != original["metadata"][field] {
                return Err(format!("must have the same {field}"));
            }
        }
        restored(original, converted)
    });
    pairs.collect()
}

/// The converted object with the metadata that the API server sets: the original's, with labels and
/// annotations of the converted object if they are valid.
fn restored(original: &Value, converted: &Value) -> Result<Value, String> {
    let answered = converted["metadata"].as_object();
    let answered = answered.ok_or("missing metadata in converted object")?;
    let mut metadata = original["metadata"].as_object().unwrap().clone();
    for field in ["labels", "annotations"] {
        let Some(map) = answered.get(field).filter(|map| !map.is_null()) else {
            metadata.remove(field);
            continue;
        };
        let map = map.as_object().ok_or("invalid metadata of another type")?;
        let bytes = map.iter().map(|(key, value)| {
            let value = value.as_str().ok_or("must be a string")?;
            Ok(key.len() + value.len())
        });
        let bytes: usize = bytes.sum::<Result<_, &str>>()?;
        let changed = metadata.get(field).and_then(Value::as_object) != Some(map);
        if changed && field == "annotations" && bytes > ANNOTATIONS_LIMIT_BYTES {
            return Err("metadata.annotations: Too long".to_owned());
        }
        if changed && field == "labels" {
            return Err("metadata.labels changed".to_owned());
        }
        metadata.insert(field.to_owned(), Value::Object(map.clone()));
    }
    let mut restored = converted.clone();
    restored["metadata"] = Value::Object(metadata);
    Ok(restored)
}

/// The answer of the endpoint to a review, without a connection.
fn answered(review: &str) -> Value {
    let metrics = Metrics::register(&mut Registry::default(), "quartet_operator");
    let handlers = Handlers::new(&kinds(), 0, &metrics);
    let (status, answer) = handlers.answer("/convert", review.as_bytes()).unwrap();
    assert_eq!(status, 200);
    serde_json::from_slice(&answer).unwrap()
}

/// Objects of one kind, as the API server stores them, and a version to convert them to.
fn stored_objects() -> impl Strategy<Value = (String, Vec<Value>)> {
    let metadata = |namespace: Option<String>, label: String, others: usize| {
        let mut metadata = json!({
            "name": "x", "uid": "0-1", "generation": 1, "labels": {"app": label},
            "managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {}}}],
        });
        if let Some(namespace) = namespace {
            metadata["namespace"] = json!(namespace);
        }
        if others > 0 {
            metadata["annotations"] = json!({"k": "x".repeat(others)});
        }
        metadata
    };
    prop::sample::select(kinds()).prop_flat_map(move |kind| {
        let to = prop::sample::select(vec![&kind.spoke, &kind.hub]);
        let versions = prop::sample::select(vec![kind.spoke.name, kind.hub.name]);
        let others = prop_oneof![4 => 0_usize..100, 1 => 250_000_usize..ANNOTATIONS_LIMIT_BYTES];
        let object = versions.prop_flat_map(move |version| {
            (
                arbitrary_object(kind, version),
                prop::option::of("[a-z]{1,8}"),
                "[a-z]{0,8}",
                others.clone(),
            )
                .prop_map(move |(mut object, namespace, label, others)| {
                    let data = object["metadata"]["annotations"][DATA_ANNOTATION].take();
                    object["metadata"] = metadata(namespace, label, others);
                    if data.is_string() && others < 100 {
                        object["metadata"]["annotations"][DATA_ANNOTATION] = data;
                    }
                    object
                })
        });
        (to, prop::collection::vec(object, 0..5))
            .prop_map(move |(to, objects)| (kind.api_version(to), objects))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn the_api_server_takes_every_answer_and_gets_what_conversion_gives(
        (desired, objects) in stored_objects()
    ) {
        let review = conversion(&desired, &objects);
        let answer = answered(&review.to_string());
        let accepted = accepted(&review, &answer);
        prop_assert!(accepted.is_ok(), "{accepted:?} {answer}");
        for (object, accepted) in objects.iter().zip(accepted.unwrap()) {
            let kind = kinds().into_iter().find(|kind| object["kind"] == kind.kind).unwrap();
            let to = kind.version(desired.split_once('/').unwrap().1).unwrap();
            let Converted { object: expected, .. } = convert(kind, object.clone(), to).unwrap();
            prop_assert_eq!(accepted, expected);
        }
    }
}

/// The message of a failed review.
fn failure(answer: &Value) -> &str {
    let result = &answer["response"]["result"];
    assert_eq!(result["status"], "Failure");
    assert_eq!(answer["response"]["convertedObjects"], json!([]));
    assert_eq!(answer["response"]["uid"], "u-2");
    result["message"].as_str().unwrap()
}

#[tokio::test]
async fn a_list_of_ten_thousand_objects_of_both_versions_keeps_its_order() {
    let server = Server::start().await;
    let objects: Vec<Value> = (0..10_000)
        .map(|number| {
            let mut object = match number % 3 {
                0 => memcached("v1", json!({"replicas": number})),
                _ => memcached("v1alpha1", json!({"size": number})),
            };
            object["metadata"]["name"] = json!(format!("x-{number}"));
            object
        })
        .collect();
    let review = conversion("cache.example.com/v1", &objects);
    let answer = server.post("/convert?timeout=30s", &review).await.json();
    let converted = accepted(&review, &answer).unwrap();
    for (number, object) in converted.iter().enumerate() {
        assert_eq!(object["spec"], json!({"replicas": number}));
        assert_eq!(object["metadata"]["name"], json!(format!("x-{number}")));
    }
    for (from, objects) in [("v1", 3334.0), ("v1alpha1", 6666.0)] {
        let series = format!(
            "quartet_operator_conversions_total{{kind=\"Memcached\",from=\"{from}\",to=\"v1\",result=\"success\"}}"
        );
        assert_eq!(server.metric(&series), objects);
    }
}

#[test]
fn what_cannot_be_converted_is_named_and_fails_the_whole_call() {
    let good = memcached("v1alpha1", json!({"size": 3}));
    let of = |api_version: &str, kind: &str| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", "namespace": "n"}});
    let hub = "cache.example.com/v1";
    let nginx = "n/x: cannot convert a \"Nginx\" to \"cache.example.com/v1\"";
    let v3 = "n/x: cannot convert a Memcached from apiVersion \"cache.example.com/v3\"";
    let other = "from apiVersion \"proxy.example.com/v1\"";
    let unnamed = "?: cannot convert a Memcached from apiVersion \"\"";
    for (bad, complaint) in [
        (of(hub, "Nginx"), nginx),
        (of("cache.example.com/v3", "Memcached"), v3),
        (of("proxy.example.com/v1", "Memcached"), other),
        (json!({"kind": "Memcached"}), unnamed),
        (json!({}), "?: cannot convert a \"\""),
    ] {
        let answer = answered(&conversion(hub, &[good.clone(), bad]).to_string());
        assert!(failure(&answer).contains(complaint), "{answer}");
    }
    for desired in ["cache.example.com/v9", "v1", ""] {
        let review = conversion(desired, std::slice::from_ref(&good));
        let answer = answered(&review.to_string());
        let complaint = format!("to {desired:?}");
        assert!(failure(&answer).contains(&complaint), "{answer}");
    }
    for bad in [Value::Null, json!(1), json!("x"), json!([])] {
        let answer = answered(&conversion(hub, &[good.clone(), bad]).to_string());
        assert!(failure(&answer).contains("an object"), "{answer}");
    }
    let mut review = conversion(hub, &[]);
    review["request"]["objects"] = json!(5);
    let answer = answered(&review.to_string());
    let complaint = "expected a list of objects";
    assert!(failure(&answer).contains(complaint), "{answer}");
}

#[test]
fn no_objects_are_converted_to_no_objects() {
    for objects in [json!([]), Value::Null] {
        let mut review = conversion("cache.example.com/v1", &[]);
        review["request"]["objects"] = objects;
        let found = accepted(&review, &answered(&review.to_string()));
        assert_eq!(found, Ok(Vec::new()));
    }
}

#[test]
fn the_members_of_a_request_may_come_in_any_order() {
    let object = memcached("v1alpha1", json!({"size": 3}));
    let review = conversion("cache.example.com/v1", &[object]);
    let request: Map<String, Value> = review["request"].as_object().unwrap().clone();
    // `serde_json` sorts by name: "desiredAPIVersion" comes before "objects" and "uid" last.
    let objects = &request["objects"];
    let text = format!(
        r#"{{"request":{{"objects":{objects},"more":{{}},"uid":"u-2","desiredAPIVersion":"cache.example.com/v1"}},
            "kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1"}}"#
    );
    assert_eq!(answered(&text), answered(&review.to_string()));
}

#[tokio::test]
async fn data_that_is_left_out_is_counted() {
    let server = Server::start().await;
    let mut object = memcached("v1", json!({"replicas": 1, "image": "a"}));
    object["metadata"]["annotations"] = json!({"k": "x".repeat(ANNOTATIONS_LIMIT_BYTES - 1)});
    let review = conversion("cache.example.com/v1alpha1", &[object.clone(), object]);
    let series = "quartet_operator_conversion_data_left_out_total{kind=\"Memcached\",from=\"v1\",to=\"v1alpha1\"}";
    // Or the first increase would not be one.
    let failures = "quartet_operator_conversions_total{kind=\"Memcached\",from=\"unknown\",to=\"v1\",result=\"failure\"}";
    let before = server.metrics();
    for series in [series, failures] {
        assert!(before.contains(&format!("{series} 0\n")), "{before}");
    }
    let answer = server.post("/convert", &review).await.json();
    assert!(accepted(&review, &answer).is_ok());
    assert_eq!(server.metric(series), 2.0, "{}", server.metrics());
}
