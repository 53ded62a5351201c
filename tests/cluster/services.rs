//! The optional Service of a resource, and the only DELETE that the manager sends. Each kind with one is in
//! the test of the permissions, too.

use serde_json::{Value, json};

use crate::changes;
use testkit::{DEPLOYMENT, NGINX, Request, SERVICE, TestEnv, is_ready};

fn identity(object: &Value) -> [Value; 2] {
    let metadata = &object["metadata"];
    [metadata["uid"].clone(), metadata["resourceVersion"].clone()]
}

#[tokio::test]
async fn an_optional_service_is_created_on_request_and_only_it_is_deleted_later() {
    let env = TestEnv::start("services").await;
    let stranger = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "stranger"},
        "spec": {"selector": {"app": "stranger"}, "ports": [{"port": 80}]},
    });
    env.apply(&stranger).await.expect("applied");
    for name in ["kept", "dropped"] {
        changes::apply(&env, NGINX, name, json!({"count": 1})).await;
        let service = json!({"v1": {"service": {"port": 80}}});
        changes::set_hub_fields(&env, NGINX, name, service).await;
    }
    for name in ["kept", "dropped"] {
        let service = env.until(SERVICE, name, "created", |_| true).await;
        let resource = env.until_ready(NGINX, name).await;
        let owner = &service["metadata"]["ownerReferences"][0];
        assert_eq!(owner["uid"], resource["metadata"]["uid"]);
        assert_eq!(owner["controller"], true);
    }
    let others = async || {
        let others = [env.get(SERVICE, "kept"), env.get(SERVICE, "stranger")];
        let others = futures::future::join_all(others).await.into_iter();
        others
            .map(|it| identity(&it.expect("a Service")))
            .collect::<Vec<_>>()
    };
    let before = others().await;
    let doomed = identity(&env.get(SERVICE, "dropped").await.expect("a Service"));
    let deployment = env.get(DEPLOYMENT, "dropped").await.expect("a Deployment");

    changes::set_hub_fields(&env, NGINX, "dropped", Value::Null).await;
    env.until_gone(SERVICE, "dropped").await;
    env.until(NGINX, "dropped", "Ready without", is_ready).await;

    let same = env.get(DEPLOYMENT, "dropped").await.expect("a Deployment");
    for field in ["uid", "generation"] {
        assert_eq!(same["metadata"][field], deployment["metadata"][field]);
    }
    assert_eq!(others().await, before, "untouched");
    let is_delete = |request: &Request| request.verb.starts_with("delete");
    let requests = env.until_requested(is_delete).await;
    let deletes: Vec<_> = requests.iter().filter(|it| is_delete(it)).collect();
    assert_eq!(deletes.len(), 1, "no other delete: {deletes:?}");
    let (resource, name) = (&deletes[0].resource, &deletes[0].name);
    assert_eq!((resource.as_str(), name.as_str()), ("services", "dropped"));
    let conditions = &deletes[0].request_body()["preconditions"];
    let named = [&conditions["uid"], &conditions["resourceVersion"]];
    assert_eq!(named, [&doomed[0], &doomed[1]]);
}
