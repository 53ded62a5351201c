//! The webhook servers of all replicas are down for a minute, and the API server has empty caches:
//! which operations continue in the stored version, and which fail.

use std::time::{Duration, Instant};

use quartet_operator::packaging;
use quartet_versions::Kind;
use quartet_versions::conversion::convert;
use serde_json::{Value, json};

use crate::environment::{
    TestEnv, collection, is_ready_with, kinds_with_deployments as kinds, object, path,
};

const OUTAGE: Duration = Duration::from_secs(60);
const NAMESPACE: &str = "live";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/live/deployments";
/// The name of a Memcached that was applied in both versions.
const APPLIED: &str = "applied-in-both";

/// Returns the hub's form of the spoke's sample with this number of pods. The names of two kinds
/// differ, and so do the ports of two names.
fn live(kind: &Kind, name: &str, pods: i64) -> Value {
    let mut spoke = packaging::sample(kind, &kind.spoke).expect("a sample");
    let spec = &mut spoke["spec"];
    match spec["singlePodsQPS"].as_i64() {
        Some(queries) => {
            spec["totalQPS"] = json!(queries * pods);
            spec["port"] = json!(30_200 + name.bytes().map(u32::from).sum::<u32>());
        }
        None => {
            let (field, _) = kind.spoke.pods.blamed(spec);
            let field = field.trim_start_matches("spec.");
            spec[field] = json!(pods);
        }
    }
    spoke["metadata"] = json!({"name": format!("{name}-{}", kind.controller_name())});
    convert(kind, spoke, &kind.hub).expect("converts").object
}

fn at(kind: &Kind, object: &Value) -> String {
    let name = object["metadata"]["name"].as_str().expect("a name");
    path(kind, &kind.hub, NAMESPACE, name)
}

async fn each_is_ready_with(env: &TestEnv, name: &str, pods: i64) {
    for kind in kinds() {
        let ready = |object: &Value| is_ready_with(object, pods);
        let path = at(kind, &live(kind, name, pods));
        env.until(&path, "ready", ready).await;
    }
}

async fn create_each(env: &TestEnv, name: &str) {
    for kind in kinds() {
        let hub = collection(kind, &kind.hub, NAMESPACE);
        env.until_created(&hub, &live(kind, name, 1)).await;
    }
    each_is_ready_with(env, name, 1).await;
}

/// Scales with the scale subresource if there is one, else with the spec.
async fn scale_each(env: &TestEnv, name: &str, pods: i64) {
    for kind in kinds() {
        let object = live(kind, name, pods);
        let (path, replicas) = (at(kind, &object), json!({"spec": {"replicas": pods}}));
        let scaled = match env.merge(&format!("{path}/scale"), replicas).await {
            Err(status) if status.code == 404 => {
                env.merge(&path, json!({"spec": object["spec"]})).await
            }
            scaled => scaled,
        };
        scaled.expect("scaled");
    }
    each_is_ready_with(env, name, pods).await;
}

/// Returns the path of the Deployment of a resource.
fn child_of(object: &Value) -> String {
    let name = object["metadata"]["name"].as_str().expect("a name");
    format!("{DEPLOYMENTS}/{name}")
}

async fn delete_each_in_foreground(env: &TestEnv, name: &str) {
    for kind in kinds() {
        let path = at(kind, &live(kind, name, 1));
        env.delete_in_foreground(&path).await;
    }
    for kind in kinds() {
        let object = live(kind, name, 1);
        env.until_gone(&at(kind, &object)).await;
        let child = env.get(&child_of(&object)).await;
        assert!(child.is_err(), "the child still exists");
    }
}

/// A deleted child is recreated.
async fn repair_each(env: &TestEnv, name: &str) {
    for kind in kinds() {
        let path = child_of(&live(kind, name, 1));
        let before = env.get(&path).await.expect("a child")["metadata"]["uid"].take();
        env.delete(&path).await.expect("deleted");
        let is_new = |child: &Value| child["metadata"]["uid"] != before;
        env.until(&path, "there again", is_new).await;
    }
    each_is_ready_with(env, name, 1).await;
}

/// Applies [`APPLIED`] in the original version and then in the new one; returns its path in the latter.
async fn apply_in_both(env: &TestEnv, kind: &Kind) -> String {
    for (version, manager, spec) in [
        (&kind.spoke, "old", json!({"size": 1})),
        (&kind.hub, "new", json!({"memory": 32})),
    ] {
        let path = path(kind, version, NAMESPACE, APPLIED);
        let target = format!("{path}?fieldManager={manager}");
        let applied = object(kind, version, APPLIED, spec);
        env.apply(&target, &applied).await.expect("applied");
    }
    let path = path(kind, &kind.hub, NAMESPACE, APPLIED);
    env.until(&path, "ready", |object| is_ready_with(object, 1))
        .await;
    path
}

/// For every write of an object, the API server converts it to the version of each entry in its
/// managedFields (structured-merge-diff v6.3.3, `merge/update.go`). If that fails, an apply fails, and
/// any other write deletes the managedFields (`UpdateNoErrors` of apimachinery).
async fn managed_fields_of_the_original_version_need_conversion(env: &TestEnv, path: &str) {
    let kind = kinds()[0];
    let apply = async |memory: i64| {
        let changed = object(kind, &kind.hub, APPLIED, json!({"memory": memory}));
        let target = format!("{path}?fieldManager=new");
        let refused = env.apply(&target, &changed).await;
        refused.expect_err("not applied").message
    };
    let refused = apply(64).await;
    assert!(refused.contains("conversion webhook"), "{refused}");

    // The manager's status arrives: another pod.
    let before = env.get(path).await.expect("the object");
    let entries = before["metadata"]["managedFields"].to_string();
    let spoke = kind.api_version(&kind.spoke);
    assert!(entries.contains(&spoke), "{entries}");
    let child = format!("{DEPLOYMENTS}/{APPLIED}");
    env.delete(&child).await.expect("deleted");
    let told = |object: &Value| {
        is_ready_with(object, 1) && object["status"]["nodes"] != before["status"]["nodes"]
    };
    let after = env.until(path, "told of another pod", told).await;
    assert!(after["metadata"]["managedFields"].is_null(), "{after:#}");

    // From then on the fields belong to nobody who applied them.
    let refused = apply(64).await;
    assert!(refused.contains("\"before-first-apply\""), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_minute_without_webhooks_stops_neither_reconcilers_nor_deletions() {
    let env = TestEnv::with_api_server().await;
    env.cluster.start_controllers().expect("controllers");
    env.create_namespace(NAMESPACE).await;
    env.apply_crds(packaging::both_versions).await;
    env.register_webhooks().await;
    let _manager = env.start_manager(NAMESPACE);
    create_each(&env, "old").await;
    create_each(&env, "going").await;
    let kind = kinds()[0];
    let applied = apply_in_both(&env, kind).await;

    env.webhooks.stop_serving().await;
    let gone = Instant::now();
    env.restart_api_server();
    managed_fields_of_the_original_version_need_conversion(&env, &applied).await;
    // Writes that need validation are rejected with a reason; writes that leave the spec alone
    // work.
    let memcached = at(kind, &live(kind, "old", 1));
    let change = json!({"spec": {"replicas": 2}});
    let refused = env.merge(&memcached, change).await;
    let refused = refused.expect_err("not validated").message;
    let webhook = "failed calling webhook \"vmemcached-v1.cache.example.com\"";
    assert!(refused.contains(webhook), "{refused}");
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    env.merge(&memcached, label).await.expect("labelled");
    repair_each(&env, "old").await;
    delete_each_in_foreground(&env, "going").await;

    // The workaround for administrators.
    env.unregister_webhooks().await;
    let mut rounds = 0;
    while gone.elapsed() < OUTAGE {
        rounds += 1;
        let new = format!("new{rounds}");
        create_each(&env, &new).await;
        scale_each(&env, &new, 2).await;
        scale_each(&env, "old", 1 + rounds % 2).await;
        delete_each_in_foreground(&env, &new).await;
        let in_spoke = path(kind, &kind.spoke, NAMESPACE, "old-memcached");
        let refused = env
            .get(&in_spoke)
            .await
            .expect_err("needs conversion")
            .message;
        assert!(refused.contains("conversion webhook"), "{refused}");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    println!("{rounds} rounds in {:?}", gone.elapsed());

    env.webhooks.restart().await;
    env.register_webhooks().await;
    scale_each(&env, "old", 3).await;
    let in_spoke = path(kind, &kind.spoke, NAMESPACE, "old-memcached");
    let has_three = |object: &Value| is_ready_with(object, 3) && object["spec"]["size"] == 3;
    env.until(&in_spoke, "read by conversion", has_three).await;
    env.cluster.check().expect("everything still runs");
}
