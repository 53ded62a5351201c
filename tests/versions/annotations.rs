//! The conversion annotation is part of the object: it is validated on every path on which it can
//! change, and only then.

use quartet_operator::kinds::DATA_ANNOTATION;
use quartet_operator::kinds::memcached;
use quartet_versions::{Kind, Version};
use serde_json::{Value, json};

use crate::environment::{TestEnv, collection, object, path};
use crate::shared::BOTH_VERSIONS;

const MEMCACHED: &Kind = &memcached::KIND;
const SPOKE: &str = "memcacheds.v1alpha1.cache.example.com";
const NAMESPACE: &str = "annotations";

pub(crate) fn data(hub: Value) -> Value {
    json!({DATA_ANNOTATION: json!({"v1": hub}).to_string()})
}

pub(crate) fn spoke(name: &str, size: i64, annotations: Value) -> Value {
    let mut object = object(MEMCACHED, &MEMCACHED.spoke, name, json!({"size": size}));
    object["metadata"]["annotations"] = annotations;
    object
}

fn of(version: &Version, name: &str) -> String {
    path(MEMCACHED, version, NAMESPACE, name)
}

fn collection_of(version: &Version) -> String {
    collection(MEMCACHED, version, NAMESPACE)
}

/// Returns the hub's spec of the object `a`.
async fn hub_spec(env: &TestEnv) -> Value {
    let read = env.get(&of(&MEMCACHED.hub, "a")).await;
    read.expect("the object")["spec"].take()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn conversion_data_is_validated_on_every_path_on_which_it_can_change() {
    let env = BOTH_VERSIONS.test_env().await;
    env.create_namespace(NAMESPACE).await;
    let in_spoke = collection_of(&MEMCACHED.spoke);

    let blamed = "metadata.annotations[quartet-operator.example.com/conversion-data]: \
                  Invalid value: spec of v1: Invalid value: invalid type: string \"5\", \
                  expected i32";
    let bad = || data(json!({"memory": "5"}));
    let created = env.create(&in_spoke, &spoke("a", 1, bad())).await;
    let refused = created.expect_err("refused");
    assert!(refused.message.contains(blamed), "{refused:?}");
    let good = spoke("a", 1, data(json!({"memory": 128})));
    env.create(&in_spoke, &good).await.expect("created");
    let expected = json!({"replicas": 1, "memory": 128});
    assert_eq!(hub_spec(&env).await, expected);

    // kubectl, with the object as it was stored before.
    let annotation = format!(r#"{DATA_ANNOTATION}={{"v1":{{"memory":"5"}}}}"#);
    let command = format!("annotate --namespace={NAMESPACE} {SPOKE} a --overwrite {annotation}");
    let arguments: Vec<&str> = command.split(' ').collect();
    let (succeeded, written) = env.kubectl(&arguments, &Value::Null);
    println!("$ kubectl {command}\n{written}");
    assert!(!succeeded && written.contains(blamed), "{written}");

    let path = of(&MEMCACHED.spoke, "a");
    let with_bad = json!({"metadata": {"annotations": bad()}});
    let read = env.get(&path).await.expect("the object");
    let mut replaced = read.clone();
    replaced["metadata"]["annotations"] = bad();
    let mut applied = spoke("a", 1, bad());
    applied.as_object_mut().expect("an object").remove("spec");
    let only_annotations = json!([
        {"op": "add", "path": "/metadata/annotations", "value": bad()},
    ]);
    let apply = format!("{path}?fieldManager=x&force=true");
    for answer in [
        env.merge(&path, with_bad.clone()).await,
        env.merge(&format!("{path}?dryRun=All"), with_bad.clone())
            .await,
        env.replace(&path, &replaced).await,
        env.apply(&apply, &applied).await,
        env.apply(&apply, &spoke("a", 2, bad())).await,
        env.json_patch(&path, &only_annotations).await,
    ] {
        let refused = answer.expect_err("refused");
        assert_eq!((refused.code, refused.reason.as_str()), (422, "Invalid"));
        assert!(refused.message.contains(blamed), "{refused:?}");
    }
    // A status write does not change annotations.
    let mut status = with_bad;
    status["status"] = json!({"replicas": 1});
    let written = env.merge(&format!("{path}/status"), status).await;
    written.expect("a status");
    assert_eq!(hub_spec(&env).await, expected);

    let patch = json!({"metadata": {"annotations": data(json!({"service": {"enabled": 1}}))}});
    let refused = env.merge(&path, patch).await.expect_err("refused");
    let problem = "invalid type: integer `1`";
    assert!(refused.message.contains(problem), "{refused:?}");

    // A valid annotation is stored without a change of the written spec.
    let patch = json!({"metadata": {"annotations": data(json!({"memory": 64, "threads": 2}))}});
    env.merge(&path, patch).await.expect("annotated");
    let expected = json!({"replicas": 1, "memory": 64, "threads": 2});
    assert_eq!(hub_spec(&env).await, expected);

    // On the hub the annotation has no meaning, and data for the hub cannot be set with it.
    let patch = json!({"metadata": {"annotations": bad()}});
    let annotated = env.merge(&of(&MEMCACHED.hub, "a"), patch).await;
    annotated.expect("annotated");
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    env.merge(&path, label).await.expect("labelled");
    assert_eq!(hub_spec(&env).await, expected);
}
