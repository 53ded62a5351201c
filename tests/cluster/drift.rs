//! Edits of our children by others: our fields are restored, and fields of others are kept.

use serde_json::{Value, json};

use crate::changes;
use testkit::{DEPLOYMENT, ELASTIC_WEB, Kind, MEMCACHED, SERVICE, TestEnv};

/// Edits of one child: six within a minute would count as a field conflict.
const EDITS_OF_ONE: usize = 3;

/// Fields of the children, and another value of each.
fn edits() -> Vec<(Kind, &'static str, Value)> {
    vec![
        (DEPLOYMENT, "/spec/replicas", json!(3)),
        (
            DEPLOYMENT,
            "/spec/template/spec/containers/0/imagePullPolicy",
            json!("Always"),
        ),
        (
            DEPLOYMENT,
            "/metadata/labels/app.kubernetes.io~1instance",
            json!("other"),
        ),
        (
            DEPLOYMENT,
            "/spec/template/spec/containers/0/image",
            json!("other:1"),
        ),
        (
            DEPLOYMENT,
            "/spec/template/spec/containers/0/resources/requests/cpu",
            json!("11m"),
        ),
        (
            DEPLOYMENT,
            "/spec/template/spec/containers/0/readinessProbe/periodSeconds",
            json!(99),
        ),
        (
            DEPLOYMENT,
            "/spec/template/spec/containers/0/ports/0/containerPort",
            json!(8099),
        ),
        (
            DEPLOYMENT,
            "/spec/template/spec/containers/0/name",
            json!("other"),
        ),
        (
            SERVICE,
            "/spec/selector/app.kubernetes.io~1instance",
            json!("other"),
        ),
        (SERVICE, "/spec/ports/0/nodePort", json!(32090)),
        (SERVICE, "/spec/ports/0/targetPort", json!("other")),
        (SERVICE, "/spec/ports/0/name", json!("other")),
        (SERVICE, "/spec/ports/0/port", json!(8099)),
        (
            SERVICE,
            "/metadata/labels/app.kubernetes.io~1instance",
            json!("other"),
        ),
    ]
}

/// Reports whether a child has this value at a path. An edit of the key of a list item creates a second
/// item, which the editor owns.
fn has(child: &Value, path: &str, value: &Value) -> bool {
    match path.split_once("/0/") {
        None => child.pointer(path) == Some(value),
        Some((list, field)) => {
            let items = child.pointer(list).and_then(Value::as_array);
            let mut items = items.into_iter().flatten();
            items.any(|item| item.pointer(&format!("/{field}")) == Some(value))
        }
    }
}

#[tokio::test]
async fn edits_of_a_deployment_and_of_a_service_are_reverted() {
    let env = TestEnv::start("drift").await;
    let edits = edits();
    let children = edits.chunks(EDITS_OF_ONE).enumerate();
    let reverted = children.map(async |(number, edits)| {
        let name = format!("web-{number}");
        let port = 30076 + number;
        let spec =
            json!({"image": "nginx:1.17.1", "port": port, "singlePodsQPS": 1, "totalQPS": 1});
        changes::apply_ready(&env, ELASTIC_WEB, &name, spec).await;
        for (kind, path, other) in edits {
            let child = env.get(*kind, &name).await.expect("the child");
            let before = child.pointer(path).expect(path).clone();
            let patch = json!([{"op": "replace", "path": path, "value": other}]);
            let edited = env.json_patch(*kind, &name, patch).await;
            assert_ne!(edited.expect("patched").pointer(path), Some(&before));
            let is_back = |child: &Value| has(child, path, &before);
            env.until(*kind, &name, path, is_back).await;
        }
    });
    futures::future::join_all(reverted).await;
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
