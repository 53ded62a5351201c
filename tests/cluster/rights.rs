//! A manager with exactly the permissions of the generated roles: they suffice for everything it
//! does, and it uses all of them.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::changes;
use crate::granted::{CORE, METRICS_AUTH, generated, granted, used};
use crate::metrics::token;
use testkit::{
    DEPLOYMENT, ELASTIC_WEB, HELLO_WORLD, Kind, Limit, MEMCACHED, NGINX, RBAC, ROLE, ROLE_BINDING,
    SERVICE, TestEnv, condition,
};

/// Returns the rules that the bundle's ClusterServiceVersion gives the manager, including those for
/// its own namespace.
fn bundled_rules() -> Vec<Value> {
    let csv = generated("../bundle/manifests/quartet-operator.clusterserviceversion.yaml");
    let install = &csv["spec"]["install"]["spec"];
    let parts = ["clusterPermissions", "permissions"].into_iter();
    let rules = parts.flat_map(|part| install[part][0]["rules"].as_array().expect("rules"));
    rules.cloned().collect()
}

/// Gives the ServiceAccount `manager` the bundle's rules in the test's namespace.
pub(crate) async fn allow_manager(env: &TestEnv) {
    let metadata = json!({"name": "manager"});
    let role = json!({
        "apiVersion": RBAC, "kind": ROLE.kind, "metadata": metadata,
        "rules": bundled_rules(),
    });
    let binding = json!({
        "apiVersion": RBAC, "kind": ROLE_BINDING.kind, "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "manager"},
        "subjects": [{"kind": "ServiceAccount", "name": "manager", "namespace": env.namespace}],
    });
    for object in [role, binding] {
        env.apply(&object).await.expect("applied");
    }
}

/// Writes a kubeconfig with this user.
pub(crate) fn kubeconfig_of(env: &TestEnv, user: Value) -> PathBuf {
    let admin = std::fs::read_to_string(env.kubeconfig()).expect("a kubeconfig");
    let mut kubeconfig: Value = serde_saphyr::from_str(&admin).expect("YAML");
    kubeconfig["users"][0]["user"] = user;
    let file = std::env::temp_dir().join(format!("{}.kubeconfig", env.namespace));
    std::fs::write(&file, kubeconfig.to_string()).expect("written");
    file
}

const DATA: &str = "quartet-operator.example.com/conversion-data";

/// Returns Memcached, Nginx and HelloWorld with a Service each, ElasticWeb, and the finalizer of
/// operator-sdk's Memcached.
fn resources(node_port: u16) -> [(Kind, Value); 4] {
    let with_service = |kind: Kind, spec: Value, service: Value| {
        let mut object = kind.object("mine", spec);
        let data = json!({"v1": {"service": service}}).to_string();
        object["metadata"]["annotations"] = json!({DATA: data});
        // The same name for all would be a conflict.
        object["metadata"]["name"] = format!("mine-{}", kind.plural).into();
        (kind, object)
    };
    let web =
        json!({"image": "nginx:1.17.1", "port": node_port, "singlePodsQPS": 1, "totalQPS": 1});
    let mut resources = [
        with_service(MEMCACHED, json!({"size": 1}), json!({"enabled": true})),
        with_service(NGINX, json!({"count": 1}), json!({"port": 80})),
        with_service(HELLO_WORLD, json!({"size": 1}), json!({"port": 80})),
        (ELASTIC_WEB, ELASTIC_WEB.object("mine-elasticwebs", web)),
    ];
    resources[0].1["metadata"]["finalizers"] = json!(["cache.example.com/finalizer"]);
    resources
}

/// Makes the manager do everything that it does for resources.
async fn exercise(env: &TestEnv) {
    let strangers = [
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "taken"},
            "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "stranger"}}, "template": {
                "metadata": {"labels": {"app": "stranger"}},
                "spec": {"containers": [{"name": "c", "image": "stranger:1"}]}}},
        }),
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "taken-too"},
            "spec": {"selector": {"app": "stranger"}, "ports": [{"port": 1234}]},
        }),
    ];
    for stranger in strangers {
        env.apply(&stranger).await.expect("applied");
    }
    for (kind, object) in resources(30040) {
        env.apply(&object).await.expect("applied");
        let name = object["metadata"]["name"].as_str().expect("a name");
        let resource = env.until_ready(kind, name).await;
        let finalizers = &resource["metadata"]["finalizers"];
        assert!(finalizers.is_null(), "fault 33: they are removed");
        assert!(env.get(DEPLOYMENT, name).await.is_some());
        assert!(env.get(SERVICE, name).await.is_some());
        let none = json!({DATA: json!({"v1": {}}).to_string()});
        changes::patch(env, kind, name, json!({"metadata": {"annotations": none}})).await;
        if kind.kind != "ElasticWeb" {
            env.until_gone(SERVICE, name).await;
        }
    }
    changes::apply(env, MEMCACHED, "taken", json!({"size": 1})).await;
    env.until_degraded(MEMCACHED, "taken", "NameConflict").await;
    let web = json!({"image": "nginx:1.17.1", "port": 30041, "singlePodsQPS": 1, "totalQPS": 0});
    changes::apply(env, ELASTIC_WEB, "taken-too", web).await;
    env.until_degraded(ELASTIC_WEB, "taken-too", "NameConflict")
        .await;
}

#[tokio::test]
async fn fault_24_and_30_the_manager_has_exactly_the_permissions_that_it_uses() {
    let mut env = TestEnv::without_manager("rights").await;
    allow_manager(&env).await;
    let token = token(&env, "manager", json!({})).await;
    let kubeconfig = kubeconfig_of(&env, json!({"token": token}));
    let namespace = format!("--leader-election-namespace={}", env.namespace);
    env.start_manager_as(&kubeconfig, &["--leader-elect", &namespace]);
    exercise(&env).await;

    // Reviews belong to no namespace; the test of the whole profile covers them.
    let in_a_namespace = CORE.iter().copied().filter(|role| *role != METRICS_AUTH);
    let granted = granted(&in_a_namespace.collect::<Vec<_>>());
    let mut limit = Limit::new(Duration::from_secs(200));
    while !used(&env.all_requests()).is_superset(&granted) {
        limit.pause(|| format!("unused: {}", env.log())).await;
    }
    let requests = env.all_requests();
    let account = format!("system:serviceaccount:{}:manager", env.namespace);
    let is_ours = requests.iter().all(|request| request.user == account);
    assert!(is_ours, "the tested situation occurred");
    let refused: Vec<_> = requests.iter().filter(|it| it.code == 403).collect();
    assert!(refused.is_empty(), "missing permissions: {refused:#?}");
    assert_eq!(used(&requests), granted);
    let _ = std::fs::remove_file(kubeconfig);
}

#[tokio::test]
async fn fault_11_the_status_is_written_as_a_subresource_and_the_spec_is_not() {
    let env = TestEnv::start("subresource").await;
    for (kind, object) in resources(30042) {
        env.apply(&object).await.expect("applied");
        let name = object["metadata"]["name"].as_str().expect("a name");
        // The user edits the resource between and during the status writes.
        for replicas in [2, 1] {
            if kind.kind != "ElasticWeb" {
                changes::scale(&env, kind, name, replicas).await;
            }
        }
        let resource = env.until_ready(kind, name).await;
        assert_eq!(resource["spec"], object["spec"]);
        assert!(condition(&resource, "Ready").is_some());
        let entries = resource["metadata"]["managedFields"]
            .as_array()
            .expect("managedFields");
        let ours: Vec<_> = entries
            .iter()
            .filter(|entry| {
                let manager = entry["manager"].as_str().unwrap_or_default();
                manager.starts_with("quartet-operator") && entry["subresource"] != "status"
            })
            .collect();
        assert!(ours.is_empty(), "we own nothing but the status: {ours:#?}");
    }
}
