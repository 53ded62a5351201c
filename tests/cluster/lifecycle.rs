//! The life of a resource: create, change, delete.

use serde_json::{Value, json};

use crate::changes;
use testkit::{
    DEPLOYMENT, ELASTIC_WEB, HELLO_WORLD, Kind, MEMCACHED, NAMESPACE, NGINX, SERVICE, TestEnv,
};

fn elastic_web(port: i32, single: i32, total: i32) -> Value {
    json!({"image": "nginx:1.17.1", "port": port, "singlePodsQPS": single, "totalQPS": total})
}

#[tokio::test]
async fn a_resource_of_each_kind_becomes_a_running_deployment_and_reports_it() {
    let env = TestEnv::start("create").await;
    let web = elastic_web(30001, 800, 2400);
    let samples: [(Kind, &str, Value, i64); 4] = [
        (MEMCACHED, "memcached-sample", json!({"size": 3}), 3),
        (NGINX, "nginx-sample", json!({"count": 3}), 3),
        (ELASTIC_WEB, "elasticweb-sample", web, 3),
        (HELLO_WORLD, "helloworld-sample", json!({"size": 2}), 2),
    ];
    for (kind, name, spec, _) in &samples {
        changes::apply(&env, *kind, name, spec.clone()).await;
    }
    for (kind, name, _, pods) in samples {
        let resource = env.until_ready(kind, name).await;
        assert_eq!(resource["status"]["readyReplicas"], pods);
        let nodes = resource["status"]["nodes"].as_array().expect("nodes");
        assert_eq!(nodes.len() as i64, pods, "the status lists every pod");
        let is_sorted = nodes.is_sorted_by_key(|node| node.as_str());
        assert!(is_sorted, "fault 21: {nodes:?}");
        let deployment = env.get(DEPLOYMENT, name).await;
        let deployment = deployment.expect("the child carries the resource's name");
        assert_eq!(deployment["status"]["availableReplicas"], pods);
        let owner = &deployment["metadata"]["ownerReferences"][0];
        assert_eq!(owner["uid"], resource["metadata"]["uid"]);
        let found = (&owner["controller"], &owner["blockOwnerDeletion"]);
        assert_eq!(found, (&json!(true), &json!(true)));
        let finalizers = &resource["metadata"]["finalizers"];
        assert!(finalizers.is_null(), "fault 33: {finalizers}");
        let service = env.get(SERVICE, name).await;
        let expected = kind.kind == "ElasticWeb";
        assert_eq!(service.is_some(), expected, "only ElasticWeb has a Service");
    }
}

#[tokio::test]
async fn fault_09_a_changed_image_and_port_reach_the_children() {
    let env = TestEnv::start("change").await;
    changes::apply_ready(&env, ELASTIC_WEB, "web", elastic_web(30002, 1, 1)).await;
    let cluster_ip = env.get(SERVICE, "web").await.expect("a Service")["spec"]["clusterIP"].clone();
    let patch = json!({"spec": {"image": "nginx:1.28", "port": 30063}});
    changes::patch(&env, ELASTIC_WEB, "web", patch).await;
    let runs_it =
        |it: &Value| it["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:1.28";
    env.until(DEPLOYMENT, "web", "new image", runs_it).await;
    let has_it = |it: &Value| it["spec"]["ports"][0]["nodePort"] == 30063;
    let service = env.until(SERVICE, "web", "new port", has_it).await;
    let found = &service["spec"]["clusterIP"];
    assert_eq!(*found, cluster_ip, "fault 14: patched, not replaced");
    assert_eq!(service["spec"]["ports"].as_array().map(Vec::len), Some(1));
    env.until_ready(ELASTIC_WEB, "web").await;
}

#[tokio::test]
async fn deleting_a_resource_deletes_its_children_and_none_is_created_meanwhile() {
    let env = TestEnv::start("delete").await;
    changes::apply_ready(&env, ELASTIC_WEB, "web", elastic_web(30004, 1, 2)).await;
    // Foreground deletion: the resource keeps a deletionTimestamp until its children are gone.
    let options = json!({"propagationPolicy": "Foreground"});
    env.delete_with(ELASTIC_WEB, "web", options).await;
    env.until_gone(ELASTIC_WEB, "web").await;
    env.until_gone(DEPLOYMENT, "web").await;
    env.until_gone(SERVICE, "web").await;
    // Fault 49: no child is created while its owner is being deleted.
    let mut requests = env.requests();
    requests.retain(|request| request.resource == "deployments");
    assert_eq!(requests.len(), 1, "{requests:?}");
}

#[tokio::test]
async fn fault_50_a_deleted_namespace_is_removed_without_request_storms() {
    let env = TestEnv::start("ending").await;
    for number in 0..5 {
        let name = format!("m{number}");
        changes::apply(&env, MEMCACHED, &name, json!({"size": 1})).await;
    }
    env.until_ready(MEMCACHED, "m4").await;
    let namespace = env.namespace.clone();
    env.delete(NAMESPACE, &namespace).await;
    env.until_gone(NAMESPACE, &namespace).await;
    // At most a few per resource were in flight.
    let mut rejected = env.requests();
    rejected.retain(|request| request.code >= 400);
    assert!(rejected.len() <= 15, "{rejected:?}");
}
