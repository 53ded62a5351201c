//! Edits of our children by others: our fields are restored.

use serde_json::{Value, json};

use crate::changes;
use testkit::{DEPLOYMENT, ELASTIC_WEB, SERVICE, TestEnv};

/// Edits of one child: six within two minutes would count as a field conflict.
const EDITS_OF_ONE: usize = 3;

/// Fields of the children, and another value of each.
const EDITS: &str = r#"
Deployment /spec/replicas 3
Deployment /spec/template/spec/containers/0/imagePullPolicy "Always"
Deployment /metadata/labels/app.kubernetes.io~1instance "other"
Deployment /spec/template/spec/containers/0/image "other:1"
Deployment /spec/template/spec/containers/0/resources/requests/cpu "11m"
Deployment /spec/template/spec/containers/0/readinessProbe/periodSeconds 99
Deployment /spec/template/spec/containers/0/ports/0/containerPort 8099
Deployment /spec/template/spec/containers/0/name "other"
Service /spec/selector/app.kubernetes.io~1instance "other"
Service /spec/ports/0/nodePort 32090
Service /spec/ports/0/targetPort "other"
Service /spec/ports/0/name "other"
Service /spec/ports/0/port 8099
Service /metadata/labels/app.kubernetes.io~1instance "other""#;

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
    let edits: Vec<&str> = EDITS.trim().lines().collect();
    let children = edits.chunks(EDITS_OF_ONE).enumerate();
    let reverted = children.map(async |(number, edits)| {
        let name = format!("web-{number}");
        let port = 30076 + number;
        let spec =
            json!({"image": "nginx:1.17.1", "port": port, "singlePodsQPS": 1, "totalQPS": 1});
        changes::apply_ready(&env, ELASTIC_WEB, &name, spec).await;
        for edit in edits {
            let words: Vec<&str> = edit.split(' ').collect();
            let [kind, path, other] = words[..] else {
                panic!("{edit}")
            };
            let mut kinds = [SERVICE, DEPLOYMENT].into_iter();
            let kind = kinds.find(|it| it.kind == kind).expect(edit);
            let other: Value = serde_json::from_str(other).expect("JSON");
            let child = env.get(kind, &name).await.expect("the child");
            let before = child.pointer(path).expect(path).clone();
            let patch = json!([{"op": "replace", "path": path, "value": other}]);
            let edited = env.json_patch(kind, &name, patch).await;
            assert_ne!(edited.expect("patched").pointer(path), Some(&before));
            let is_back = |child: &Value| has(child, path, &before);
            env.until(kind, &name, path, is_back).await;
        }
    });
    futures::future::join_all(reverted).await;
}

#[tokio::test]
async fn fault_08_deleted_children_are_recreated() {
    let env = TestEnv::start("deleted").await;
    let spec = json!({"image": "nginx:1.17.1", "port": 30011, "singlePodsQPS": 1, "totalQPS": 1});
    changes::apply_ready(&env, ELASTIC_WEB, "web", spec).await;
    for kind in [DEPLOYMENT, SERVICE] {
        let before = env.get(kind, "web").await.expect("the child")["metadata"]["uid"].clone();
        env.delete(kind, "web").await;
        let is_new = |child: &Value| child["metadata"]["uid"] != before;
        env.until(kind, "web", "made anew", is_new).await;
    }
    env.until_ready(ELASTIC_WEB, "web").await;
}
