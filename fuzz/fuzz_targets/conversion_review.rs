//! Bodies of conversion calls. Invariants: every body gets a response; a review gets one with its
//! UID; every object of ours is converted as alone.
#![no_main]

use std::sync::LazyLock;

use arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use prometheus_client::registry::Registry;
use quartet_operator::kinds::OPERATORS;
use quartet_operator_fuzz::{is_json, reviews};
use quartet_versions::conversion::convert;
use quartet_versions::{Kind, Version};
use quartet_webhook::{Handlers, Metrics, paths};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

static HANDLERS: LazyLock<Handlers> = LazyLock::new(|| {
    let kinds: Vec<_> = OPERATORS.iter().map(|operator| operator.kind()).collect();
    let metrics = Metrics::register(&mut Registry::default(), "quartet_operator");
    Handlers::new(&kinds, 0, &metrics)
});

fuzz_target!(|input: &[u8]| {
    if is_json(input) {
        check(input);
    } else if let Ok(review) = reviews::conversion(&mut Unstructured::new(input)) {
        check(review.to_string().as_bytes());
    }
});

/// The length of the longest object that is converted, in bytes.
const LONGEST: usize = 7 << 20;

/// A valid review.
#[derive(Deserialize)]
struct Whole {
    request: WholeRequest,
}

#[derive(Deserialize)]
struct WholeRequest {
    #[serde(rename = "desiredAPIVersion")]
    desired: String,
    objects: Vec<Value>,
}

#[derive(Deserialize)]
struct Answer {
    response: Response,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    uid: String,
    converted_objects: Vec<Box<RawValue>>,
    result: Outcome,
}

#[derive(Deserialize)]
struct Outcome {
    status: String,
    message: Option<String>,
}

fn check(body: &[u8]) {
    let uid = reviews::uid_in(body, reviews::CONVERSION);
    let (status, bytes) = HANDLERS.answer(paths::CONVERT, body).expect("an endpoint");
    let (asked, answered) = (body.len(), bytes.len());
    let is_bounded = answered <= 4096 + 16 * asked;
    assert!(is_bounded, "{answered} bytes are answered to {asked}");
    let Some(uid) = uid else {
        let answer: Value = serde_json::from_slice(&bytes).expect("a response is JSON");
        assert_eq!(status, 400, "{answer}");
        assert_eq!(answer["kind"], "Status");
        return;
    };
    let shown = String::from_utf8_lossy(&bytes);
    assert_eq!(status, 200, "{shown}");
    let Answer { response } = serde_json::from_slice(&bytes).expect("a response is a review");
    assert_eq!(response.uid, uid);
    let whole: Option<Whole> = serde_json::from_slice(body).ok();
    match response.result.status.as_str() {
        "Success" => {
            if let Some(Whole { request }) = whole {
                check_success(&request, &response.converted_objects);
            }
        }
        "Failure" => {
            assert!(response.converted_objects.is_empty());
            assert_ne!(response.result.message.unwrap_or_default(), "");
            if let Some(Whole { request }) = whole {
                let convertible = |object: &Value| {
                    task(&request.desired, object).is_some() && object.to_string().len() <= LONGEST
                };
                assert!(!request.objects.iter().all(convertible), "{shown}");
            }
        }
        other => panic!("{other}"),
    }
}

/// Returns the kind of `object` and its desired version, if both are ours.
fn task(desired: &str, object: &Value) -> Option<(&'static Kind, &'static Version)> {
    let (group, version) = desired.split_once('/')?;
    let kind = OPERATORS
        .iter()
        .map(|operator| operator.kind())
        .find(|kind| kind.group == group && object["kind"] == kind.kind)?;
    let (from_group, from) = object["apiVersion"].as_str()?.split_once('/')?;
    let is_ours = from_group == group && kind.version(from).is_some();
    Some((kind, kind.version(version)?)).filter(|_| is_ours)
}

fn check_success(request: &WholeRequest, converted: &[Box<RawValue>]) {
    assert_eq!(converted.len(), request.objects.len());
    for (object, text) in request.objects.iter().zip(converted) {
        let there: Value = serde_json::from_str(text.get()).expect("what is converted is JSON");
        assert_eq!(there["apiVersion"], request.desired.as_str());
        for member in ["kind", "status"] {
            assert_eq!(there.get(member), object.get(member));
        }
        let (kind, to) = task(&request.desired, object).expect("only ours are converted");
        let expected = convert(kind, object.clone(), to).expect("is converted");
        assert_eq!(there, expected.object);
    }
}
