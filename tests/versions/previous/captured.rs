//! The state that the previous release left, as a file of this repository: CRDs, webhook
//! configuration, Secret, Lease, resources and their children, each as it was stored. This
//! release's manager continues with it.

use quartet_versions::conversion::convert;
use serde_json::{Map, Value, json};
use testkit::Limit;

use super::installation::{CONFIGURATION, NAMESPACE, Release, install, start, stop, until_served};
use super::load::{self, Asked, LIVE};
use crate::environment::{DEADLINE, TestEnv, collection, crd_path, is_ready_with, path};
use crate::original::kinds;

const LEFT: &str = include_str!("left-by-0.1.0.json");

/// The kinds that are captured besides CRDs and webhook configuration, with the name in the file
/// and the path of their list. They are recreated in this order.
fn lists() -> Vec<(String, String)> {
    let mut lists = vec![
        (
            "secrets".to_owned(),
            format!("/api/v1/namespaces/{NAMESPACE}/secrets"),
        ),
        (
            "leases".to_owned(),
            format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"),
        ),
    ];
    for kind in kinds() {
        let list = collection(kind, &kind.hub, LIVE);
        lists.push((kind.plural.to_owned(), list));
    }
    for (api, plural) in [("/apis/apps/v1", "deployments"), ("/api/v1", "services")] {
        let list = format!("{api}/namespaces/{LIVE}/{plural}");
        lists.push((plural.to_owned(), list));
    }
    lists
}

/// Returns the objects of a list, each with the apiVersion and kind that items omit.
async fn items(env: &TestEnv, path: &str) -> Vec<Value> {
    let list = env.get(path).await.expect("a list");
    let mut items = list["items"].as_array().expect("items").clone();
    for item in &mut items {
        item["apiVersion"] = list["apiVersion"].clone();
        let kind = list["kind"].as_str().expect("a kind");
        item["kind"] = kind.trim_end_matches("List").into();
    }
    items
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "writes the file that is committed; see `make capture-previous`"]
async fn the_state_that_the_previous_release_leaves_is_captured() {
    let previous = Release::previous();
    let env = TestEnv::with_api_server().await;
    env.cluster.start_controllers().expect("controllers");
    install(&env, &previous).await;
    let replica = start(&env, &previous).await;
    until_served(&env).await;
    load::begin(&env).await;
    let mut left = Map::new();
    for (name, path) in lists() {
        left.insert(name, items(&env, &path).await.into());
    }
    let mut crds = Vec::new();
    for kind in kinds() {
        crds.push(env.get(&crd_path(kind)).await.expect("a CRD"));
    }
    left.insert("crds".to_owned(), crds.into());
    let configuration = env.get(CONFIGURATION).await.expect("a configuration");
    left.insert("configuration".to_owned(), configuration);
    stop(&env, replica).await;
    // As the previous release released it.
    let (name, path) = &lists()[1];
    left.insert(name.clone(), items(&env, path).await.into());
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/versions/previous/left-by-0.1.0.json"
    );
    let text = serde_json::to_string_pretty(&left).expect("JSON");
    std::fs::write(file, text + "\n").expect("written");
}

/// Returns the object without fields that the API server sets, so that it can be created.
fn without_server_fields(mut object: Value) -> Value {
    let metadata = object["metadata"].as_object_mut().expect("metadata");
    for name in ["uid", "resourceVersion", "creationTimestamp", "generation"] {
        metadata.remove(name);
    }
    object
}

/// Recreates what was left on this API server. Each resource has another UID there, which is set in
/// the owner references of its children.
async fn restore(env: &TestEnv, left: &Value) {
    for namespace in [NAMESPACE, LIVE] {
        env.create_namespace(namespace).await;
    }
    let crds = left["crds"].as_array().expect("CRDs");
    for (kind, crd) in kinds().into_iter().zip(crds) {
        // There is no conversion yet, and all is stored in one version.
        let mut crd = without_server_fields(crd.clone());
        crd["spec"]["conversion"] = json!({"strategy": "None"});
        crd.as_object_mut().expect("an object").remove("status");
        let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        env.create(crds, &crd).await.expect("a CRD");
        let list = collection(kind, &kind.hub, LIVE);
        env.until(&list, "served", |_| true).await;
    }
    let mut uids: Vec<(String, String)> = Vec::new();
    for (name, path) in lists() {
        for object in left[&name].as_array().expect("objects") {
            let mut text = without_server_fields(object.clone()).to_string();
            for (old, new) in &uids {
                text = text.replace(old, new);
            }
            let mut object_now: Value = serde_json::from_str(&text).expect("JSON");
            if name == "services" {
                let spec = object_now["spec"].as_object_mut().expect("a spec");
                // Addresses belong to this cluster.
                let is_headless = spec.get("clusterIP").is_some_and(|it| it == "None");
                if !is_headless {
                    spec.remove("clusterIP");
                    spec.remove("clusterIPs");
                }
            }
            let created = env.create(&path, &object_now).await;
            let mut created = created.unwrap_or_else(|error| panic!("{name}: {error:?}"));
            let uid = |object: &Value| {
                object["metadata"]["uid"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned()
            };
            uids.push((uid(object), uid(&created)));
            if object["status"].is_object() {
                created["status"] = object["status"].clone();
                created["metadata"]["managedFields"] =
                    object_now["metadata"]["managedFields"].clone();
                let own = created["metadata"]["name"].as_str().expect("a name");
                let target = format!("{path}/{own}/status");
                let replaced = env.replace(&target, &created).await;
                replaced.unwrap_or_else(|error| panic!("{name}: {error:?}"));
            }
        }
    }
    for (kind, crd) in kinds().into_iter().zip(crds) {
        let conversion = json!({"spec": {"conversion": crd["spec"]["conversion"]}});
        let merged = env.merge(&crd_path(kind), conversion).await;
        merged.expect("the original conversion");
    }
    let configuration = without_server_fields(left["configuration"].clone());
    let configurations = CONFIGURATION.rsplit_once('/').expect("a path").0;
    let created = env.create(configurations, &configuration).await;
    created.expect("the webhook configuration");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn this_release_continues_with_the_state_of_the_previous_one() {
    let left: Value = serde_json::from_str(LEFT).expect("JSON");
    let env = TestEnv::with_api_server().await;
    restore(&env, &left).await;
    env.cluster.start_controllers().expect("controllers");
    for deployment in left["deployments"].as_array().expect("Deployments") {
        let name = deployment["metadata"]["name"].as_str().expect("a name");
        let path = format!("/apis/apps/v1/namespaces/{LIVE}/deployments/{name}");
        let runs = |it: &Value| {
            it["status"]["readyReplicas"] == 1
                && it["status"]["observedGeneration"] == it["metadata"]["generation"]
        };
        env.until(&path, "its pod runs", runs).await;
    }
    // The restored status has this value before a pod exists.
    let mut limit = Limit::new(DEADLINE);
    let left_alone = loop {
        let found = load::left_alone(&env).await;
        let of = |plural: &str| found.keys().filter(|it| it.starts_with(plural)).count();
        if [of("deployments"), of("replicasets"), of("pods")] == [4, 4, 4] {
            break found;
        }
        limit.pause(|| format!("{found:?}")).await;
    };

    install(&env, &Release::this_checkout()).await;
    let replica = start(&env, &Release::this_checkout()).await;
    until_served(&env).await;
    load::until_ready(&env, &Asked::default()).await;
    assert!(replica.log().contains("became leader"), "{}", replica.log());
    assert_eq!(
        load::left_alone(&env).await,
        left_alone,
        "no pod is recreated"
    );
    for kind in kinds() {
        for before in left[kind.plural].as_array().expect("resources") {
            let name = before["metadata"]["name"].as_str().expect("a name");
            let hub = env.get(&path(kind, &kind.hub, LIVE, name)).await;
            let hub = hub.expect("the resource");
            assert_eq!(hub["spec"], before["spec"], "{name}");
            let spoke = env.get(&path(kind, &kind.spoke, LIVE, name)).await;
            let spoke = spoke.expect("in the original version");
            let back = convert(kind, spoke.clone(), &kind.hub).expect("converts");
            assert_eq!(
                back.object["spec"], before["spec"],
                "{name}, converted and back"
            );
            // The user can change it in the original version.
            let pods = match kind.kind {
                "ElasticWeb" => json!({"totalQPS": 2}),
                "Nginx" => json!({"count": 2}),
                _ => json!({"size": 2}),
            };
            let target = path(kind, &kind.spoke, LIVE, name);
            let patched = env.merge(&target, json!({"spec": pods})).await;
            patched.unwrap_or_else(|error| panic!("{name}: {error:?}"));
            let ready = |object: &Value| is_ready_with(object, 2);
            env.until(&target, "scaled", ready).await;
        }
    }
    stop(&env, replica).await;
    env.cluster.check().expect("everything still runs");
}
