//! Access to `/metrics` over TLS, with real ServiceAccounts, real tokens and reviews by the real
//! API server. No token is ever in the log.

use serde_json::{Value, json};

use testkit::{TestEnv, http};

const AUTHENTICATION: &str = "authentication.k8s.io/v1";

/// Creates a ServiceAccount, and requests a token with this `spec`.
pub(crate) async fn token(env: &TestEnv, account: &str, spec: Value) -> String {
    let metadata = json!({"name": account});
    let object = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata});
    env.apply(&object).await.expect("applied");
    let namespace = &env.namespace;
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
    let request = json!({"apiVersion": AUTHENTICATION, "kind": "TokenRequest", "spec": spec});
    let answer = env.api.create(&path, &request).await.expect("a token");
    answer["status"]["token"]
        .as_str()
        .expect("a token")
        .to_owned()
}

/// Allows a ServiceAccount to get the nonResourceURL `/metrics`, with objects named after the
/// namespace.
async fn allow_reading_metrics(env: &TestEnv, account: &str) {
    const RBAC: &str = "rbac.authorization.k8s.io/v1";
    let metadata = json!({"name": env.namespace});
    let role = json!({
        "apiVersion": RBAC, "kind": "ClusterRole", "metadata": metadata,
        "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
    });
    let binding = json!({
        "apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": env.namespace},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": env.namespace}],
    });
    for (plural, object) in [("clusterroles", role), ("clusterrolebindings", binding)] {
        let path = format!("/apis/{RBAC}/{plural}");
        let created = env.api.create(&path, &object);
        created.await.expect("created");
    }
}

fn get_metrics(address: &str, token: Option<&str>) -> (u16, String) {
    let value = token.map(|token| format!("Bearer {token}"));
    let header = value.iter().map(|value| ("Authorization", value.as_str()));
    let answer = http::get_tls(address, "/metrics", &header.collect::<Vec<_>>());
    let (code, body) = &answer;
    println!("{code} {}", body.lines().next().unwrap_or_default());
    answer
}

#[tokio::test]
async fn metrics_are_served_to_authorized_clients_and_no_token_is_logged() {
    let mut env = TestEnv::without_manager("metrics-access").await;
    let reader = token(&env, "reader", json!({})).await;
    let stranger = token(&env, "stranger", json!({})).await;
    allow_reading_metrics(&env, "reader").await;
    env.start_manager(&["--metrics-secure=true", "--log-level=trace"]);
    let address = env.manager().address_of("metrics").await;

    assert_eq!(get_metrics(&address, None).0, 401);
    assert_eq!(get_metrics(&address, Some("not-a-token")).0, 401);
    let (code, body) = get_metrics(&address, Some(&stranger));
    assert_eq!(code, 403);
    let name = format!("system:serviceaccount:{}:stranger", env.namespace);
    assert!(body.contains(&name), "{body}");
    for _ in 0..2 {
        let (code, body) = get_metrics(&address, Some(&reader));
        assert_eq!(code, 200, "{body}");
        assert!(body.contains("controller_runtime_reconcile_total"));
    }

    let log = env.log();
    let kubeconfig = std::fs::read_to_string(env.kubeconfig()).expect("a kubeconfig");
    let kubeconfig: Value = serde_saphyr::from_str(&kubeconfig).expect("YAML");
    let token = kubeconfig["users"][0]["user"]["token"].as_str();
    for secret in [token.expect("a token"), &reader, &stranger] {
        assert!(!log.contains(secret), "a secret is in the log");
    }
    assert!(!log.contains("PRIVATE KEY"), "a key is in the log");
    let is_verbose = log.contains("TRACE") || log.contains("DEBUG");
    assert!(is_verbose, "the tested situation occurred");
}
