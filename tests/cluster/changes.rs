//! The changes that users make in these tests. Each must be accepted.

use serde_json::Value;
use testkit::{Kind, TestEnv};

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
    let annotations = serde_json::json!({"quartet-operator.example.com/conversion-data": data});
    let change = serde_json::json!({"metadata": {"annotations": annotations}});
    patch(env, kind, name, change).await;
}

/// Scales a resource as `kubectl scale` does.
pub(crate) async fn scale(env: &TestEnv, kind: Kind, name: &str, replicas: i64) {
    env.scale(kind, name, replicas).await.expect("scaled");
}
