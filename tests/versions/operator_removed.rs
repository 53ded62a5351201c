//! The state that OLM leaves after the deletion of a ClusterServiceVersion: CRDs with conversion
//! `None`, and no webhooks (operator-lifecycle-manager v0.46.0,
//! `handleClusterServiceVersionDeletion`). The original version then loses fields, unless it is not
//! served: docs/operations.md.

use quartet_operator::kinds::memcached;
use quartet_operator::packaging;
use quartet_versions::Kind;
use serde_json::{Value, json};

use crate::environment::{TestEnv, collection, crd_path, object, path};
use crate::original::kinds;

const MEMCACHED: &Kind = &memcached::KIND;

/// Returns the commands of docs/operations.md that make the CRDs serve only the stored version.
fn commands() -> Vec<String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/operations.md");
    let page = std::fs::read_to_string(page).expect("a page");
    let lines = page.lines().filter_map(|line| line.strip_prefix("$ "));
    let commands = lines.filter(|line| line.starts_with("kubectl patch crd "));
    commands.map(str::to_owned).collect()
}

/// Creates a Memcached with fields that the original version lacks; returns it and its paths in
/// both versions.
async fn memcached(env: &TestEnv, name: &str) -> (Value, String, String) {
    let spec = json!({"replicas": 2, "memory": 128, "service": {"enabled": true}});
    let made = object(MEMCACHED, &MEMCACHED.hub, name, spec.clone());
    let target = collection(MEMCACHED, &MEMCACHED.hub, "default");
    env.create(&target, &made).await.expect("created");
    let path = |version| path(MEMCACHED, version, "default", name);
    (spec, path(&MEMCACHED.hub), path(&MEMCACHED.spoke))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn without_conversion_a_write_in_the_original_version_loses_fields() {
    let env = TestEnv::with_api_server().await;
    env.apply_crds(packaging::both_versions).await;
    let (spec, hub, spoke) = memcached(&env, "m").await;
    env.remove_webhooks().await;

    let looks = |object: &Value| object["spec"]["size"].is_null();
    env.until(&spoke, "is not converted", looks).await;
    let read = env.get(&spoke).await.expect("readable");
    env.replace(&spoke, &read).await.expect("written back");
    let left = env.get(&hub).await.expect("readable");
    assert_ne!(left["spec"], spec, "no field was lost");
    assert!(left["spec"]["memory"].is_null(), "{left:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn where_the_original_version_is_not_served_nothing_is_lost() {
    let env = TestEnv::with_api_server().await;
    env.apply_crds(packaging::both_versions).await;
    let (spec, hub, spoke) = memcached(&env, "m").await;

    let commands = commands();
    assert_eq!(commands.len(), 2, "{commands:?}");
    for command in &commands {
        let run = std::process::Command::new("bash")
            .args(["-c", command])
            .envs(env.cluster.environment().variables())
            .output()
            .expect("bash runs");
        let said = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "{command}: {said}");
    }
    for kind in kinds() {
        let definition = env.get(&crd_path(kind)).await.expect("a CRD");
        for version in definition["spec"]["versions"].as_array().expect("some") {
            let is_stored = version["name"] == kind.hub.name;
            assert_eq!(version["served"], is_stored, "{}", kind.kind);
        }
    }
    env.remove_webhooks().await;

    // The API server applies that within moments; until then no write is stored.
    env.until_gone(&spoke).await;
    let written = env.merge(&spoke, json!({"spec": {"size": 5}})).await;
    assert_eq!(written.expect_err("is not served").code, 404);
    let grown = env.merge(&hub, json!({"spec": {"replicas": 3}})).await;
    grown.expect("the stored version is written as before");

    // A manager and its CRDs are installed again.
    env.apply_crds(packaging::both_versions).await;
    let size = |object: &Value| object["spec"]["size"] == 3;
    env.until(&spoke, "is converted", size).await;
    let mut kept = spec;
    kept["replicas"] = json!(3);
    assert_eq!(env.get(&hub).await.expect("readable")["spec"], kept);
}
