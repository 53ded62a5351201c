//! `Ready=True` is reported only for a generation whose children are stored as desired. Cases: a
//! third-party webhook that rejects children, and children whose deletion is blocked by a finalizer. Each
//! recovers.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::changes;
use testkit::{
    DEADLINE, DEPLOYMENT, ELASTIC_WEB, Limit, SERVICE, TestEnv, condition, is_degraded,
    is_not_ready_for, is_ready, message,
};

/// The most time until a status reports the API server's answer.
const SOON: Duration = Duration::from_secs(10);

/// `port` is in the band from which the API server allocates none by itself, 30000 to 30085.
fn web(name: &str, image: &str, port: u16) -> Value {
    let spec = json!({"image": image, "port": port, "singlePodsQPS": 1, "totalQPS": 1});
    ELASTIC_WEB.object(name, spec)
}

/// Registers a third-party webhook whose server is down, for writes of the test's children.
async fn reject_children(env: &TestEnv) {
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": env.namespace},
        "webhooks": [{
            "name": "policy.example.org", "failurePolicy": "Fail", "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "timeoutSeconds": 1,
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": env.namespace}},
            "rules": [{"operations": ["CREATE", "UPDATE"], "apiGroups": ["apps", ""],
                "apiVersions": ["v1"], "resources": ["deployments", "services"]}],
        }],
    });
    let plural = "validatingwebhookconfigurations";
    env.apply_cluster_wide(plural, &configuration).await;
    // It takes effect some moments after it was written.
    let target = format!("/api/v1/namespaces/{}/services?dryRun=All", env.namespace);
    let probe = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "probe"},
        "spec": {"ports": [{"port": 80}]},
    });
    let mut limit = Limit::new(DEADLINE);
    while env.api.create(&target, &probe).await.is_ok() {
        limit.pause(|| "the webhook is not called").await;
    }
}

async fn accept_children(env: &TestEnv) {
    let configurations = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let path = format!("{configurations}/{}", env.namespace);
    env.api.delete(&path).await.expect("deleted");
}

/// From a change of the resource whose child is rejected to the recovery.
async fn rejected_and_recovered(env: &TestEnv, change: &Value) {
    let (name, changed) = ("web", Instant::now());
    env.apply(change).await.expect("applied");
    let resource = (ELASTIC_WEB, name);
    let (object, _) = env.until_not_ready_for(resource, "ApplyFailed", SOON).await;
    let text = message(&object, "Ready");
    let is_named = text.contains("policy.example.org");
    assert!(is_named, "the webhook is not named: {text}");
    assert!(!is_degraded(&object), "Degraded too early: {object:#}");
    assert!(env.warnings(name, "ApplyFailed").await.is_empty());

    let limit = Duration::from_secs(45);
    let degraded = |object: &Value| is_degraded(object);
    let (object, _) = env
        .until_within(resource, "Degraded", limit, degraded)
        .await;
    let took = changed.elapsed();
    assert!(took > Duration::from_secs(25), "Degraded after {took:?}");
    assert!(is_not_ready_for(&object, "ApplyFailed"), "{object:#}");
    let found = &condition(&object, "Degraded").expect("there")["reason"];
    assert_eq!(*found, "ApplyFailed");
    assert!(message(&object, "Degraded").contains("policy.example.org"));
    // The Event is written independently of the status.
    let mut limit = Limit::new(SOON);
    let warnings = loop {
        let warnings = env.warnings(name, "ApplyFailed").await;
        if !warnings.is_empty() || limit.is_over() {
            break warnings;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("policy.example.org"), "{warnings:?}");

    accept_children(env).await;
    let limit = Duration::from_secs(65);
    let ready = |object: &Value| is_ready(object) && !is_degraded(object);
    env.until_within(resource, "healed", limit, ready).await;
    let warnings = env.warnings(name, "ApplyFailed").await;
    assert_eq!(warnings.len(), 1, "exactly one: {warnings:?}");
}

#[tokio::test]
async fn a_rejected_child_is_not_ready_then_degraded_and_recovers_within_65_s() {
    let env = TestEnv::start("rejected").await;
    env.apply(&web("web", "nginx:1.17.1", 30070))
        .await
        .expect("applied");
    env.until_ready(ELASTIC_WEB, "web").await;
    reject_children(&env).await;
    rejected_and_recovered(&env, &web("web", "nginx:1.28", 30070)).await;
    let child = env.get(DEPLOYMENT, "web").await.expect("the child");
    let container = &child["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "nginx:1.28");
}

#[tokio::test]
async fn a_child_whose_deletion_is_blocked_is_not_ready_until_it_is_recreated() {
    let env = TestEnv::start("held").await;
    for (name, kind, port) in [
        ("deployment", DEPLOYMENT, 30073),
        ("service", SERVICE, 30074),
    ] {
        env.apply(&web(name, "nginx:1.17.1", port))
            .await
            .expect("applied");
        env.until_ready(ELASTIC_WEB, name).await;
        let held = json!({"metadata": {"finalizers": ["example.org/held"]}});
        changes::patch(&env, kind, name, held).await;
        env.delete(kind, name).await;
        let resource = (ELASTIC_WEB, name);
        let (object, _) = env
            .until_not_ready_for(resource, "ChildTerminating", SOON)
            .await;
        assert!(message(&object, "Ready").contains(kind.kind), "{object:#}");
        // A new generation changes nothing about that.
        env.apply(&web(name, "nginx:1.28", port))
            .await
            .expect("applied");
        env.until_not_ready_for(resource, "ChildTerminating", SOON)
            .await;
    }
    for (name, kind) in [("deployment", DEPLOYMENT), ("service", SERVICE)] {
        let old = env.get(kind, name).await.expect("held")["metadata"]["uid"].clone();
        let free = json!({"metadata": {"finalizers": null}});
        changes::patch(&env, kind, name, free).await;
        env.until_ready(ELASTIC_WEB, name).await;
        let new = env.get(kind, name).await.expect("recreated");
        assert_ne!(new["metadata"]["uid"], old);
        let deployment = env.get(DEPLOYMENT, name).await.expect("there");
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["image"], "nginx:1.28");
    }
}
