//! The finalizer of operator-sdk's Memcached on objects that fail validation on every write,
//! because they have a negative number of pods, which the original CRD allowed.

use quartet_operator::kinds::{memcached, nginx};
use quartet_operator::packaging;
use quartet_versions::{Kind, Version};
use serde_json::{Value, json};

use crate::environment::{TestEnv, collection, is_ready_with, is_true, object, path};
use crate::original;

const MEMCACHED: &Kind = &memcached::KIND;
const NGINX: &Kind = &nginx::KIND;
const LEGACY: &str = "cache.example.com/finalizer";

/// The namespaces, one for each part of the test.
const FOREGROUND: &str = "foreground";
const OLD: &str = "old-version";
const NEW: &str = "new-version";

/// Stores Memcacheds of the original operator with a negative size and the finalizer, and a
/// negative Nginx.
async fn store(env: &TestEnv, namespace: &str) {
    env.create_namespace(namespace).await;
    let spoke = collection(MEMCACHED, &MEMCACHED.spoke, namespace);
    for name in ["deleted-before", "deleted", "foreground", "kept"] {
        let mut object = object(MEMCACHED, &MEMCACHED.spoke, name, json!({"size": -5}));
        object["metadata"]["finalizers"] = json!([LEGACY]);
        let created = env.create(&spoke, &object).await;
        created.expect("created");
    }
    let negative = object(NGINX, &NGINX.spoke, "n", json!({"count": -5}));
    let spoke = collection(NGINX, &NGINX.spoke, namespace);
    env.create(&spoke, &negative).await.expect("created");
}

/// One cluster of the original operators, because a second one takes longer than the test. It gets
/// the CRDs of the original version first, and then those of both.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn negative_objects_lose_their_finalizers_in_the_old_version_and_in_the_new() {
    let env = TestEnv::with_api_server().await;
    original::install_crds(&env).await;
    env.cluster.start_controllers().expect("controllers");
    for namespace in [FOREGROUND, OLD, NEW] {
        store(&env, namespace).await;
    }
    env.apply_crds(packaging::original_only).await;
    a_negative_object_deleted_in_the_foreground_is_removed_once_it_is_zero(&env).await;
    the_legacy_finalizer_of_a_negative_object_is_removed(&env, OLD, &MEMCACHED.spoke).await;
    env.apply_crds(packaging::both_versions).await;
    the_legacy_finalizer_of_a_negative_object_is_removed(&env, NEW, &MEMCACHED.hub).await;
}

/// It is removed with the object, or when the number is corrected.
async fn the_legacy_finalizer_of_a_negative_object_is_removed(
    env: &TestEnv,
    namespace: &str,
    version: &Version,
) {
    println!("in the namespace {namespace}");
    let early = "deleted-before";
    let at = |name: &str| path(MEMCACHED, version, namespace, name);
    env.delete(&at(early)).await.expect("deleted");
    // No other client could do it.
    let patch = json!({"metadata": {"finalizers": null}});
    let refused = env.merge(&at(early), patch).await;
    let refused = refused.expect_err("the tested situation occurred");
    assert_eq!(refused.code, 422, "{refused:?}");

    let _manager = env.start_manager(namespace);
    env.until_gone(&at(early)).await;
    let told = |object: &Value| is_true(object, "Degraded") == Some("InvalidSpec");
    for name in ["deleted", "foreground", "kept"] {
        let object = env.until(&at(name), "Degraded for InvalidSpec", told).await;
        assert_eq!(object["metadata"]["finalizers"], json!([LEGACY]));
        let blamed = version.pods.blamed(&object["spec"]).1.expect("a number");
        assert_eq!(*blamed, json!(-5));
    }
    env.delete(&at("deleted")).await.expect("deleted");
    env.until_gone(&at("deleted")).await;
    env.delete_in_foreground(&at("foreground")).await;
    env.until_gone(&at("foreground")).await;

    let mut patch = json!({"spec": env.get(&at("kept")).await.expect("there")["spec"]});
    let (field, _) = version.pods.blamed(&patch["spec"]);
    let pointer = format!("/{}", field.replace('.', "/"));
    *patch.pointer_mut(&pointer).expect("a number") = json!(1);
    env.merge(&at("kept"), patch).await.expect("corrected");
    let free =
        |object: &Value| is_ready_with(object, 1) && object["metadata"]["finalizers"].is_null();
    env.until(&at("kept"), "Ready without the finalizer", free)
        .await;
}

/// Without a finalizer of ours, the garbage collector cannot remove its own; the operations guide
/// describes how a user helps.
async fn a_negative_object_deleted_in_the_foreground_is_removed_once_it_is_zero(env: &TestEnv) {
    let at = path(NGINX, &NGINX.spoke, FOREGROUND, "n");
    env.delete_in_foreground(&at).await;
    let object = env.get(&at).await.expect("still there");
    let finalizers = &object["metadata"]["finalizers"];
    assert_eq!(*finalizers, json!(["foregroundDeletion"]));
    let patch = json!({"metadata": {"finalizers": null}});
    let refused = env.merge(&at, patch).await.expect_err("negative");
    assert_eq!(refused.code, 422, "{refused:?}");
    let patch = json!({"spec": {"count": 0}});
    env.merge(&at, patch).await.expect("corrected");
    env.until_gone(&at).await;
}
