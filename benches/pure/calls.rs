//! Calls of the API server as the webhooks get them, and resources as a reconcile has them.

use prometheus_client::registry::Registry;
use quartet_operator::kinds::OPERATORS;
use quartet_operator::packaging;
use quartet_webhook::{Handlers, Metrics, paths};
use quartet_workload::api::status::Status;
use quartet_workload::{Operator, Resource};
use serde_json::{Value, json};

const UID: &str = "7c7b0c3e-8a7e-4d0c-9a55-0d9a5e6f1b2c";

/// Handlers of all kinds.
pub(crate) fn handlers() -> Handlers {
    let kinds: Vec<_> = OPERATORS.iter().map(|operator| operator.kind()).collect();
    Handlers::new(
        &kinds,
        1000,
        &Metrics::register(&mut Registry::default(), "quartet_operator"),
    )
}

/// The sample of a kind in one of its versions, as the API server stores it.
fn stored(operator: &dyn Operator, is_hub: bool) -> Value {
    let kind = operator.kind();
    let version = if is_hub { &kind.hub } else { &kind.spoke };
    let mut object = packaging::sample(kind, version).expect("a sample");
    object["metadata"]["namespace"] = json!("default");
    object["metadata"]["uid"] = json!(UID);
    object["metadata"]["generation"] = json!(1);
    object
}

/// Path and body of a call.
pub(crate) type Call = (String, Vec<u8>);

/// From the spoke version of a Memcached to its hub, so many objects in one call.
pub(crate) fn conversion(objects: usize) -> Call {
    let operator = OPERATORS[0];
    let review = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "request": {
            "uid": "a",
            "desiredAPIVersion": operator.kind().api_version(&operator.kind().hub),
            "objects": vec![stored(operator, false); objects],
        },
    });
    (paths::CONVERT.to_owned(), review.to_string().into_bytes())
}

/// A Memcached that is written for the first time, in either version.
pub(crate) fn admission(is_hub: bool) -> Call {
    review(is_hub, &stored(OPERATORS[0], is_hub), &Value::Null)
}

/// The update of the number of pods of a Memcached in its hub version.
pub(crate) fn update() -> Call {
    let old = stored(OPERATORS[0], true);
    let mut new = old.clone();
    new["spec"]["replicas"] = json!(5);
    review(true, &new, &old)
}

fn review(is_hub: bool, object: &Value, old: &Value) -> Call {
    let kind = OPERATORS[0].kind();
    let version = if is_hub { &kind.hub } else { &kind.spoke };
    let operation = if old.is_null() { "CREATE" } else { "UPDATE" };
    let review = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "a",
            "kind": {"group": kind.group, "version": version.name, "kind": kind.kind},
            "resource": {"group": kind.group, "version": version.name, "resource": kind.plural},
            "name": "memcached-sample",
            "namespace": "default",
            "operation": operation,
            "object": object,
            "oldObject": old,
        },
    });
    (
        paths::validate(kind, version),
        review.to_string().into_bytes(),
    )
}

/// The sample of a kind in its hub version.
pub(crate) fn resource(operator: &dyn Operator) -> Resource {
    let kind = operator.kind();
    Resource {
        namespace: "default".to_owned(),
        name: "sample".to_owned(),
        uid: UID.to_owned(),
        generation: 1,
        api_version: kind.api_version(&kind.hub),
        spec: stored(operator, true)["spec"].clone(),
        status: Status::default(),
        paused: None,
    }
}
