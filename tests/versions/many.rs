//! Ten thousand objects of one kind: how long they are unreadable after a change of their CRD. The
//! limit is 20 s.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use k8s_openapi::ByteString;
use quartet_operator::kinds::memcached;
use quartet_operator::packaging;
use quartet_versions::{Kind, Version};
use serde_json::{Value, json};
use testkit::load_factor;

use crate::environment::{Form, TestEnv, collection, object};
use testkit::Etcd;

const MEMCACHED: &Kind = &memcached::KIND;
const OBJECTS: usize = 10_000;
/// The longest time for which the objects may be unreadable after a change of their CRD.
const PROMISED: Duration = Duration::from_secs(20);
/// etcd allows 128 operations in a transaction.
const PUTS_AT_ONCE: usize = 100;

/// Creates one object and then copies its data in etcd: creating them through the API server would
/// take longer than the test itself.
async fn create_all(env: &TestEnv) {
    let first = object(MEMCACHED, &MEMCACHED.spoke, &name(0), json!({"size": 0}));
    let spoke = collection(MEMCACHED, &MEMCACHED.spoke, "default");
    env.create(&spoke, &first).await.expect("created");
    let etcd = Etcd::at(&env.cluster.etcd_url());
    let base64 = |text: String| ByteString(text.into_bytes());
    let (group, plural) = (MEMCACHED.group, MEMCACHED.plural);
    let key = |number: usize| {
        let name = name(number);
        base64(format!("/registry/{group}/{plural}/default/{name}"))
    };
    let answer = etcd.call("kv/range", &json!({"key": key(0)})).await;
    let value = answer["kvs"][0]["value"].clone();
    let value: ByteString = serde_json::from_value(value).expect("a value");
    let first: Value = serde_json::from_slice(&value.0).expect("JSON");
    for numbers in (1..OBJECTS).collect::<Vec<_>>().chunks(PUTS_AT_ONCE) {
        let puts = numbers.iter().map(|&number| {
            let mut copy = first.clone();
            copy["metadata"]["name"] = json!(name(number));
            copy["metadata"]["uid"] = json!(format!("00000000-0000-4000-8000-{number:012}"));
            copy["spec"]["size"] = json!(number);
            json!({"requestPut": {"key": key(number), "value": base64(copy.to_string())}})
        });
        let transaction = json!({"success": puts.collect::<Vec<_>>()});
        let answer = etcd.call("kv/txn", &transaction).await;
        assert_eq!(answer["succeeded"], true, "{answer}");
    }
}

fn name(number: usize) -> String {
    format!("m-{number}")
}

/// Asserts that every object is listed in this version, with its original number of pods.
async fn assert_all_are_listed(env: &TestEnv, version: &Version, field: &str) {
    let list = env.get(&collection(MEMCACHED, version, "default")).await;
    let list = list.expect("a list");
    let items = list["items"].as_array().expect("items");
    let mut numbers = BTreeSet::new();
    for item in items {
        assert_eq!(item["apiVersion"], MEMCACHED.api_version(version));
        let number = item["spec"][field].as_u64().expect("a number");
        let number = usize::try_from(number).expect("small");
        assert_eq!(item["metadata"]["name"], name(number));
        numbers.insert(number);
    }
    assert_eq!((items.len(), numbers.len()), (OBJECTS, OBJECTS));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ten_thousand_objects_are_readable_in_both_versions_right_after_a_change() {
    let env = TestEnv::with_api_server().await;
    env.apply_crds(packaging::original_only).await;
    create_all(&env).await;
    let (spoke, hub) = (&MEMCACHED.spoke, &MEMCACHED.hub);
    // First the hub is served, then it is the storage version; then the spoke is read through
    // conversion, with objects that were written meanwhile.
    let changes: [(&str, Form); 2] = [
        ("both versions are served", packaging::transition),
        ("the new version is stored", packaging::both_versions),
    ];
    for (what, form) in changes {
        let (converted, load) = (env.webhooks.conversions(), load_factor());
        let started = Instant::now();
        let crd = serde_json::to_value(form(MEMCACHED)).expect("JSON");
        env.apply_crd(MEMCACHED, crd).await.expect("applied");
        assert_all_are_listed(&env, hub, "replicas").await;
        assert_all_are_listed(&env, spoke, "size").await;
        let took = started.elapsed();
        let converted = env.webhooks.conversions() - converted;
        println!("{what}: {OBJECTS} objects read in both after {took:?}, {converted} conversions");
        assert!(converted >= 10_000.0, "the tested situation occurred");
        let limit = (2 * PROMISED).mul_f64(load.max(load_factor()));
        assert!(took < limit, "{what}: {took:?} (limit: {limit:?})");
    }
}
