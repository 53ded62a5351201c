//! A cluster of the original operators is upgraded to two versions step by step, and back, with
//! existing objects and our manager's children.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use quartet_operator::packaging;
use quartet_versions::conversion::convert;
use quartet_versions::{Kind, Version};
use serde_json::{Value, json};

use crate::environment::{TestEnv, collection, crd_path, is_ready_with, object, path};
use crate::original::{self, kinds};

/// A namespace without a manager.
const ODD: &str = "odd";
/// The namespace of our manager.
const LIVE: &str = "live";

/// Every object of the original operators, by kind and name, in one version.
type Objects = BTreeMap<String, Value>;

/// Returns the objects of [`ODD`] without the fields that the API server changes at every write.
async fn objects(env: &TestEnv, version: fn(&Kind) -> &Version) -> Objects {
    let mut objects = Objects::new();
    for kind in kinds() {
        let list = env.get(&collection(kind, version(kind), ODD)).await;
        for object in list.expect("a list")["items"].as_array().expect("items") {
            let mut object = object.clone();
            without_default(&mut object);
            let metadata = object["metadata"].as_object_mut().expect("metadata");
            metadata.remove("resourceVersion");
            let name = metadata["name"].as_str().expect("a name").to_owned();
            objects.insert(format!("{} {name}", kind.kind), object);
        }
    }
    objects
}

fn in_spoke(kind: &Kind) -> &Version {
    &kind.spoke
}

fn in_hub(kind: &Kind) -> &Version {
    &kind.hub
}

/// Removes the default of the status, which the original CRDs do not have.
fn without_default(object: &mut Value) {
    let Some(Value::Object(status)) = object.get_mut("status") else {
        return;
    };
    if status.get("observedGeneration") == Some(&json!(-1)) {
        status.remove("observedGeneration");
    }
    if status.is_empty() {
        object.as_object_mut().expect("an object").remove("status");
    }
}

/// Returns the original objects in the hub version.
fn converted(objects: &Objects) -> Objects {
    let convert = |object: &Value| {
        let mut kinds = kinds().into_iter();
        let kind = kinds
            .find(|kind| object["kind"] == kind.kind)
            .expect("a kind");
        convert(kind, object.clone(), &kind.hub)
            .expect("every object converts")
            .object
    };
    let objects = objects.iter();
    objects
        .map(|(name, object)| (name.clone(), convert(object)))
        .collect()
}

/// The hub has a default where there is a spec; the original CRDs always had the field.
async fn assert_nothing_is_lost(env: &TestEnv, before: &Objects, when: &str) {
    assert_eq!(&objects(env, in_spoke).await, before, "{when}, old version");
    let hub = objects(env, in_hub).await;
    assert_eq!(hub, converted(before), "{when}, new version");
}

/// Returns what must not change in children when the storage version of their owners changes: their
/// identity and their pod templates.
async fn children(env: &TestEnv) -> BTreeMap<String, Value> {
    let mut children = BTreeMap::new();
    for (api, plural) in [
        ("/apis/apps/v1", "deployments"),
        ("/apis/apps/v1", "replicasets"),
        ("/api/v1", "pods"),
        ("/api/v1", "services"),
    ] {
        let list = env.get(&format!("{api}/namespaces/{LIVE}/{plural}")).await;
        for child in list.expect("a list")["items"].as_array().expect("items") {
            let metadata = &child["metadata"];
            let name = metadata["name"].as_str().expect("a name");
            let kept = json!({
                "uid": metadata["uid"],
                "generation": metadata["generation"],
                "hash": metadata["labels"]["pod-template-hash"],
                "spec": child["spec"],
            });
            children.insert(format!("{plural} {name}"), kept);
        }
    }
    children
}

/// The name of the only live object of a kind; children of two kinds cannot have the same name.
fn live(kind: &Kind) -> String {
    format!("live-{}", kind.controller_name())
}

fn live_spec(kind: &Kind, pods: i64) -> Value {
    match kind.kind {
        "Nginx" => json!({"count": pods}),
        "ElasticWeb" => {
            json!({"image": "nginx:1.17.1", "port": 30103, "singlePodsQPS": 800, "totalQPS": 800 * pods})
        }
        _ => json!({"size": pods}),
    }
}

/// Scales every live object through one version and waits for the pods.
async fn scale(env: &TestEnv, version: fn(&Kind) -> &Version, pods: i64) {
    for kind in kinds() {
        let spoke = live_spec(kind, pods);
        let object = object(kind, &kind.spoke, &live(kind), spoke);
        let spec = convert(kind, object, version(kind))
            .expect("converts")
            .object["spec"]
            .take();
        let path = path(kind, version(kind), LIVE, &live(kind));
        env.merge(&path, json!({"spec": spec}))
            .await
            .expect("scaled");
    }
    for kind in kinds() {
        let path = path(kind, version(kind), LIVE, &live(kind));
        env.until(&path, "scaled", |object| is_ready_with(object, pods))
            .await;
    }
}

/// Waits until every live Deployment has an owner reference in this version, the one that its
/// controller watches.
async fn until_owned_in(env: &TestEnv, version: fn(&Kind) -> &Version) {
    for kind in kinds() {
        let path = format!("/apis/apps/v1/namespaces/{LIVE}/deployments/{}", live(kind));
        let owner = kind.api_version(version(kind));
        let named = |child: &Value| child["metadata"]["ownerReferences"][0]["apiVersion"] == *owner;
        env.until(&path, "owned in another version", named).await;
    }
}

/// Creates the cluster as the original operators left it, with the objects of [`ODD`] and [`LIVE`].
async fn cluster_of_the_old_operators() -> TestEnv {
    let env = TestEnv::with_api_server().await;
    original::install_crds(&env).await;
    env.cluster.start_controllers().expect("controllers");
    env.create_namespace(ODD).await;
    env.create_namespace(LIVE).await;
    for kind in kinds() {
        for (name, spec) in original::specs(kind) {
            let mut object = object(kind, &kind.spoke, name, spec);
            object["metadata"]["labels"] = json!({"team": "a"});
            object["metadata"]["annotations"] = json!({"note": "kept"});
            let created = env
                .create(&collection(kind, &kind.spoke, ODD), &object)
                .await;
            created.unwrap_or_else(|error| panic!("{name}: {error:?}"));
        }
        let status = match kind.kind {
            "ElasticWeb" => json!({"realQPS": 2400}),
            _ => json!({"nodes": ["b", "a"]}),
        };
        let path = format!("{}/status", path(kind, &kind.spoke, ODD, "usual"));
        let written = env.merge(&path, json!({"status": status})).await;
        written.expect("a status");
        let live = object(kind, &kind.spoke, &live(kind), live_spec(kind, 2));
        let created = env
            .create(&collection(kind, &kind.spoke, LIVE), &live)
            .await;
        created.expect("a live object");
    }
    env
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn upgrading_from_the_original_operators_and_back_loses_nothing() {
    let env = cluster_of_the_old_operators().await;
    let before = objects(&env, in_spoke).await;

    // Our manager starts on CRDs that have one version.
    env.apply_crds(packaging::original_only).await;
    assert_eq!(objects(&env, in_spoke).await, before, "bounds were added");
    let _manager = env.start_manager(LIVE);
    for kind in kinds() {
        let path = path(kind, &kind.spoke, LIVE, &live(kind));
        let ready = |object: &Value| is_ready_with(object, 2);
        env.until(&path, "ready", ready).await;
    }
    let running = children(&env).await;
    assert!(running.len() >= 17, "{:?}", running.keys());

    // Served, not stored: this step can be reverted.
    env.apply_crds(packaging::transition).await;
    assert_nothing_is_lost(&env, &before, "both are served").await;
    restore_the_original_crds(&env).await;
    assert_eq!(objects(&env, in_spoke).await, before, "one step back");
    env.apply_crds(packaging::transition).await;
    assert_eq!(children(&env).await, running, "no child was changed");

    // Stored, and existing objects are rewritten.
    env.apply_crds(packaging::both_versions).await;
    for kind in kinds() {
        let both = json!([kind.spoke.name, kind.hub.name]);
        assert_eq!(env.stored_versions(kind).await, both);
    }
    assert_nothing_is_lost(&env, &before, "the new version is stored").await;
    let (code, _, _) = env.subcommand(&["migrate-storage"]).await;
    assert_eq!(code, 0);
    for kind in kinds() {
        assert_eq!(env.stored_versions(kind).await, json!([kind.hub.name]));
    }
    assert_nothing_is_lost(&env, &before, "the storage is migrated").await;
    until_owned_in(&env, in_hub).await;
    assert_eq!(children(&env).await, running, "no child was changed");
    scale(&env, in_spoke, 3).await;
    scale(&env, in_hub, 2).await;

    // The API server rejects CRDs that lack a stored version; the intermediate step is the earliest
    // that can be restored.
    for kind in kinds() {
        let crd = serde_json::to_value(packaging::original_only(kind)).expect("JSON");
        let target = format!("{}?fieldManager=installer&force=true", crd_path(kind));
        let refused = env.apply(&target, &crd).await;
        let message = refused.expect_err("would lose objects").message;
        assert!(message.contains("status.storedVersions"), "{message}");
    }
    env.apply_crds(packaging::transition).await;
    for kind in kinds() {
        let both = json!([kind.hub.name, kind.spoke.name]);
        assert_eq!(env.stored_versions(kind).await, both);
    }
    assert_nothing_is_lost(&env, &before, "the old version is stored again").await;
    scale(&env, in_spoke, 1).await;
    env.cluster.check().expect("everything still runs");
}

/// As in docs/operations.md. An apply is rejected where another field manager has written the caBundle,
/// because it stays without its strategy.
async fn restore_the_original_crds(env: &TestEnv) {
    // As the manager does with self-managed certificates. The same value would still belong to the
    // installer.
    let bundle = ByteString(env.webhooks.endpoint.authority.repeat(2).into_bytes());
    let bundle = json!({"conversion": {"webhook": {"clientConfig": {"caBundle": bundle}}}});
    for kind in kinds() {
        let target = format!("{}?fieldManager=quartet-operator-webhook", crd_path(kind));
        let written = env.merge(&target, json!({"spec": bundle})).await;
        written.expect("a caBundle");
        let original = serde_json::to_value(packaging::original_only(kind)).expect("JSON");
        let refused = env.apply_crd(kind, original).await;
        let refused = refused.expect_err("the caBundle stays");
        let reason = "spec.conversion.webhookClientConfig: Forbidden";
        assert!(refused.message.contains(reason), "{refused:?}");
    }
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/config/crd-original");
    let (replaced, said) = env.kubectl(&["replace", "-k", folder], &Value::Null);
    assert!(replaced, "{said}");
    env.apply_crds(packaging::original_only).await;
}
