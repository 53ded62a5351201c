//! The cost of a call of the API server and of a reconcile without network and TLS: time, and the
//! number and size of allocations, which do not depend on the machine's load.
//! `make bench-pure`, or `cargo bench --bench pure conversion`.

use std::sync::LazyLock;

use divan::{AllocProfiler, Bencher, black_box};
use prometheus_client::registry::Registry;
use quartet_operator::api::status::Status;
use quartet_operator::operators::{self, OPERATORS, Observed, Operator, Resource, Settings};
use quartet_operator::packaging::sample;
use quartet_operator::webhook::{Handlers, Metrics, paths};
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATIONS: AllocProfiler = AllocProfiler::system();

static HANDLERS: LazyLock<Handlers> = LazyLock::new(|| {
    let kinds: Vec<_> = OPERATORS.iter().map(|operator| operator.kind()).collect();
    Handlers::new(&kinds, 1000, &Metrics::register(&mut Registry::default()))
});

fn main() {
    divan::main();
}

/// The sample of a kind in one of its versions, as the API server stores it.
fn stored(operator: &dyn Operator, is_hub: bool) -> Value {
    let kind = operator.kind();
    let version = if is_hub { &kind.hub } else { &kind.spoke };
    let mut object = sample::sample(kind, version).expect("a sample");
    object["metadata"]["namespace"] = json!("default");
    object["metadata"]["uid"] = json!("7c7b0c3e-8a7e-4d0c-9a55-0d9a5e6f1b2c");
    object["metadata"]["generation"] = json!(1);
    object
}

fn answer(bencher: Bencher<'_, '_>, path: &str, review: &Value) {
    let body = review.to_string().into_bytes();
    let (status, _) = HANDLERS.answer(path, &body).expect("an endpoint");
    assert_eq!(status, 200);
    bencher.bench(|| HANDLERS.answer(path, black_box(&body)));
}

/// From the spoke version of each kind to its hub, with this many objects in one call.
#[divan::bench(args = [1, 500])]
fn conversion(bencher: Bencher<'_, '_>, objects: usize) {
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
    answer(bencher, paths::CONVERT, &review);
}

/// A resource that is created, in either version.
#[divan::bench(args = [false, true])]
fn admission(bencher: Bencher<'_, '_>, is_hub: bool) {
    let kind = OPERATORS[0].kind();
    let version = if is_hub { &kind.hub } else { &kind.spoke };
    let review = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "a",
            "kind": {"group": kind.group, "version": version.name, "kind": kind.kind},
            "resource": {"group": kind.group, "version": version.name, "resource": kind.plural},
            "name": "memcached-sample",
            "namespace": "default",
            "operation": "CREATE",
            "object": stored(OPERATORS[0], is_hub),
        },
    });
    answer(bencher, &paths::validate(kind, version), &review);
}

/// The children of a resource, for each kind.
#[divan::bench(args = 0..OPERATORS.len())]
fn desired(bencher: Bencher<'_, '_>, operator: usize) {
    let operator = OPERATORS[operator];
    let (resource, settings) = (resource(operator), Settings::default());
    bencher.bench(|| operator.desired(black_box(&resource), &settings));
}

/// The status of a resource from its observed children, for each kind.
#[divan::bench(args = 0..OPERATORS.len())]
fn status(bencher: Bencher<'_, '_>, operator: usize) {
    let operator = OPERATORS[operator];
    let (resource, settings) = (resource(operator), Settings::default());
    let desired = operators::summary(&operator.desired(&resource, &settings));
    let observed = Observed {
        now: "2026-11-21T12:00:00Z".to_owned(),
        ..Observed::default()
    };
    bencher.bench(|| operator.status(black_box(&resource), &desired, &observed));
}

fn resource(operator: &dyn Operator) -> Resource {
    let kind = operator.kind();
    let object = stored(operator, true);
    Resource {
        namespace: "default".to_owned(),
        name: "sample".to_owned(),
        uid: "7c7b0c3e-8a7e-4d0c-9a55-0d9a5e6f1b2c".to_owned(),
        generation: 1,
        api_version: kind.api_version(&kind.hub),
        spec: object["spec"].clone(),
        status: Status::default(),
        paused: false,
    }
}
