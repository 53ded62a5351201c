//! The optional Service of a resource, and the only DELETE that the manager sends.

use serde_json::{Value, json};

use crate::changes;
use testkit::{
    DEPLOYMENT, HELLO_WORLD, Kind, MEMCACHED, NGINX, Request, SERVICE, TestEnv, is_ready,
};

/// The annotation in which the spoke version keeps the fields that only the hub version has.
const CONVERSION_DATA: &str = "quartet-operator.example.com/conversion-data";

/// Each kind with an optional Service, a spec, and the hub's `service`.
fn kinds() -> [(Kind, Value, Value); 3] {
    [
        (MEMCACHED, json!({"size": 1}), json!({"enabled": true})),
        (NGINX, json!({"count": 1}), json!({"port": 80})),
        (
            HELLO_WORLD,
            json!({"size": 1}),
            json!({"type": "ClusterIP", "port": 8080}),
        ),
    ]
}

/// Returns `service` as a merge patch of the resource, or as a part of it.
fn with_service(service: &Value) -> Value {
    let data = json!({"v1": {"service": service}}).to_string();
    json!({"metadata": {"annotations": {CONVERSION_DATA: data}}})
}

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
    let stranger = env.apply(&stranger).await.expect("applied");
    for (kind, spec, service) in kinds() {
        for name in ["kept", "dropped"] {
            let name = format!("{}-{name}", kind.plural);
            let mut object = kind.object(&name, spec.clone());
            object["metadata"]["annotations"] =
                with_service(&service)["metadata"]["annotations"].clone();
            env.apply(&object).await.expect("applied");
        }
    }
    for (kind, ..) in kinds() {
        let (kept, dropped) = (
            format!("{}-kept", kind.plural),
            format!("{}-dropped", kind.plural),
        );
        for name in [&kept, &dropped] {
            let resource = env.until_ready(kind, name).await;
            let service = env.get(SERVICE, name).await.expect("a Service");
            let owner = &service["metadata"]["ownerReferences"][0];
            assert_eq!(owner["uid"], resource["metadata"]["uid"]);
            assert_eq!(owner["controller"], true);
        }
        let kept_before = identity(&env.get(SERVICE, &kept).await.expect("a Service"));
        let doomed = identity(&env.get(SERVICE, &dropped).await.expect("a Service"));
        let deployment = env.get(DEPLOYMENT, &dropped).await.expect("a Deployment");

        changes::set_hub_fields(&env, kind, &dropped, Value::Null).await;
        env.until_gone(SERVICE, &dropped).await;
        env.until(kind, &dropped, "Ready without", is_ready).await;

        let same = env.get(DEPLOYMENT, &dropped).await.expect("a Deployment");
        assert_eq!(same["metadata"]["uid"], deployment["metadata"]["uid"]);
        assert_eq!(
            same["metadata"]["generation"],
            deployment["metadata"]["generation"]
        );
        let kept_after = identity(&env.get(SERVICE, &kept).await.expect("a Service"));
        assert_eq!(kept_before, kept_after, "untouched");
        let is_delete =
            |request: &Request| request.verb.starts_with("delete") && request.name == dropped;
        let requests = env.until_requested(is_delete).await;
        let deletes: Vec<_> = requests.iter().filter(|it| is_delete(it)).collect();
        assert_eq!(deletes.len(), 1, "{deletes:?}");
        assert_eq!(deletes[0].resource, "services");
        let conditions = &deletes[0].request_body()["preconditions"];
        assert_eq!(
            [&conditions["uid"], &conditions["resourceVersion"]],
            [&doomed[0], &doomed[1]]
        );
    }
    let after = env.get(SERVICE, "stranger").await.expect("still there");
    assert_eq!(identity(&stranger), identity(&after), "untouched");
    let requests = env.requests();
    let deletes = requests
        .iter()
        .filter(|request| request.verb.starts_with("delete"));
    assert_eq!(
        deletes.count(),
        kinds().len(),
        "no other delete: {requests:?}"
    );
}
