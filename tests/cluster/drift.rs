//! Edits of our children by others: our fields are restored, and fields of others are kept.

use std::time::Instant;

use serde_json::{Map, Value, json};

use crate::changes;
use testkit::{DEPLOYMENT, ELASTIC_WEB, Kind, MEMCACHED, SERVICE, TestEnv};

/// Returns the paths (JSON pointers) of the leaves in `object` that our field manager owns.
fn owned_leaves(object: &Value, manager: &str) -> Vec<String> {
    let entries = object["metadata"]["managedFields"]
        .as_array()
        .expect("managedFields");
    let ours = entries
        .iter()
        .find(|entry| entry["manager"] == manager)
        .expect("our entry");
    let mut leaves = Vec::new();
    walk(object, &ours["fieldsV1"], String::new(), &mut leaves);
    leaves
}

fn walk(value: &Value, fields: &Value, path: String, leaves: &mut Vec<String>) {
    let fields = fields.as_object().expect("a set of fields");
    if fields.is_empty() {
        leaves.push(path);
        return;
    }
    for (field, below) in fields {
        if let Some(name) = field.strip_prefix("f:") {
            let escaped = name.replace('~', "~0").replace('/', "~1");
            walk(&value[name], below, format!("{path}/{escaped}"), leaves);
        } else if let Some(keys) = field.strip_prefix("k:") {
            let keys: Map<String, Value> = serde_json::from_str(keys).expect("keys");
            let items = value.as_array().expect("a list");
            let index = items
                .iter()
                .position(|item| keys.iter().all(|(key, wanted)| item[key] == *wanted))
                .expect("the item");
            walk(&items[index], below, format!("{path}/{index}"), leaves);
        }
    }
}

/// Returns values that the API server may accept in place of `value`.
fn other_values(path: &str, value: &Value) -> Vec<Value> {
    match value {
        Value::Bool(truth) => vec![json!(!truth)],
        // Not the next port, which another test may use.
        Value::Number(port) if path.ends_with("/nodePort") => {
            vec![json!(port.as_i64().expect("an integer") + 2000)]
        }
        Value::Number(_) => vec![json!(value.as_i64().expect("an integer") + 1), json!(0)],
        Value::String(text) => {
            let known: &[&str] = match path.rsplit('/').next().unwrap_or_default() {
                "imagePullPolicy" => &["Always", "Never"],
                "type" => &["Unconfined", "ClusterIP", "Recreate"],
                "protocol" => &["UDP"],
                "externalTrafficPolicy" | "internalTrafficPolicy" => &["Local"],
                "sessionAffinity" => &["ClientIP"],
                "cpu" => &["11m"],
                "memory" => &["100Mi"],
                _ => &[],
            };
            let known = known.iter().map(|other| json!(other));
            known
                .chain([json!(format!("{text}x")), json!("1")])
                .filter(|other| other != value)
                .collect()
        }
        Value::Array(_) => vec![json!(["-vv"]), json!(["NET_RAW"]), json!([])],
        Value::Object(_) => vec![json!({"x": "y"})],
        Value::Null => vec![],
    }
}

/// Restores the lists as they were, as the user who edited them would.
async fn restore(env: &TestEnv, kind: Kind, name: &str, original: &Value) {
    for list in ["/spec/template/spec/containers", "/spec/ports"] {
        let (Some(wanted), Some(child)) = (original.pointer(list), env.get(kind, name).await)
        else {
            continue;
        };
        let lengths = [Some(wanted), child.pointer(list)]
            .map(|list| list.and_then(Value::as_array).map(Vec::len));
        if lengths[0] != lengths[1] {
            let patch = json!([{"op": "replace", "path": list, "value": wanted}]);
            env.json_patch(kind, name, patch).await.expect("restored");
        }
    }
}

/// Edits of one child: six within a minute would count as a field conflict.
const EDITS_OF_ONE: usize = 3;

/// Edits every owned leaf in the children `<name>-<number>`, which `make` creates, and waits until
/// each is restored. Returns the leaves whose edit the API server rejected.
async fn edit_everything<M: Future<Output = ()>>(
    env: &TestEnv,
    kind: Kind,
    name: &str,
    manager: &str,
    make: impl Fn(usize) -> M,
) -> Vec<String> {
    make(0).await;
    let first = format!("{name}-0");
    let original = env.get(kind, &first).await.expect("the child");
    // The resourceVersion that was applied last: it changes with the next write.
    let mut leaves = owned_leaves(&original, manager);
    leaves.retain(|path| path != "/metadata/annotations/quartet-operator.example.com~1applied");
    assert!(leaves.len() > 10, "too few owned fields: {leaves:?}");
    let edits = leaves.chunks(EDITS_OF_ONE).enumerate();
    let refused = edits.map(async |(number, leaves)| {
        if number > 0 {
            make(number).await;
        }
        edit_each(env, kind, &format!("{name}-{number}"), leaves).await
    });
    let refused = futures::future::join_all(refused).await;
    refused.concat()
}

/// Edits these leaves of one child one after another.
async fn edit_each(env: &TestEnv, kind: Kind, name: &str, leaves: &[String]) -> Vec<String> {
    let original = env.get(kind, name).await.expect("the child");
    let mut refused = Vec::new();
    for path in leaves {
        let value = original
            .pointer(path)
            .unwrap_or_else(|| panic!("no {path}"))
            .clone();
        let mut edited = None;
        for other in other_values(path, &value) {
            let patch = json!([{"op": "replace", "path": path, "value": other}]);
            if let Ok(object) = env.json_patch(kind, name, patch).await
                && object.pointer(path) != Some(&value)
            {
                edited = Some(object);
                break;
            }
        }
        if edited.is_none() {
            refused.push(path.clone());
            continue;
        }
        let started = Instant::now();
        let is_back = |child: &Value| {
            let is_key = matches!(
                path.rsplit('/').next(),
                Some("name" | "containerPort" | "port" | "protocol")
            );
            let item = path.rsplit_once('/').filter(|_| is_key);
            let list = item.and_then(|(item, key)| Some((item.rsplit_once('/')?.0, key)));
            match list.and_then(|(list, key)| Some((child.pointer(list)?.as_array()?, key))) {
                Some((items, key)) => items.iter().any(|item| item[key] == value),
                None => child.pointer(path) == Some(&value),
            }
        };
        env.until(kind, name, &format!("{path} is restored"), is_back)
            .await;
        println!("{path} was restored after {:?}", started.elapsed());
        // Editing the key of a list item creates a second item, which the editor owns.
        restore(env, kind, name, &original).await;
    }
    refused
}

#[tokio::test]
async fn an_edit_of_any_owned_field_of_a_deployment_is_reverted() {
    let env = TestEnv::start("drift").await;
    let make = async |number| {
        let name = format!("cache-{number}");
        let object = MEMCACHED.object(&name, json!({"size": 1}));
        env.apply(&object).await.expect("applied");
        env.until_ready(MEMCACHED, &name).await;
    };
    let manager = "quartet-operator-memcached";
    let refused = edit_everything(&env, DEPLOYMENT, "cache", manager, make).await;
    println!("the API server rejected changes of: {refused:?}");
    let immutable = ["/spec/selector", "/metadata/ownerReferences/0"];
    let surprising: Vec<_> = refused
        .iter()
        .filter(|path| {
            !immutable.contains(&path.as_str())
                && !path.starts_with("/spec/template/metadata/labels")
        })
        .collect();
    assert!(
        surprising.is_empty(),
        "these edits were expected to be possible: {surprising:?}"
    );
}

#[tokio::test]
async fn an_edit_of_any_owned_field_of_a_service_is_reverted() {
    let env = TestEnv::start("drift-service").await;
    let make = async |number| {
        let name = format!("web-{number}");
        let port = 30076 + number;
        let spec =
            json!({"image": "nginx:1.17.1", "port": port, "singlePodsQPS": 1, "totalQPS": 0});
        let object = ELASTIC_WEB.object(&name, spec);
        env.apply(&object).await.expect("applied");
        env.until_ready(ELASTIC_WEB, &name).await;
    };
    let manager = "quartet-operator-elasticweb";
    let refused = edit_everything(&env, SERVICE, "web", manager, make).await;
    println!("the API server rejected changes of: {refused:?}");
    assert!(
        refused.len() <= 2,
        "these edits were expected to be possible: {refused:?}"
    );
}

#[tokio::test]
async fn fields_of_other_field_managers_are_kept() {
    let env = TestEnv::start("others").await;
    changes::apply_ready(&env, MEMCACHED, "cache", json!({"size": 1})).await;
    let sidecar = json!([
        {"op": "add", "path": "/spec/template/spec/containers/-", "value": {"name": "sidecar", "image": "theirs:1"}},
        {"op": "add", "path": "/metadata/annotations/team", "value": "blue"},
        {"op": "add", "path": "/metadata/labels/team", "value": "blue"},
    ]);
    env.json_patch(DEPLOYMENT, "cache", sidecar)
        .await
        .expect("patched");
    // A later change of ours must not remove them.
    changes::scale(&env, MEMCACHED, "cache", 2).await;
    let deployment = env
        .until(DEPLOYMENT, "cache", "scaled", |deployment| {
            deployment["status"]["readyReplicas"] == 2
        })
        .await;
    assert_eq!(deployment["metadata"]["annotations"]["team"], "blue");
    assert_eq!(deployment["metadata"]["labels"]["team"], "blue");
    let containers = deployment["spec"]["template"]["spec"]["containers"]
        .as_array()
        .expect("containers");
    assert!(
        containers
            .iter()
            .any(|container| container["name"] == "sidecar")
    );
}

#[tokio::test]
async fn fault_08_deleted_children_are_recreated() {
    let env = TestEnv::start("deleted").await;
    let spec = json!({"image": "nginx:1.17.1", "port": 30011, "singlePodsQPS": 1, "totalQPS": 1});
    changes::apply_ready(&env, ELASTIC_WEB, "web", spec).await;
    for kind in [DEPLOYMENT, SERVICE] {
        let before = env.get(kind, "web").await.expect("the child")["metadata"]["uid"].clone();
        env.delete(kind, "web").await;
        env.until(kind, "web", "made anew", |child| {
            child["metadata"]["uid"] != before
        })
        .await;
    }
    env.until_ready(ELASTIC_WEB, "web").await;
}

#[tokio::test]
async fn the_label_that_the_watch_selects_by_is_restored_on_the_same_child() {
    let env = TestEnv::start("label").await;
    changes::apply_ready(&env, MEMCACHED, "cache", json!({"size": 1})).await;
    let before = env.get(DEPLOYMENT, "cache").await.expect("the child");
    let unlabelled = json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": null}}});
    changes::patch(&env, DEPLOYMENT, "cache", unlabelled).await;
    let after = env
        .until(DEPLOYMENT, "cache", "has its label again", |child| {
            child["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "quartet-operator"
        })
        .await;
    assert_eq!(before["metadata"]["uid"], after["metadata"]["uid"]);
    env.until_ready(MEMCACHED, "cache").await;
}

#[tokio::test]
async fn a_status_edited_by_hand_is_corrected() {
    let env = TestEnv::start("status").await;
    let ready = changes::apply_ready(&env, MEMCACHED, "cache", json!({"size": 1})).await;
    env.patch_status(MEMCACHED, "cache", json!({"status": {"readyReplicas": 7}}))
        .await;
    env.until(MEMCACHED, "cache", "has the true count again", |resource| {
        resource["status"]["readyReplicas"] == ready["status"]["readyReplicas"]
    })
    .await;
}
