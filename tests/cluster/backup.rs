//! A backup as Velero makes and restores it: its order of types, and what it leaves out of an object. Children
//! come back before their resources, without owners.

use serde_json::{Value, json};

use crate::{changes, neighbours};
use testkit::{
    DEPLOYMENT, ELASTIC_WEB, HELLO_WORLD, Kind, MEMCACHED, NGINX, POD, SERVICE, TestEnv, kind,
};

const REPLICA_SET: Kind = kind("apps/v1", "ReplicaSet", "replicasets");
/// The default of `--restore-resource-priorities`, then by name.
const ORDER: [Kind; 8] = [
    POD,
    REPLICA_SET,
    SERVICE,
    DEPLOYMENT,
    ELASTIC_WEB,
    HELLO_WORLD,
    MEMCACHED,
    NGINX,
];

type Backup = Vec<(Kind, Vec<Value>)>;

async fn back_up(env: &TestEnv) -> Backup {
    let mut backup = Vec::new();
    for kind in ORDER {
        backup.push((kind, env.list(kind).await));
    }
    backup
}

async fn delete_namespace(env: &TestEnv) {
    let path = format!("/api/v1/namespaces/{}", env.namespace);
    env.api.delete(&path).await.expect("deleted");
    env.until_gone(testkit::NAMESPACE, &env.namespace).await;
}

/// Creates each object without what Velero resets. `with_fields`: its managedFields are patched afterwards.
async fn restore(env: &TestEnv, backup: &Backup, with_fields: bool) {
    for (kind, objects) in backup {
        for saved in objects {
            let mut object = saved.clone();
            object["apiVersion"] = json!(kind.api_version);
            object["kind"] = json!(kind.kind);
            object["status"].take();
            let metadata = object["metadata"].as_object_mut().expect("metadata");
            metadata.retain(|field, _| ["name", "labels", "annotations"].contains(&&**field));
            object["metadata"]["labels"]["velero.io/restore-name"] = json!("r");
            let spec = object["spec"].as_object_mut().expect("a spec");
            spec.retain(|field, _| !["nodeName", "clusterIP", "clusterIPs"].contains(&&**field));
            let created = env.api.create(&env.path(*kind, ""), &object).await;
            created.unwrap_or_else(|error| panic!("{}: {error:?}", kind.kind));
            let fields = saved["metadata"]["managedFields"].clone();
            if with_fields {
                let name = saved["metadata"]["name"].as_str().expect("a name");
                let patch = json!({"metadata": {"managedFields": fields}});
                let patched = env.api.merge(&env.path(*kind, name), patch).await;
                patched.expect("patched");
            }
        }
    }
}

/// All four are ready, with the children and the pods of the backup.
async fn assert_adopted(env: &TestEnv, backup: &Backup) {
    let of = |wanted: Kind, name: &str| {
        let (_, objects) = backup
            .iter()
            .find(|(kind, _)| kind.kind == wanted.kind)
            .expect("it");
        objects.iter().find(|it| it["metadata"]["name"] == name)
    };
    for (kind, _) in changes::one_of_each(0) {
        let name = kind.plural;
        let uid = env.until_ready(kind, name).await["metadata"]["uid"].clone();
        for child in [DEPLOYMENT, SERVICE] {
            let Some(before) = of(child, name) else {
                continue;
            };
            let after = env.get(child, name).await.expect("the child");
            let owners = &after["metadata"]["ownerReferences"];
            assert_eq!(owners[0]["uid"], uid, "{after:#}");
            for part in ["selector", "template", "ports", "replicas"] {
                assert_eq!(after["spec"][part], before["spec"][part], "{name}: {part}");
            }
        }
        for pod in neighbours::pods(env, name).await {
            let is_restored = of(POD, pod.as_str().expect("a name")).is_some();
            assert!(is_restored, "{name}: {pod} is another pod");
        }
    }
    let sets = env.list(REPLICA_SET).await.len();
    assert_eq!(sets, 4, "no template was changed");
}

#[tokio::test]
async fn a_namespace_that_is_restored_from_a_backup_keeps_its_children_and_pods() {
    let env = TestEnv::start("backup").await;
    for (kind, spec) in changes::one_of_each(30098) {
        changes::apply_ready(&env, kind, kind.plural, spec).await;
        if kind.kind != ELASTIC_WEB.kind {
            // A later generation than that of the restored resource.
            changes::scale(&env, kind, kind.plural, 2).await;
            env.until_ready(kind, kind.plural).await;
        }
    }
    let backup = back_up(&env).await;
    delete_namespace(&env).await;
    let object = json!({"metadata": {"name": env.namespace}});
    env.api.until_created("/api/v1/namespaces", &object).await;
    restore(&env, &backup, true).await;
    assert_adopted(&env, &backup).await;
    // The node port is free again.
    delete_namespace(&env).await;
    let other = TestEnv::start("restored").await;
    restore(&other, &backup, false).await;
    assert_adopted(&other, &backup).await;
}
