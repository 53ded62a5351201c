//! What the caches tell about the children of one resource.

use serde_json::json;

use super::*;
use quartet_operator::kinds::{BRAND, OPERATORS};
use quartet_workload::DEPLOYMENT;

/// A Deployment of the resource `owner`, as the API server returns it.
fn deployment(name: &str, status: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": name, "namespace": "ns", "uid": name, "resourceVersion": "5", "generation": 1,
            "ownerReferences": [{
                "apiVersion": "cache.example.com/v1", "kind": "Memcached", "name": "cache",
                "uid": "owner", "controller": true,
            }],
        },
        "spec": {"replicas": 1},
        "status": status,
    })
}

fn rolled_out() -> Value {
    json!({
        "observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1,
        "availableReplicas": 1,
    })
}

#[test]
fn another_child_with_pods_is_not_ready_while_it_is_rolling_out() {
    for (status, not_ready) in [
        (rolled_out(), None),
        (json!({}), Some("it is rolling out")),
        (json!({"observedGeneration": 0}), Some("it is rolling out")),
    ] {
        let children = Children::new(&BRAND, OPERATORS);
        children.put_written(DEPLOYMENT, &deployment("main", &rolled_out()), 0);
        children.put_written(DEPLOYMENT, &deployment("other", &status), 0);
        let (workload, pods, others) = children.observed("ns", "owner", Some((DEPLOYMENT, "main")));
        assert!(workload.is_some() && pods.is_empty());
        let [other] = others.as_slice() else {
            panic!("{others:?}");
        };
        assert_eq!((other.kind, other.name.as_str()), (DEPLOYMENT, "other"));
        assert_eq!(other.not_ready.as_deref(), not_ready, "{status}");
        assert_eq!(children.is_rolled_out("ns", "owner"), not_ready.is_none());
        assert!(!children.is_rolled_out("ns", "nobody"));
    }
}

#[test]
fn an_object_of_another_namespace_that_names_the_owner_is_no_child() {
    let children = Children::new(&BRAND, OPERATORS);
    let mut foreign = deployment("main", &json!({}));
    foreign["metadata"]["namespace"] = "another".into();
    foreign["metadata"]["uid"] = "foreign".into();
    foreign["spec"]["selector"] = json!({"matchLabels": {"app": "foreign"}});
    children.put_written(DEPLOYMENT, &foreign, 0);
    assert!(children.preserved_selector("ns", "owner").is_none());
    assert!(!children.is_rolled_out("ns", "owner"), "it has no child");
    let (workload, _, others) = children.observed("ns", "owner", None);
    assert!(workload.is_none() && others.is_empty());

    children.put_written(DEPLOYMENT, &deployment("main", &rolled_out()), 0);
    assert!(children.preserved_selector("ns", "owner").is_none());
    assert!(children.is_rolled_out("ns", "owner"));
    let (workload, _, others) = children.observed("ns", "owner", None);
    assert!(workload.is_some_and(|it| it.is_complete()) && others.is_empty());
}
