//! The users during an upgrade: they create and change resources in both versions and record the
//! last desired state.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use quartet_versions::conversion::convert;
use quartet_versions::{Kind, Version};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::environment::{TestEnv, collection, is_ready_with, object, path};
use crate::original::kinds;

/// The namespace of the resources.
pub(crate) const LIVE: &str = "live";

/// The names of the resources of each kind: changed continuously, or never.
const CHANGED: [&str; 2] = ["changed-seed", "changed-hub"];
const LEFT_ALONE: &str = "left-alone";

/// Every rejected write, and the last desired state.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    pub(crate) writes: usize,
    pub(crate) refused: Vec<String>,
    /// Number of pods, by kind and name.
    last: BTreeMap<(&'static str, &'static str), i64>,
}

/// Returns a resource name that is unique over all kinds, because their children share one.
fn name(kind: &Kind, name: &str) -> String {
    format!("{name}-{}", kind.controller_name())
}

/// Returns fields that only the new version has, with the number of pods. The selector of the constraint is
/// another one in the previous release, and a part of the pod template.
fn hub_spec(kind: &Kind, pods: i64, node_port: u16) -> Value {
    let spread = json!({"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "ScheduleAnyway"});
    let scheduling = json!({"topologySpreadConstraints": [spread]});
    match kind.kind {
        "ElasticWeb" => json!({
            "image": "nginx:1.17.1", "capacity": {"perPodQPS": 1, "targetQPS": pods},
            "service": {"nodePort": node_port}, "scheduling": scheduling,
        }),
        "Memcached" => json!({"replicas": pods, "memory": 96, "scheduling": scheduling}),
        _ => json!({"replicas": pods, "service": {"port": 80}, "scheduling": scheduling}),
    }
}

/// Returns the part of a spec that sets the number of pods.
fn pods_of(kind: &Kind, version: &Version, pods: i64) -> Value {
    match (kind.kind, version.name == kind.hub.name) {
        ("ElasticWeb", true) => json!({"capacity": {"targetQPS": pods}}),
        ("ElasticWeb", false) => json!({"totalQPS": pods}),
        (_, true) => json!({"replicas": pods}),
        ("Nginx", false) => json!({"count": pods}),
        (_, false) => json!({"size": pods}),
    }
}

/// Creates three resources of each kind and waits for their pods.
pub(crate) async fn begin(env: &TestEnv) {
    env.create_namespace(LIVE).await;
    let mut node_port = 30_064;
    for kind in kinds() {
        for one in CHANGED.into_iter().chain([LEFT_ALONE]) {
            node_port += u16::from(kind.kind == "ElasticWeb");
            let spec = hub_spec(kind, 1, node_port);
            let made = object(kind, &kind.hub, &name(kind, one), spec);
            // One of them is created in the original version, with the fields that it lacks in the
            // annotation.
            let made = match one {
                "changed-seed" => convert(kind, made, &kind.spoke).expect("converts").object,
                _ => made,
            };
            let version = match one {
                "changed-seed" => &kind.spoke,
                _ => &kind.hub,
            };
            let path = collection(kind, version, LIVE);
            env.until_created(&path, &made).await;
        }
    }
    until_ready(env, &Asked::default()).await;
}

/// Waits until every resource is in its last desired state.
pub(crate) async fn until_ready(env: &TestEnv, asked: &Asked) {
    for kind in kinds() {
        for one in CHANGED.into_iter().chain([LEFT_ALONE]) {
            let pods = asked.last.get(&(kind.kind, one)).copied().unwrap_or(1);
            let path = path(kind, &kind.hub, LIVE, &name(kind, one));
            let ready = |object: &Value| is_ready_with(object, pods);
            env.until(&path, &format!("ready with {pods}"), ready).await;
        }
    }
}

/// Changes resources in both versions until `is_over`.
pub(crate) async fn change(env: &TestEnv, is_over: Arc<AtomicBool>) -> Asked {
    let mut asked = Asked::default();
    let (began, mut turn) = (Instant::now(), 0);
    while !is_over.load(Ordering::Relaxed) {
        for kind in kinds() {
            for one in CHANGED {
                turn += 1;
                // Every other time in the version in which it was not created.
                let version = match turn % 2 {
                    0 => &kind.spoke,
                    _ => &kind.hub,
                };
                let pods = 1 + i64::from(turn % 3);
                let path = path(kind, version, LIVE, &name(kind, one));
                let patch = json!({"spec": pods_of(kind, version, pods)});
                asked.writes += 1;
                match env.merge(&path, patch).await {
                    Ok(_) => drop(asked.last.insert((kind.kind, one), pods)),
                    Err(status) => asked.refused.push(format!(
                        "{:.1?}: {path}: {} {}",
                        began.elapsed(),
                        status.code,
                        status.message
                    )),
                }
                sleep(Duration::from_millis(60)).await;
            }
        }
        turn += 1;
    }
    asked
}

/// Returns the stored specs in both versions, without the number of pods of those that change.
pub(crate) async fn specs(env: &TestEnv) -> BTreeMap<String, Value> {
    let mut specs = BTreeMap::new();
    for kind in kinds() {
        for version in [&kind.spoke, &kind.hub] {
            let list = env.get(&collection(kind, version, LIVE)).await;
            for object in list.expect("a list")["items"].as_array().expect("items") {
                let mut spec = object["spec"].clone();
                let name = object["metadata"]["name"].as_str().expect("a name");
                if name.starts_with("changed") {
                    without(&mut spec, &pods_of(kind, version, 0));
                }
                specs.insert(format!("{}/{} {name}", kind.kind, version.name), spec);
            }
        }
    }
    specs
}

/// Removes the members of `pattern` from `value`.
fn without(value: &mut Value, pattern: &Value) {
    for (name, below) in pattern.as_object().into_iter().flatten() {
        if below.is_object() {
            without(&mut value[name], below)
        } else {
            let members = value.as_object_mut().expect("an object");
            assert!(members.remove(name).is_some(), "there is {name}");
        }
    }
}

/// Returns the children of the unchanged resources, and their pods, by UID.
pub(crate) async fn left_alone(env: &TestEnv) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for (api, plural) in [
        ("/apis/apps/v1", "deployments"),
        ("/apis/apps/v1", "replicasets"),
        ("/api/v1", "services"),
        ("/api/v1", "pods"),
    ] {
        let list = env.get(&format!("{api}/namespaces/{LIVE}/{plural}")).await;
        for object in list.expect("a list")["items"].as_array().expect("items") {
            let name = object["metadata"]["name"].as_str().expect("a name");
            if name.starts_with(LEFT_ALONE) {
                let uid = object["metadata"]["uid"].clone();
                found.insert(format!("{plural} {name}"), uid);
            }
        }
    }
    found
}
