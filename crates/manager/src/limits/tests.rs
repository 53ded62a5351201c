use super::*;
use quartet_webhook::limits::{CALL_BYTES, FREE_BYTES, WEBHOOKS};

use quartet_operator::kinds::OPERATORS;
use quartet_workload::owned_by;

/// Memory limit of the container in our manifests.
const CONTAINER_LIMIT: usize = 288 * MIB;
/// Memory of the process and its caches, with 2500 resources with one pod each: docs/sizing.md.
const PROCESS_BYTES: usize = 56 * MIB;
/// The same with 2000 resources, which is what further kinds may leave of it.
const LEAST_PROCESS_BYTES: usize = 48 * MIB;
/// Memory of one connection without the header: its record and task, and the TLS buffers.
const CONNECTION_BYTES: usize = 4 * KIB;
const TLS_CONNECTION_BYTES: usize = 16 * KIB;
/// Memory of the computation of a response besides body and response: the tree of one spec, and an object.
const COMPUTATION_BYTES: usize = 2 * MIB;
/// Memory of a page of a list of 2.5 MiB: its text, and its objects as trees, which take 7 times that. No
/// limit enforces this length.
const PAGE_BYTES: usize = (1 + 7) * 5 * MIB / 2;
/// hyper's largest buffer of a connection to the API server.
const READ_BYTES: usize = 408 * KIB;

/// The rows of docs/memory.md that follow from the constants, for the first `kinds` operators.
fn rows(kinds: usize) -> Vec<(&'static str, usize)> {
    let operators = &OPERATORS[..kinds];
    // Each kind, each type of child, pods, and the Lease.
    let watches = operators.len() + owned_by(operators).len() + 2;
    let connections =
        |limits: Limits, others: usize| limits.connections * (limits.header_bytes + others);
    let of_metrics = connections(METRICS, TLS_CONNECTION_BYTES);
    let of_webhooks = connections(WEBHOOKS, TLS_CONNECTION_BYTES + FREE_BYTES);
    let answers = PAGE_BYTES + watches * READ_BYTES;
    vec![
        ("process and caches", PROCESS_BYTES),
        ("health connections", connections(HEALTH, CONNECTION_BYTES)),
        ("metrics connections", of_metrics),
        ("webhook connections", of_webhooks),
        ("answers with metrics", SCRAPES * SCRAPE_BYTES),
        ("large calls", CALL_BYTES),
        ("work on large calls", COMPUTATIONS * COMPUTATION_BYTES),
        ("answers of the API server", answers),
    ]
}

fn total(kinds: usize) -> usize {
    rows(kinds).iter().map(|(_, bytes)| bytes).sum()
}

/// The page is about the four kinds.
#[test]
fn the_budget_is_within_the_container_s_limit_and_documented() {
    let table = include_str!("../../../../docs/memory.md");
    let total = total(4);
    assert!(total <= CONTAINER_LIMIT, "{} MiB", total / MIB);
    for (name, bytes) in rows(4) {
        let row = format!("| {name} | {:.1} |", bytes as f64 / MIB as f64);
        let documented = table.lines().any(|line| line.starts_with(&row));
        assert!(documented, "docs/memory.md has no row {row}");
    }
}

/// They need more watches.
#[test]
fn further_kinds_leave_enough_memory_for_the_caches() {
    let others = total(OPERATORS.len()) - PROCESS_BYTES;
    assert!(
        others + LEAST_PROCESS_BYTES <= CONTAINER_LIMIT,
        "{} kinds need {} MiB besides their caches: raise the memory limit, which is \
         CONTAINER_LIMIT here, and in config/manager, config/migrate-storage, \
         packaging/chart/values.yaml and docs/memory.md",
        OPERATORS.len(),
        others / MIB
    );
}
