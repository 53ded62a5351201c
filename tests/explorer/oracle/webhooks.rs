//! O8: the calls that an API server makes to the webhooks for what is stored in a run.

use std::sync::LazyLock;

use modelapi::{Change, Stored};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use super::super::plan::Plan;
use super::super::run::Outcome;
use super::super::violation::Add;
use quartet_operator::kinds::OPERATORS;
use quartet_versions::conversion::other;
use quartet_versions::{Kind, Version};
use quartet_webhook::{Handlers, Metrics, paths};

/// Maximum number of pods of a resource.
const MAX_REPLICAS: u32 = 100;

static HANDLERS: LazyLock<Handlers> = LazyLock::new(|| {
    let kinds: Vec<_> = OPERATORS.iter().map(|operator| operator.kind()).collect();
    let metrics = Metrics::register(&mut Registry::default(), "quartet_operator");
    Handlers::new(&kinds, MAX_REPLICAS, &metrics)
});

/// The response to a review with the uid of the request; an error for any other answer.
fn response(path: &str, mut review: Value) -> Result<Value, String> {
    review["request"]["uid"] = "uid-of-the-review".into();
    let answer = HANDLERS.answer(path, review.to_string().as_bytes());
    let (code, body) = answer.ok_or_else(|| format!("no endpoint {path}"))?;
    let mut answer: Value = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
    match (code, &answer["response"]["uid"] == "uid-of-the-review") {
        (200, true) => Ok(answer["response"].take()),
        _ => Err(format!("{path}: {code}, {answer}")),
    }
}

/// Whether an object is admitted.
fn admits(kind: &Kind, before: Option<&Value>, object: &Value) -> Result<bool, String> {
    let (group, version) = (kind.group, kind.hub.name);
    let review = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "kind": {"group": group, "version": version, "kind": kind.kind},
            "resource": {"group": group, "version": version, "resource": kind.plural},
            "name": object["metadata"]["name"], "namespace": object["metadata"]["namespace"],
            "operation": if before.is_some() { "UPDATE" } else { "CREATE" },
            "object": object, "oldObject": before,
        },
    });
    let response = response(&paths::validate(kind, &kind.hub), review)?;
    Ok(response["allowed"] == true)
}

/// The object in another version.
fn converted(kind: &Kind, version: &Version, object: &Value) -> Result<Value, String> {
    let review = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "request": {"desiredAPIVersion": kind.api_version(version), "objects": [object]},
    });
    let mut response = response(paths::CONVERT, review)?;
    if response["result"]["status"] == "Success" {
        Ok(response["convertedObjects"][0].take())
    } else {
        Err(format!("to {}: {response}", version.name))
    }
}

/// What is wrong with the answers for one stored version of the resource.
fn wrong(plan: &Plan, stored: &Stored) -> Result<(), String> {
    let (subject, object) = (plan.subject(), &*stored.object);
    let kind = subject.operator().kind();
    let there = converted(kind, other(kind, plan.version()), object)?;
    let back = converted(kind, plan.version(), &there)?;
    if back["spec"] != object["spec"] || back["status"] != object["status"] {
        return Err(format!("{object} came back as {back}"));
    }
    if stored.by != "user" {
        return Ok(());
    }
    // Users write the hub version.
    let object = converted(kind, &kind.hub, object)?;
    let before = stored.before.as_deref();
    let before = before.map(|before| converted(kind, &kind.hub, before));
    if !admits(kind, before.transpose()?.as_ref(), &object)? {
        return Err(format!("rejected: {object}"));
    }
    let mut invalid = object;
    let pods = subject.pods(i64::from(MAX_REPLICAS) + 1);
    for (field, value) in pods.as_object().into_iter().flatten() {
        invalid["spec"][field] = value.clone();
    }
    if admits(kind, None, &invalid)? {
        Err(format!("admitted: {invalid}"))
    } else {
        Ok(())
    }
}

/// Each call is answered with its uid; a valid object is admitted and an invalid one rejected; a
/// conversion to the other version and back loses nothing.
pub(super) fn calls(plan: &Plan, outcome: &Outcome, add: &mut Add<'_>) {
    let id = plan.subject().id();
    let of_resource = |it: &&Stored| it.id == id && it.change != Change::Deleted;
    for stored in outcome.log.iter().filter(of_resource) {
        if let Err(what) = wrong(plan, stored) {
            add("O8", what);
        }
    }
}
