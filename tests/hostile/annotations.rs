//! Hostile conversion data, which anybody may write into the annotation of an object.

use futures::future::join_all;
use serde_json::json;

use crate::MIB;
use crate::manager::{Manager, conversion_of, list_of};

/// How much memory the calls may add to the manager.
const LIMIT: usize = 32 * MIB;
const CLIENTS: usize = 8;

/// Promise: conversion data of half a million values, which is not ours, is not parsed into a tree.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conversion_data_of_many_values_uses_bounded_memory() {
    let manager = Manager::start().await;
    assert_eq!(manager.good_call("/convert", &list_of(1)).await.code, 200);
    let before = manager.resident();
    let data = format!(r#"{{"v1":[{{}}{}]}}"#, ",{}".repeat(MIB / 2));
    let object = json!({
        "apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached",
        "metadata": {
            "name": "x", "namespace": "n", "uid": "u",
            "annotations": {"quartet-operator.example.com/conversion-data": data},
        },
        "spec": {"size": 3},
    });
    let body = conversion_of(&object.to_string(), 1);
    let calls = (0..CLIENTS).map(|_| manager.good_call("/convert", &body));
    for reply in join_all(calls).await {
        // Others may wait too long for shared memory.
        assert!([200, 503].contains(&reply.code), "{}", reply.code);
    }
    let grown = manager
        .peak("conversion data of many values")
        .saturating_sub(before);
    assert!(grown <= LIMIT, "grown by {} KiB", grown / 1024);
}
