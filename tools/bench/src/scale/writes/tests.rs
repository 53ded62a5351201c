use super::*;

fn call(content_type: &str, body: Value) -> Call {
    Call {
        method: hyper::Method::PATCH,
        path: String::new(),
        query: vec![("fieldManager".to_owned(), "ours".to_owned())],
        content_type: content_type.to_owned(),
        body,
    }
}

fn target(verb: &'static str, resource: &str) -> Target {
    Target {
        verb,
        resource: resource.to_owned(),
        namespace: "ns".to_owned(),
        name: "r7".to_owned(),
    }
}

fn object(done: &Done) -> Value {
    serde_json::from_slice(&done.body).unwrap()
}

fn deploy(cluster: &Cluster, replicas: i64) -> Done {
    let body = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"labels": {"app": "a"}},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}},
    });
    let table = cluster.table(DEPLOYMENTS).unwrap();
    let call = call("application/apply-patch+yaml", body);
    obey(cluster, table, &call, &target("apply", DEPLOYMENTS))
}

#[tokio::test]
async fn an_apply_creates_changes_or_leaves_all_as_it_is() {
    let cluster = Cluster::new();
    let done = deploy(&cluster, 0);
    assert_eq!(done.code, 201);
    let new = object(&done);
    assert_eq!(new["metadata"]["managedFields"][0]["manager"], "ours");
    assert_eq!(new["spec"]["progressDeadlineSeconds"], 600);
    let same = deploy(&cluster, 0);
    assert_eq!((same.code, &object(&same)), (200, &new));
    let changed = object(&deploy(&cluster, 1));
    assert_eq!(changed["metadata"]["generation"], 2);
    assert_eq!(changed["spec"]["replicas"], 1);
}

#[test]
fn a_status_is_written_onto_the_version_that_was_read_only() {
    let cluster = Cluster::new();
    cluster.ask_for("memcacheds", "ns/r7", &json!({"size": 1}));
    let table = cluster.table("memcacheds").unwrap();
    let live: Value = serde_json::from_slice(&table.get("ns/r7").unwrap()).unwrap();
    let patch = |version: &Value, generation: i64| {
        let status = json!({"conditions": [{
            "type": "Ready", "status": "True", "observedGeneration": generation,
        }]});
        let operations = json!([
            {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
            {"op": "add", "path": "/status", "value": status},
        ]);
        let call = call("application/json-patch+json", operations);
        obey(
            &cluster,
            table,
            &call,
            &target("patch", "memcacheds/status"),
        )
    };
    let refused = patch(&"1".into(), 1);
    assert_eq!((refused.code, refused.is_ready), (409, false));
    let done = patch(&live["metadata"]["resourceVersion"], 1);
    assert_eq!((done.code, done.is_ready), (200, true));
    let now = object(&done);
    assert_eq!(now["spec"], live["spec"]);
    let entries = now["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(
        (&entries[1]["manager"], &entries[1]["subresource"]),
        (&"ours".into(), &"status".into())
    );
    let of_another = patch(&now["metadata"]["resourceVersion"], 2);
    assert_eq!((of_another.code, of_another.is_ready), (200, false));
}

#[test]
fn a_write_that_the_script_does_not_have_is_refused() {
    let cluster = Cluster::new();
    let table = cluster.table("services").unwrap();
    let done = obey(
        &cluster,
        table,
        &call("", json!({})),
        &target("delete", "services"),
    );
    assert_eq!(done.code, 405);
}
