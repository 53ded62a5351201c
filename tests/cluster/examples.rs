//! The examples of quartet-manager, as processes.

use serde_json::{Value, json};
use testkit::{DEADLINE, DEPLOYMENT, Limit, Manager, TestEnv, Webhooks, example, is_ready, kind};

#[tokio::test]
async fn a_greeting_is_a_config_map() {
    let greeting = kind("example.com/v1", "Greeting", "greetings");
    let map = kind("v1", "ConfigMap", "configmaps");
    let env = TestEnv::with_example("configmap", |_| ()).await;
    let greeter = env.start_example("configmap", &[]);
    for name in ["world", "moon"] {
        let object = greeting.object("a", json!({"name": name}));
        env.apply(&object).await.expect("applied");
        let text = format!("Hello, {name}!");
        let greets = |map: &Value| map["data"]["greeting"] == text;
        let found = env.until(map, "a", &text, greets).await;
        assert_eq!(found["metadata"]["ownerReferences"][0]["kind"], "Greeting");
        env.delete(map, "a").await;
        env.until(map, "a", &text, greets).await;
    }
    let status = env.until_ready(greeting, "a").await["status"].take();
    assert_eq!(status["replicas"], Value::Null, "{status}");
    let exit = greeter.stop();
    assert_eq!(exit.code, Some(0), "{}", exit.log);
}

#[tokio::test]
async fn a_cache_is_converted_between_two_versions() {
    let old = kind("example.com/v1alpha1", "Cache", "caches");
    let new = kind("example.com/v1", "Cache", "caches");
    let webhooks = Webhooks::generate();
    let call = |crd: &mut Value| {
        crd["spec"]["conversion"]["webhook"]["clientConfig"] = webhooks.at("/convert");
    };
    let env = TestEnv::with_example("two_versions", call).await;
    let flags = [
        "--enable-webhooks=true".to_owned(),
        format!("--webhook-port={}", webhooks.port),
        format!("--webhook-cert-path={}", webhooks.folder.path().display()),
    ];
    let caches = env.start_example("two_versions", &flags);
    let object = old.object("a", json!({"size": 1}));
    caches.address_of("webhooks").await;
    env.apply(&object).await.expect("applied");
    let found = env.until(new, "a", "Ready", is_ready).await;
    assert_eq!(found["spec"], json!({"replicas": 1}));
    let image = json!({"spec": {"image": "example.com/cache:1"}});
    env.patch(new, "a", image).await.expect("patched");
    let found = env.get(old, "a").await.expect("it exists");
    assert_eq!(found["spec"], json!({"size": 1}));
    let exit = caches.stop();
    assert_eq!(exit.code, Some(0), "{}", exit.log);
}

#[tokio::test]
async fn a_controller_of_kube_uses_election_webhook_and_certificate() {
    let pinger = kind("example.com/v1", "Pinger", "pingers");
    let env = TestEnv::with_example("own_reconcile", |_| ()).await;
    let webhooks = Webhooks::generate();
    let namespace = json!({"kubernetes.io/metadata.name": env.namespace});
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": env.namespace},
        "webhooks": [{
            "name": "pingers.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": webhooks.at("/validate-example-com-v1-pinger"),
            "namespaceSelector": {"matchLabels": namespace},
            "rules": [{
                "apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["pingers"],
                "operations": ["CREATE", "UPDATE"],
            }],
        }],
    });
    env.apply_cluster_wide("validatingwebhookconfigurations", &configuration)
        .await;
    let mut command = example("own_reconcile");
    command
        .env("KUBECONFIG", env.kubeconfig())
        .env("NAMESPACE", &env.namespace)
        .env("WEBHOOK_PORT", webhooks.port.to_string())
        .env("WEBHOOK_CERT_PATH", webhooks.folder.path());
    let process = Manager::spawn(command);
    let asking_for = |replicas| pinger.object("a", json!({"replicas": replicas}));
    let mut limit = Limit::new(DEADLINE);
    // The API server does not reach the webhook at first.
    while let rejected = env.apply(&asking_for(4)).await.expect_err("too many")
        && !rejected.message.contains("less than or equal to 3")
    {
        limit.pause(|| format!("{rejected:?}")).await;
    }
    env.apply(&asking_for(2)).await.expect("applied");
    let has_two = |deployment: &Value| deployment["spec"]["replicas"] == 2;
    env.until(DEPLOYMENT, "a", "2 replicas", has_two).await;
    let lease = kind("coordination.k8s.io/v1", "Lease", "leases");
    let name = "pinger.example.com";
    let is_held = |lease: &Value| lease["spec"]["holderIdentity"] != "";
    assert!(is_held(&env.get(lease, name).await.expect("a Lease")));
    assert!(process.signal("-INT"));
    env.until(lease, name, "released", |lease| !is_held(lease))
        .await;
}
