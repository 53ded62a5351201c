//! Obstacles from outside: quotas, rewritten values, CRDs that are not installed yet.

use std::time::Duration;

use serde_json::{Value, json};

use crate::changes;
use testkit::{
    DEADLINE, DEPLOYMENT, ELASTIC_WEB, Limit, NGINX, ORIGINAL_KINDS, QUOTA, Request, TestEnv,
    is_ready, message,
};

fn quota(limited: &str, most: &str) -> Value {
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
        let hard = |it: &Value| it["status"]["hard"][limited] == most;
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

/// A mutation that changes this label of a Deployment.
fn of_label(label: &str) -> Value {
    let changed =
        format!("Object{{metadata: Object.metadata{{labels: {{\"{label}\": \"rewritten\"}}}}}}");
    json!([{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": changed}}])
}

/// Makes admission mutate every Deployment of the test, which then fulfils `is_mutated`. Returns whether it
/// does: since Kubernetes 1.36.
async fn mutate_deployments(
    env: &TestEnv,
    mutations: Value,
    is_mutated: impl Fn(&Value) -> bool,
) -> bool {
    let served = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies";
    if env.api.get(served).await.is_err() {
        return false;
    }
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": env.namespace},
        "spec": {
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": env.namespace}},
                "resourceRules": [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["deployments"]}],
            },
            "failurePolicy": "Fail", "reinvocationPolicy": "Never",
            "mutations": mutations,
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": env.namespace}, "spec": {"policyName": env.namespace},
    });
    let policies = "mutatingadmissionpolicies";
    let bindings = "mutatingadmissionpolicybindings";
    env.apply_cluster_wide(policies, &policy).await;
    env.apply_cluster_wide(bindings, &binding).await;
    // The policy takes effect some moments after it was written.
    let mut limit = Limit::new(DEADLINE);
    loop {
        let probe = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "probe"},
            "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": {
                "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}},
        });
        let probed = env.apply(&probe).await.expect("applied");
        if is_mutated(&probed) {
            env.delete(DEPLOYMENT, "probe").await;
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
    let label = "app.kubernetes.io/part-of";
    let is_mutated = |it: &Value| it["metadata"]["labels"][label] == "rewritten";
    let is_rewritten = mutate_deployments(&env, of_label(label), is_mutated).await;
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
    let is_scaled = |it: &Value| is_ready(it) && it["status"]["readyReplicas"] == 2;
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
    let label = "app.kubernetes.io/managed-by";
    let is_mutated = |it: &Value| it["metadata"]["labels"][label] == "rewritten";
    if !mutate_deployments(&env, of_label(label), is_mutated).await {
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

/// Images from a mirror and other requests of each container, and one more container.
const MIRROR: &str = r#"Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{
    containers: object.spec.template.spec.containers.filter(it, it.name != "sidecar").map(it, Object.spec.template.spec.containers{
        name: it.name,
        image: it.image.startsWith("mirror.example.com/") ? it.image : "mirror.example.com/" + it.image,
        resources: Object.spec.template.spec.containers.resources{requests: {"cpu": "7m"}}
    })
}}}}"#;
const SIDECAR: &str = r#"Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{
    containers: [Object.spec.template.spec.containers{name: "sidecar", image: "sidecar:1"}]
}}}}"#;

#[tokio::test]
async fn a_policy_that_changes_images_and_adds_a_sidecar_is_told_and_not_fought() {
    let mut env = TestEnv::without_manager("mutated").await;
    let mutation = |expression| json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}});
    let containers = |it: &Value| it["spec"]["template"]["spec"]["containers"].clone();
    let is_mutated = |it: &Value| containers(it)[1]["name"] == "sidecar";
    let mutations = json!([mutation(MIRROR), mutation(SIDECAR)]);
    if !mutate_deployments(&env, mutations, is_mutated).await {
        println!("this Kubernetes has no mutating admission policies");
        return;
    }
    env.start_manager(&[]);
    for (kind, spec) in changes::one_of_each(30097) {
        changes::apply(&env, kind, kind.plural, spec).await;
    }
    let mut children = Vec::new();
    for kind in ORIGINAL_KINDS {
        let ready = env.until_ready(kind, kind.plural).await;
        let child = env.get(DEPLOYMENT, kind.plural).await.expect("the child");
        let ours = containers(&child)[0].clone();
        let image = ours["image"].as_str().unwrap_or_default();
        assert!(image.starts_with("mirror.example.com/"), "{image}");
        assert_eq!(containers(&child)[1]["name"], "sidecar");
        let name = ours["name"].as_str().expect("a name");
        let field = format!("spec.template.spec.containers[{name}]");
        let told = format!(
            "; admission changes Deployment {}: {field}.image, {field}.resources.requests.cpu",
            kind.plural
        );
        let message = message(&ready, "Ready");
        assert!(message.ends_with(&told), "{message}");
        children.push(child);
    }
    let applies = |env: &TestEnv| {
        let requests = env.requests().into_iter();
        let is_apply = |it: &Request| it.resource == "deployments" && it.verb == "patch";
        requests.filter(is_apply).count()
    };
    // Each child is applied once; by another process, which cannot know it, once more.
    for expected in [children.len(), 2 * children.len()] {
        let mut limit = Limit::new(DEADLINE);
        while applies(&env) < expected {
            limit.pause(|| format!("{:?}", env.requests())).await;
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        let before = env.requests();
        tokio::time::sleep(Duration::from_secs(5)).await;
        let after = env.requests();
        assert_eq!(after.len(), before.len(), "at rest: {after:?}");
        assert_eq!(applies(&env), expected, "{after:?}");
        env.stop_manager();
        env.start_manager(&[]);
    }
    for (kind, before) in ORIGINAL_KINDS.into_iter().zip(children) {
        let after = env.get(DEPLOYMENT, kind.plural).await.expect("it");
        assert_eq!(after["spec"], before["spec"], "no pod is replaced");
    }
}
