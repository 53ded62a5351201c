//! Bodies of admission calls, each sent to the endpoint that its length selects. Invariants: every
//! body gets a response; a review gets one with its UID; an allowed object can be converted and
//! reconciled.
#![no_main]

use std::sync::LazyLock;

use arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use prometheus_client::registry::Registry;
use quartet_operator::kinds::OPERATORS;
use quartet_operator_fuzz::resources::{Sample, resource};
use quartet_operator_fuzz::{is_json, reviews};
use quartet_versions::conversion::{convert, hub_spec};
use quartet_webhook::{Handlers, Metrics, paths};
use quartet_workload::Settings;
use serde_json::Value;

static HANDLERS: LazyLock<Handlers> = LazyLock::new(|| {
    let kinds: Vec<_> = OPERATORS.iter().map(|operator| operator.kind()).collect();
    let metrics = Metrics::register(&mut Registry::default(), "quartet_operator");
    Handlers::new(&kinds, Settings::default().max_replicas, &metrics)
});

static PATHS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let kinds = OPERATORS.iter().map(|operator| operator.kind());
    let versions = kinds.flat_map(|kind| [(kind, &kind.spoke), (kind, &kind.hub)]);
    versions
        .map(|(kind, version)| paths::validate(kind, version))
        .collect()
});

fuzz_target!(|input: &[u8]| {
    if is_json(input) {
        let uid = reviews::uid_in(input, reviews::ADMISSION);
        let path = &PATHS[input.len() % PATHS.len()];
        answer(path, input, uid.as_deref());
    } else if let Ok((review, sample)) = reviews::admission(&mut Unstructured::new(input)) {
        let body = review.to_string();
        let uid = reviews::uid_in(body.as_bytes(), reviews::ADMISSION);
        let path = paths::validate(sample.kind, sample.version);
        let response = answer(&path, body.as_bytes(), uid.as_deref());
        if response["allowed"] == true {
            check_allowed(&review["request"], &sample);
        }
    }
});

/// Returns the response, or null if the body is not a review.
fn answer(path: &str, body: &[u8], uid: Option<&str>) -> Value {
    let (status, bytes) = HANDLERS.answer(path, body).expect("an endpoint");
    let answer: Value = serde_json::from_slice(&bytes).expect("a response is JSON");
    let (asked, answered) = (body.len(), bytes.len());
    let is_bounded = answered <= 64 * 1024 + 16 * asked;
    assert!(is_bounded, "{answered} bytes are answered to {asked}");
    let Some(uid) = uid else {
        assert_eq!(status, 400, "{answer}");
        assert_eq!(answer["kind"], "Status");
        assert_ne!(answer["message"], "");
        return Value::Null;
    };
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["kind"], "AdmissionReview");
    assert_eq!(answer["apiVersion"], "admission.k8s.io/v1");
    let response = &answer["response"];
    assert_eq!(response["uid"], uid);
    if response["allowed"] != true {
        check_refusal(response);
    }
    response.clone()
}

fn check_refusal(response: &Value) {
    assert_eq!(response["allowed"], false, "{response}");
    let status = &response["status"];
    assert_ne!(status["message"].as_str().unwrap_or_default(), "");
    let causes = status["details"]["causes"].as_array();
    match status["code"].as_u64() {
        Some(400) => {}
        Some(422) => {
            let causes = causes.expect("a rejection has causes");
            assert!(!causes.is_empty());
            for cause in causes {
                for part in ["field", "reason", "message"] {
                    assert_ne!(cause[part].as_str().unwrap_or_default(), "", "{cause}");
                }
            }
        }
        code => panic!("{code:?}: {response}"),
    }
}

/// Checks that an allowed object can be converted without loss and gives children.
fn check_allowed(request: &Value, sample: &Sample) {
    let is_new = match request["operation"].as_str() {
        Some("CREATE") => true,
        Some("UPDATE") => false,
        _ => return,
    };
    let limit = i64::from(Settings::default().max_replicas);
    match request["subResource"].as_str().unwrap_or_default() {
        "" => {}
        "scale" => {
            let replicas = |object: &str| request[object]["spec"]["replicas"].as_i64().unwrap_or(0);
            let (new, old) = (replicas("object"), replicas("oldObject"));
            let is_unchanged = request["object"]["spec"] == request["oldObject"]["spec"];
            assert!(is_unchanged || new >= 0);
            assert!(new <= limit || !is_new && new <= old);
            return;
        }
        _ => return,
    }
    let (kind, version, object) = (sample.kind, sample.version, &request["object"]);
    if *object != sample.object {
        return;
    }
    let spec = &object["spec"];
    if !is_new {
        let old = &request["oldObject"]["spec"];
        let is_deleted = object["metadata"].get("deletionTimestamp").is_some();
        let pods = |spec| version.pods.wanted(spec).unwrap_or_default();
        assert!(is_deleted || pods(spec) >= 0 || pods(spec) == pods(old));
        return;
    }
    // The API server has checked the schema before it calls the webhook.
    if version.validate(spec).is_err() {
        return;
    }
    let converted = convert(kind, object.clone(), sample.other_version()).expect("is converted");
    assert!(!converted.data_left_out, "some fields are lost");
    let hub = hub_spec(kind, version, spec, object["metadata"].get("annotations"));
    let checked = kind.hub.validate(&hub);
    assert_eq!(checked, Ok(()), "{spec} gives {hub}");
    let resource = resource(kind, object);
    if !resource.name.is_empty() {
        let desired = sample.operator.desired(&resource, &Settings::default());
        assert!(desired.is_ok(), "{resource:?}: {:?}", desired.err());
    }
}
