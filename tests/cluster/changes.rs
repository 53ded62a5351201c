//! The changes that users make in these tests. Each must be accepted.

use serde_json::{Value, json};
use testkit::{ELASTIC_WEB, HELLO_WORLD, Kind, MEMCACHED, NGINX, TestEnv};

/// A spec of each kind, with one pod; the ElasticWeb has this node port.
pub(crate) fn one_of_each(port: i64) -> [(Kind, Value); 4] {
    let web = json!({"image": "nginx:1.17.1", "port": port, "singlePodsQPS": 1, "totalQPS": 1});
    [
        (MEMCACHED, json!({"size": 1})),
        (NGINX, json!({"count": 1})),
        (ELASTIC_WEB, web),
        (HELLO_WORLD, json!({"size": 1})),
    ]
}

/// Applies a resource.
pub(crate) async fn apply(env: &TestEnv, kind: Kind, name: &str, spec: Value) -> Value {
    let applied = env.apply(&kind.object(name, spec)).await;
    applied.expect("applied")
}

/// Applies a resource and waits until it is Ready.
pub(crate) async fn apply_ready(env: &TestEnv, kind: Kind, name: &str, spec: Value) -> Value {
    apply(env, kind, name, spec).await;
    env.until_ready(kind, name).await
}

/// Sends a merge patch.
pub(crate) async fn patch(env: &TestEnv, kind: Kind, name: &str, patch: Value) -> Value {
    env.patch(kind, name, patch).await.expect("patched")
}

/// Sets the annotation in which the original version keeps the fields of the new one.
pub(crate) async fn set_hub_fields(env: &TestEnv, kind: Kind, name: &str, data: Value) {
    let data = match data {
        Value::Null => Value::Null,
        data => data.to_string().into(),
    };
    let annotations = json!({"quartet-operator.example.com/conversion-data": data});
    let change = json!({"metadata": {"annotations": annotations}});
    patch(env, kind, name, change).await;
}

/// Scales a resource as `kubectl scale` does.
pub(crate) async fn scale(env: &TestEnv, kind: Kind, name: &str, replicas: i64) {
    env.scale(kind, name, replicas).await.expect("scaled");
}
