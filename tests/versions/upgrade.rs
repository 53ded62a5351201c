//! A cluster of the original operators is upgraded to two versions step by step, and back, with
//! existing objects and our manager's children.

use std::collections::BTreeMap;
use std::sync::Arc;

use quartet_operator::api::conversion::convert;
use quartet_operator::api::{Kind, Version};
use quartet_operator::controller;
use quartet_operator::operators::{OPERATORS, Settings};
use quartet_operator::packaging::{crd, kinds};
use serde_json::{Value, json};

use crate::original;
use crate::stage::{Stage, collection, crd_path, is_ready_with, object, path};

/// A namespace without a manager.
const ODD: &str = "odd";
/// The namespace of our manager.
const LIVE: &str = "live";

/// Every object of the original operators, by kind and name, in one version.
type Objects = BTreeMap<String, Value>;

/// Returns the objects of [`ODD`] without the fields that the API server changes at every write.
async fn objects(stage: &Stage, version: fn(&Kind) -> &Version) -> Objects {
    let mut objects = Objects::new();
    for kind in kinds() {
        let list = stage.get(&collection(kind, version(kind), ODD)).await;
        for object in list.expect("a list")["items"].as_array().expect("items") {
            let mut object = object.clone();
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
async fn assert_nothing_is_lost(stage: &Stage, before: &Objects, when: &str) {
    assert_eq!(
        &objects(stage, in_spoke).await,
        before,
        "{when}, old version"
    );
    let hub = objects(stage, in_hub).await;
    assert_eq!(hub, converted(before), "{when}, new version");
}

/// Returns what must not change in children when the storage version of their owners changes: their
/// identity and their pod templates.
async fn children(stage: &Stage) -> BTreeMap<String, Value> {
    let mut children = BTreeMap::new();
    for (api, plural) in [
        ("/apis/apps/v1", "deployments"),
        ("/apis/apps/v1", "replicasets"),
        ("/api/v1", "pods"),
        ("/api/v1", "services"),
    ] {
        let list = stage
            .get(&format!("{api}/namespaces/{LIVE}/{plural}"))
            .await;
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

async fn children_named(stage: &Stage, plural: &str) -> Vec<(String, Value)> {
    let children = children(stage).await.into_iter();
    children
        .filter(|(name, _)| name.starts_with(plural))
        .collect()
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
async fn scale(stage: &Stage, version: fn(&Kind) -> &Version, pods: i64) {
    for kind in kinds() {
        let spoke = live_spec(kind, pods);
        let object = object(kind, &kind.spoke, &live(kind), spoke);
        let spec = convert(kind, object, version(kind))
            .expect("converts")
            .object["spec"]
            .take();
        let path = path(kind, version(kind), LIVE, &live(kind));
        stage
            .merge(&path, json!({"spec": spec}))
            .await
            .expect("scaled");
    }
    for kind in kinds() {
        let path = path(kind, version(kind), LIVE, &live(kind));
        stage
            .until(&path, "scaled", |object| is_ready_with(object, pods))
            .await;
    }
}

/// Waits until every live Deployment has an owner reference in this version, the one that its
/// controller watches.
async fn until_owned_in(stage: &Stage, version: fn(&Kind) -> &Version) {
    for kind in kinds() {
        let path = format!("/apis/apps/v1/namespaces/{LIVE}/deployments/{}", live(kind));
        let owner = kind.api_version(version(kind));
        let named = |child: &Value| child["metadata"]["ownerReferences"][0]["apiVersion"] == *owner;
        stage.until(&path, "owned in another version", named).await;
    }
}

/// Starts controllers that watch the original version whatever is stored, as a release without a
/// second version would; no such release exists, and `previous` tests the real previous one. They
/// end when the task is aborted.
fn start_controllers_of_the_original_version(stage: &Stage) -> tokio::task::JoinHandle<()> {
    let mut registry = prometheus_client::registry::Registry::default();
    let options = controller::Options {
        client: stage.client.clone(),
        watch_client: stage.client.clone(),
        operators: OPERATORS.to_vec(),
        settings: Settings::default(),
        workers: 2,
        max_concurrent_rollouts: 10,
        namespaces: [LIVE.to_owned()].into(),
        shard: None,
        follow_stored_version: false,
        metrics: Arc::new(controller::Metrics::register(&mut registry)),
        leadership: controller::Leadership::sole(),
    };
    tokio::spawn(async move {
        let ended = controller::run(options, std::future::pending()).await;
        panic!("{ended:?}");
    })
}

/// Creates the cluster as the original operators left it, with the objects of [`ODD`] and [`LIVE`].
async fn cluster_of_the_old_operators() -> Stage {
    let stage = Stage::with_api_server().await;
    stage.apply_crds(original::crd).await;
    stage.cluster.start_controllers().expect("controllers");
    stage.create_namespace(ODD).await;
    stage.create_namespace(LIVE).await;
    for kind in kinds() {
        for (name, spec) in original::specs(kind) {
            let mut object = object(kind, &kind.spoke, name, spec);
            object["metadata"]["labels"] = json!({"team": "a"});
            object["metadata"]["annotations"] = json!({"note": "kept"});
            let created = stage
                .create(&collection(kind, &kind.spoke, ODD), &object)
                .await;
            created.unwrap_or_else(|error| panic!("{name}: {error:?}"));
        }
        let status = match kind.kind {
            "ElasticWeb" => json!({"realQPS": 2400}),
            _ => json!({"nodes": ["b", "a"]}),
        };
        let path = format!("{}/status", path(kind, &kind.spoke, ODD, "usual"));
        let written = stage.merge(&path, json!({"status": status})).await;
        written.expect("a status");
        let live = object(kind, &kind.spoke, &live(kind), live_spec(kind, 2));
        let created = stage
            .create(&collection(kind, &kind.spoke, LIVE), &live)
            .await;
        created.expect("a live object");
    }
    stage
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn upgrading_from_the_original_operators_and_back_loses_nothing() {
    let mut stage = cluster_of_the_old_operators().await;
    let before = objects(&stage, in_spoke).await;

    // Our manager starts on CRDs that have one version.
    stage.apply_crds(crd::original_only).await;
    assert_eq!(objects(&stage, in_spoke).await, before, "bounds were added");
    let manager = stage.start_manager(LIVE);
    for kind in kinds() {
        let path = path(kind, &kind.spoke, LIVE, &live(kind));
        let ready = |object: &Value| is_ready_with(object, 2);
        stage.until(&path, "ready", ready).await;
    }
    let running = children(&stage).await;
    assert!(running.len() >= 17, "{:?}", running.keys());

    // Served, not stored: this step can be reverted.
    stage.apply_crds(crd::transition).await;
    assert_nothing_is_lost(&stage, &before, "both are served").await;
    stage.apply_crds(crd::original_only).await;
    assert_eq!(objects(&stage, in_spoke).await, before, "one step back");
    stage.apply_crds(crd::transition).await;
    assert_eq!(children(&stage).await, running, "no child was changed");

    // Stored, and existing objects are rewritten.
    stage.apply_crds(crd::both_versions).await;
    for kind in kinds() {
        let both = json!([kind.spoke.name, kind.hub.name]);
        assert_eq!(stage.stored_versions(kind).await, both);
    }
    assert_nothing_is_lost(&stage, &before, "the new version is stored").await;
    let (code, _, _) = stage.errand(&["migrate-storage"]).await;
    assert_eq!(code, 0);
    for kind in kinds() {
        assert_eq!(stage.stored_versions(kind).await, json!([kind.hub.name]));
    }
    assert_nothing_is_lost(&stage, &before, "the storage is migrated").await;
    until_owned_in(&stage, in_hub).await;
    assert_eq!(children(&stage).await, running, "no child was changed");
    scale(&stage, in_spoke, 3).await;
    scale(&stage, in_hub, 2).await;

    without_conversion(&mut stage, &before).await;

    // Controllers that know one version only run for a while on the same CRDs.
    drop(manager);
    let deployments = children_named(&stage, "deployments").await;
    let original = start_controllers_of_the_original_version(&stage);
    until_owned_in(&stage, in_spoke).await;
    assert_eq!(children_named(&stage, "deployments").await, deployments);
    scale(&stage, in_hub, 3).await;
    scale(&stage, in_spoke, 2).await;
    assert!(!original.is_finished());
    original.abort();
    let _manager = stage.start_manager(LIVE);
    until_owned_in(&stage, in_hub).await;

    // The API server rejects CRDs that lack a stored version; the intermediate step is the earliest
    // that can be restored.
    for kind in kinds() {
        let crd = serde_json::to_value(crd::original_only(kind)).expect("JSON");
        let target = format!("{}?fieldManager=installer&force=true", crd_path(kind));
        let refused = stage.apply(&target, &crd).await;
        let refused = refused.expect_err("would lose objects");
        assert!(
            refused.message.contains("status.storedVersions"),
            "{refused:?}"
        );
    }
    stage.apply_crds(crd::transition).await;
    for kind in kinds() {
        let both = json!([kind.hub.name, kind.spoke.name]);
        assert_eq!(stage.stored_versions(kind).await, both);
    }
    assert_nothing_is_lost(&stage, &before, "the old version is stored again").await;
    scale(&stage, in_spoke, 1).await;
    stage.cluster.check().expect("everything still runs");
}

/// The webhook server is down, and the API server has empty caches: objects in the stored version
/// are read without conversion, and the manager continues.
async fn without_conversion(stage: &mut Stage, before: &Objects) {
    stage.webhooks.go_away().await;
    stage.restart_api_server();
    let hub = objects(stage, in_hub).await;
    assert_eq!(hub, converted(before), "without conversion");
    for kind in kinds() {
        let refused = stage.get(&path(kind, &kind.spoke, ODD, "usual")).await;
        let refused = refused.expect_err("needs conversion");
        assert!(
            refused.message.contains("conversion webhook"),
            "{refused:?}"
        );
    }
    scale(stage, in_hub, 3).await;
    let kind = kinds()[0];
    let new = object(kind, &kind.hub, "new", json!({"replicas": 1}));
    let created = stage.create(&collection(kind, &kind.hub, LIVE), &new).await;
    created.expect("created");
    let new = path(kind, &kind.hub, LIVE, "new");
    let ready = |object: &Value| is_ready_with(object, 1);
    stage.until(&new, "ready", ready).await;
    stage.delete_in_foreground(&new).await;
    stage.until_gone(&new).await;
    stage.webhooks.come_back().await;
    scale(stage, in_spoke, 2).await;
}
