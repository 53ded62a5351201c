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

/// Pointers to each value of a tree.
fn places(tree: &Value) -> Vec<String> {
    let object = tree.as_object().into_iter().flatten();
    let members = object.map(|(name, it)| (name.replace('/', "~1"), it));
    let items = tree.as_array().into_iter().flatten().enumerate();
    let items = items.map(|(index, it)| (index.to_string(), it));
    let below = members.chain(items).flat_map(|(name, it)| {
        let below = places(it).into_iter();
        below.map(move |below| format!("/{name}{below}"))
    });
    std::iter::once(String::new()).chain(below).collect()
}

#[test]
fn a_report_is_read_in_part_only_if_the_rest_is_known() {
    let mut whole = deployment("main", &rolled_out());
    let entry = |manager: &str, operation: &str| {
        let fields = json!({"f:spec": {"f:replicas": {}, "f:template": {"f:nodeName": {}}}});
        json!({"manager": manager, "operation": operation, "time": "1", "fieldsV1": fields})
    };
    let entries = [
        ("quartet-operator-memcached", "Apply"),
        ("kubectl", "Update"),
    ];
    whole["metadata"]["managedFields"] = entries.map(|(it, how)| entry(it, how)).into();
    whole["metadata"]["annotations"] = json!({BRAND.applied: "none"});
    whole["spec"]["template"] = json!({"nodeName": "a"});
    whole["spec"]["selector"] = json!({"matchLabels": {"app": "a"}});
    let received = |object: &Value| -> Received { serde_json::from_value(object.clone()).unwrap() };
    let (mut in_part, mut compared) = (0, 0);
    for place in &places(&whole)[1..] {
        for with in [Value::Null, json!({}), json!("9"), json!(2)] {
            let children = Children::new(&BRAND, OPERATORS);
            let first = children.reported(DEPLOYMENT, &received(&whole)).unwrap();
            let known = first.hash_without_status;
            children.store(DEPLOYMENT).unwrap().applied(Arc::new(first));
            let mut changed = whole.clone();
            *changed.pointer_mut(place).unwrap() = with;
            let changed = received(&changed);
            let expected = changed
                .object(&[])
                .and_then(|it| children.decode(DEPLOYMENT, &it));
            let Ok(found) = children.reported(DEPLOYMENT, &changed) else {
                continue;
            };
            in_part += usize::from(found.hash_without_status == known);
            compared += 1;
            let hash_without_status = found.hash_without_status;
            let expected = expected.map(|it| CachedChild {
                hash_without_status,
                ..it
            });
            assert_eq!(Ok(found), expected, "{place}");
        }
    }
    assert!(
        in_part > 20 && compared > 2 * in_part,
        "{in_part} of {compared}"
    );
}
