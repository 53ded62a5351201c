//! The finalizer of operator-sdk's Memcached on objects that fail validation on every write,
//! because they have a negative number of pods, which the original CRD allowed.

use quartet_operator::api::{Kind, Version, memcached, nginx};
use quartet_operator::packaging::crd;
use serde_json::{Value, json};

use crate::environment::{Form, TestEnv, collection, is_ready_with, is_true, object, path};
use crate::original;

const MEMCACHED: &Kind = &memcached::KIND;
const NGINX: &Kind = &nginx::KIND;
const LEGACY: &str = "cache.example.com/finalizer";

/// Starts a cluster of the original operator with an object of each name, all with a negative size
/// and the finalizer, and a negative Nginx; the CRDs then get the form `form`.
async fn cluster(form: Form, names: &[&str]) -> TestEnv {
    let env = TestEnv::with_api_server().await;
    env.apply_crds(original::crd).await;
    env.cluster.start_controllers().expect("controllers");
    let spoke = collection(MEMCACHED, &MEMCACHED.spoke, "default");
    for name in names {
        let mut object = object(MEMCACHED, &MEMCACHED.spoke, name, json!({"size": -5}));
        object["metadata"]["finalizers"] = json!([LEGACY]);
        let created = env.create(&spoke, &object).await;
        created.expect("created");
    }
    let negative = object(NGINX, &NGINX.spoke, "n", json!({"count": -5}));
    let spoke = collection(NGINX, &NGINX.spoke, "default");
    env.create(&spoke, &negative).await.expect("created");
    env.apply_crds(form).await;
    env
}

async fn is_removed_with_the_object_or_when_the_number_is_corrected(form: Form, version: &Version) {
    let early = "deleted-before";
    let env = cluster(form, &[early, "deleted", "foreground", "kept"]).await;
    let at = |name: &str| path(MEMCACHED, version, "default", name);
    env.delete(&at(early)).await.expect("deleted");
    // No other client could do it.
    let patch = json!({"metadata": {"finalizers": null}});
    let refused = env.merge(&at(early), patch).await;
    let refused = refused.expect_err("the tested situation occurred");
    assert_eq!(refused.code, 422, "{refused:?}");

    let _manager = env.start_manager("default");
    env.until_gone(&at(early)).await;
    let told = |object: &Value| is_true(object, "Degraded") == Some("InvalidSpec");
    for name in ["deleted", "foreground", "kept"] {
        let object = env.until(&at(name), "Degraded for InvalidSpec", told).await;
        assert_eq!(object["metadata"]["finalizers"], json!([LEGACY]));
        assert_eq!(
            *version.pods.blamed(&object["spec"]).1.expect("a number"),
            json!(-5)
        );
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
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_negative_object_deleted_in_the_foreground_is_removed_once_it_is_zero() {
    let env = cluster(crd::original_only, &[]).await;
    let at = path(NGINX, &NGINX.spoke, "default", "n");
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

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_legacy_finalizer_of_a_negative_object_is_removed_in_the_old_version() {
    is_removed_with_the_object_or_when_the_number_is_corrected(
        crd::original_only,
        &MEMCACHED.spoke,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_legacy_finalizer_of_a_negative_object_is_removed_in_the_new_version() {
    is_removed_with_the_object_or_when_the_number_is_corrected(crd::both_versions, &MEMCACHED.hub)
        .await;
}
