//! The exposition as read by a dashboard for controller-runtime.

use std::sync::Arc;

use prometheus_client::encoding::text::encode;

use super::*;
use crate::object::ObjectKey;
use crate::queue::{Priority, Queue};
use quartet_workload::DEPLOYMENT;

fn scrape(registry: &Registry) -> String {
    let mut text = String::new();
    encode(&mut text, registry).unwrap();
    text
}

fn assert_has(text: &str, line: &str) {
    let is_there = text.lines().any(|there| there == line);
    assert!(is_there, "no line {line:?} in\n{text}");
}

#[test]
fn every_series_of_a_controller_is_there_from_its_start() {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry, "quartet_operator");
    metrics.controller_started("memcached", &[Owned::always(DEPLOYMENT)], 5);
    let text = scrape(&registry);
    for line in [
        "controller_runtime_reconcile_total{controller=\"memcached\",result=\"success\"} 0",
        "controller_runtime_reconcile_total{controller=\"memcached\",result=\"error\"} 0",
        "controller_runtime_reconcile_total{controller=\"memcached\",result=\"requeue_after\"} 0",
        "controller_runtime_reconcile_errors_total{controller=\"memcached\"} 0",
        "controller_runtime_reconcile_panics_total{controller=\"memcached\"} 0",
        "controller_runtime_reconcile_timeouts_total{controller=\"memcached\"} 0",
        "controller_runtime_max_concurrent_reconciles{controller=\"memcached\"} 5",
        "controller_runtime_active_workers{controller=\"memcached\"} 0",
        "controller_runtime_reconcile_time_seconds_bucket{le=\"0.005\",controller=\"memcached\"} 0",
        "controller_runtime_reconcile_time_seconds_bucket{le=\"0.025\",controller=\"memcached\"} 0",
        "controller_runtime_reconcile_time_seconds_bucket{le=\"0.05\",controller=\"memcached\"} 0",
        "controller_runtime_reconcile_time_seconds_bucket{le=\"60.0\",controller=\"memcached\"} 0",
        "controller_runtime_reconcile_time_seconds_count{controller=\"memcached\"} 0",
    ] {
        assert_has(&text, line);
    }
}

#[tokio::test(start_paused = true)]
async fn a_scrape_shows_the_queue_as_it_is_at_that_moment() {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry, "quartet_operator");
    let queue = Queue::new("memcached", &metrics);
    let key = |name| ObjectKey::new("ns", name);
    queue.add(key("a"), Priority::Normal);
    queue.add(key("b"), Priority::Low);
    queue.add(key("c"), Priority::Low);
    queue.add_after(key("later"), Duration::from_secs(60));
    assert_eq!(queue.get().await, key("a"));
    queue.add(key("a"), Priority::Normal);
    tokio::time::advance(Duration::from_secs(3)).await;
    assert_eq!(queue.get().await, key("b"));
    tokio::time::advance(Duration::from_secs(1)).await;

    let has = |name: &str, more_labels: &str, value: &str| {
        let labels = format!("name=\"memcached\",controller=\"memcached\"{more_labels}");
        let line = format!("workqueue_{name}{{{labels}}} {value}");
        assert_has(&scrape(&registry), &line);
    };
    has("depth", ",priority=\"0\"", "1");
    has("depth", ",priority=\"-100\"", "1");
    has("adds_total", "", "4");
    has("retries_total", "", "1");
    has("queue_duration_seconds_count", "", "2");
    has("queue_duration_seconds_sum", "", "3.0");

    queue.done(&key("a"));
    has("work_duration_seconds_sum", "", "4.0");

    // A delayed key is counted when it is due.
    tokio::time::advance(Duration::from_secs(60)).await;
    has("adds_total", "", "5");
}

#[test]
fn buckets_of_the_work_queue_are_those_that_client_golang_computes() {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry, "quartet_operator");
    let _queue = Queue::new("q", &metrics);
    let text = scrape(&registry);
    let prefix = "workqueue_queue_duration_seconds_bucket{le=\"";
    let bound = |line: &str| line.strip_prefix(prefix)?.split('"').next()?.parse().ok();
    let bounds: Vec<f64> = text.lines().filter_map(bound).collect();
    // To the last bit, including rounding errors, as in the Kubernetes components.
    let small = [1e-8, 1e-7, 1e-6, 9.999999999999999e-6, 9.999999999999999e-5];
    let others = [0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0, f64::INFINITY];
    assert_eq!(bounds, [&small[..], &others].concat());
}

#[test]
fn a_queue_that_is_dropped_leaves_the_scrape() {
    let mut registry = Registry::default();
    let metrics = Arc::new(Metrics::register(&mut registry, "quartet_operator"));
    drop(Queue::new("gone", &metrics));
    assert!(!scrape(&registry).contains("workqueue_depth{name=\"gone\""));
}
