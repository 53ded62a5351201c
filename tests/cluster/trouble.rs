//! Obstacles from outside: quotas, rewritten values, CRDs that are not installed yet.

use std::time::Duration;

use serde_json::json;

use crate::changes;
use testkit::{DEADLINE, DEPLOYMENT, ELASTIC_WEB, Limit, NGINX, QUOTA, TestEnv, is_ready, message};

fn quota(limited: &str, most: &str) -> serde_json::Value {
    json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "quota"},
        "spec": {"hard": {limited: most}},
    })
}

#[tokio::test]
async fn a_quota_is_reported_until_it_is_raised() {
    for (limited, most, port) in [
        ("count/deployments.apps", "0", 30121),
        ("pods", "1", 30122),
        ("services.nodeports", "0", 30123),
    ] {
        let env = TestEnv::start("quota").await;
        env.apply(&quota(limited, most)).await.expect("applied");
        let hard = |it: &serde_json::Value| it["status"]["hard"][limited] == most;
        env.until(QUOTA, "quota", "in force", hard).await;
        let spec = json!({"image": "nginx:1", "port": port, "singlePodsQPS": 1, "totalQPS": 3});
        changes::apply(&env, ELASTIC_WEB, "web", spec).await;
        let degraded = env.until_degraded(ELASTIC_WEB, "web", "QuotaExceeded");
        let resource = degraded.await;
        assert!(!is_ready(&resource));
        let text = message(&resource, "Degraded");
        assert!(text.contains("exceeded quota"), "{text}");
        env.apply(&quota(limited, "10")).await.expect("applied");
        env.until_ready(ELASTIC_WEB, "web").await;
    }
}

/// Makes admission change this label of every Deployment of the test. Returns whether it does: since
/// Kubernetes 1.36.
async fn rewrite_deployments(env: &TestEnv, label: &str) -> bool {
    let served = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies";
    if env.api.get(served).await.is_err() {
        return false;
    }
    let rewritten =
        format!("Object{{metadata: Object.metadata{{labels: {{\"{label}\": \"rewritten\"}}}}}}");
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": env.namespace},
        "spec": {
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": env.namespace}},
                "resourceRules": [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["deployments"]}],
            },
            "failurePolicy": "Fail", "reinvocationPolicy": "Never",
            "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": rewritten}}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": env.namespace}, "spec": {"policyName": env.namespace},
    });
    for (plural, object) in [
        ("mutatingadmissionpolicies", policy),
        ("mutatingadmissionpolicybindings", binding),
    ] {
        env.apply_cluster_wide(plural, &object).await;
    }
    // The policy takes effect some moments after it was written.
    let mut limit = Limit::new(DEADLINE);
    loop {
        let probe = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "probe"},
            "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": {
                "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}},
        });
        let probed = env.apply(&probe).await.expect("applied");
        if probed["metadata"]["labels"][label] == "rewritten" {
            return true;
        }
        assert!(!limit.is_over(), "the policy is not in force");
        env.delete(DEPLOYMENT, "probe").await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test]
async fn a_value_that_the_api_server_or_admission_changes_does_not_start_a_loop() {
    let mut env = TestEnv::without_manager("rewritten").await;
    // If it is not, only the rounding is tested.
    let is_rewritten = rewrite_deployments(&env, "app.kubernetes.io/part-of").await;
    env.start_manager(&[]);
    let mut resource = NGINX.object("rewritten", json!({"count": 1}));
    resource["metadata"]["annotations"] = json!({
        "quartet-operator.example.com/conversion-data": json!({"v1": {"resources": {"requests": {"cpu": "100u"}}}}).to_string(),
    });
    env.apply(&resource).await.expect("applied");
    env.until_ready(NGINX, "rewritten").await;
    let deployment = env.get(DEPLOYMENT, "rewritten").await.expect("the child");
    let part_of = &deployment["metadata"]["labels"]["app.kubernetes.io/part-of"];
    let found = part_of == "rewritten";
    assert_eq!(found, is_rewritten, "the tested situation occurred");
    let cpu =
        &deployment["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"];
    // 100u was asked for.
    assert_eq!(cpu, "1m", "the tested situation occurred");
    // A loop would show in the child's resourceVersion and in the requests.
    changes::scale(&env, NGINX, "rewritten", 2).await;
    let is_scaled = |it: &serde_json::Value| is_ready(it) && it["status"]["readyReplicas"] == 2;
    env.until(NGINX, "rewritten", "scaled", is_scaled).await;
    let mut requests = env.requests();
    requests.retain(|request| request.resource == "deployments");
    let applies = requests
        .iter()
        .filter(|it| it.verb == "patch" && it.code < 300);
    let applies = applies.count();
    // One when it was created, and one when it was scaled.
    assert_eq!(applies, 2, "{requests:?}");
    // An apply that was rejected is repeated.
    let others = requests.len() - applies;
    assert!(others <= 2 * applies, "{requests:?}");
}

#[tokio::test]
async fn a_policy_that_takes_away_the_label_of_a_child_is_named_until_it_ends() {
    let mut env = TestEnv::without_manager("taken-label").await;
    if !rewrite_deployments(&env, "app.kubernetes.io/managed-by").await {
        println!("this Kubernetes has no mutating admission policies");
        return;
    }
    env.start_manager(&[]);
    changes::apply(&env, NGINX, "taken", json!({"count": 1})).await;
    let resource = env.until_degraded(NGINX, "taken", "FieldConflict").await;
    let message = message(&resource, "Degraded");
    let field = "metadata.labels[app.kubernetes.io/managed-by]";
    assert!(message.contains(field), "{message}");
    let bindings = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings";
    let binding = format!("{bindings}/{}", env.namespace);
    env.api.delete(&binding).await.expect("deleted");
    env.until_ready(NGINX, "taken").await;
}
