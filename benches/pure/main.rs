//! The cost of a call of the API server and of a reconcile without network and TLS: time, and the
//! number and size of allocations, which do not depend on the machine's load.
//! `make bench-pure`, or `cargo bench --bench pure conversion`.

mod calls;

use std::sync::LazyLock;

use divan::{AllocProfiler, Bencher, black_box};
use quartet_operator::kinds::OPERATORS;
use quartet_webhook::Handlers;
use quartet_workload::{Observed, Settings};

use self::calls::{Call, resource};

#[global_allocator]
static ALLOCATIONS: AllocProfiler = AllocProfiler::system();

static HANDLERS: LazyLock<Handlers> = LazyLock::new(calls::handlers);

fn main() {
    divan::main();
}

fn answer(bencher: Bencher<'_, '_>, (path, body): &Call) {
    let (status, _) = HANDLERS.answer(path, body).expect("an endpoint");
    assert_eq!(status, 200);
    bencher.bench(|| HANDLERS.answer(path, black_box(body)));
}

/// From the spoke version of each kind to its hub, with this many objects in one call.
#[divan::bench(args = [1, 500])]
fn conversion(bencher: Bencher<'_, '_>, objects: usize) {
    answer(bencher, &calls::conversion(objects));
}

/// A resource that is created, in either version.
#[divan::bench(args = [false, true])]
fn admission(bencher: Bencher<'_, '_>, is_hub: bool) {
    answer(bencher, &calls::admission(is_hub));
}

/// A resource whose number of pods changes.
#[divan::bench]
fn update(bencher: Bencher<'_, '_>) {
    answer(bencher, &calls::update());
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
    let desired = operator.desired(&resource, &settings);
    let observed = Observed {
        now: "2026-11-21T12:00:00Z".to_owned(),
        ..Observed::default()
    };
    bencher.bench(|| operator.status(black_box(&resource), &desired, &observed));
}
