//! The examples of quartet-manager, as processes.

use std::path::Path;
use std::process::Command;

use devcluster::StateFolder;
use k8s_openapi::ByteString;
use serde_json::{Value, json};
use testkit::{DEADLINE, DEPLOYMENT, Limit, Manager, TestEnv, is_ready, kind, manager};

/// The program of an example, which cargo does not build for a selection of tests.
fn program(example: &str) -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--locked", "--workspace", "--example"]);
    let root = env!("CARGO_MANIFEST_DIR");
    let built = cargo.arg(example).current_dir(root).status();
    assert!(built.expect("cargo").success());
    let examples = Path::new(manager().get_program()).with_file_name("examples");
    Command::new(examples.join(example))
}

/// Starts an example with the flags of a manager.
fn start(env: &TestEnv, example: &str, flags: &[String]) -> Manager {
    let of_manager = Manager::command(env.kubeconfig(), flags, &[]);
    let mut command = program(example);
    command.args(of_manager.get_args());
    command.arg(format!("--watch-namespace={}", env.namespace));
    let variables = of_manager.get_envs();
    command.envs(variables.filter_map(|(name, value)| Some((name, value?))));
    Manager::spawn(command)
}

/// A namespace, and the CRD that an example prints, changed by `change`.
async fn installed(example: &str, change: impl FnOnce(&mut Value)) -> TestEnv {
    let env = TestEnv::without_manager(&example.replace('_', "-")).await;
    let output = program(example).arg("crd").output().expect("it runs");
    let mut crd: Value = serde_json::from_slice(&output.stdout).expect("a CRD");
    change(&mut crd);
    let name = crd["metadata"]["name"].as_str().expect("a name");
    env.install_crd(name, &crd).await;
    env
}

/// The folder with the certificate of a webhook server, its port, and the clientConfig for a path.
fn webhooks() -> (StateFolder, u16, impl Fn(&str) -> Value) {
    let folder = StateFolder::create().expect("a folder");
    let port = devcluster::free_port().expect("a port");
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a pair");
    let write = |name, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
    write("tls.crt", &made.cert.pem());
    write("tls.key", &made.signing_key.serialize_pem());
    let authority = ByteString(made.cert.pem().into());
    let client = move |path: &str| json!({"url": format!("https://127.0.0.1:{port}{path}"), "caBundle": authority});
    (folder, port, client)
}

#[tokio::test]
async fn a_greeting_is_a_config_map() {
    let (greeting, map) = (
        kind("example.com/v1", "Greeting", "greetings"),
        kind("v1", "ConfigMap", "configmaps"),
    );
    let env = installed("configmap", |_| ()).await;
    let greeter = start(&env, "configmap", &[]);
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
    let (folder, port, client) = webhooks();
    let call = |crd: &mut Value| {
        crd["spec"]["conversion"]["webhook"]["clientConfig"] = client("/convert");
    };
    let env = installed("two_versions", call).await;
    let flags = [
        "--enable-webhooks=true".to_owned(),
        format!("--webhook-port={port}"),
        format!("--webhook-cert-path={}", folder.path().display()),
    ];
    let caches = start(&env, "two_versions", &flags);
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
    let env = installed("own_reconcile", |_| ()).await;
    let (folder, port, client) = webhooks();
    let namespace = json!({"kubernetes.io/metadata.name": env.namespace});
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": env.namespace},
        "webhooks": [{
            "name": "pingers.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": client("/validate-example-com-v1-pinger"),
            "namespaceSelector": {"matchLabels": namespace},
            "rules": [{
                "apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["pingers"],
                "operations": ["CREATE", "UPDATE"],
            }],
        }],
    });
    env.apply_cluster_wide("validatingwebhookconfigurations", &configuration)
        .await;
    let mut command = program("own_reconcile");
    command
        .env("KUBECONFIG", env.kubeconfig())
        .env("NAMESPACE", &env.namespace)
        .env("WEBHOOK_PORT", port.to_string())
        .env("WEBHOOK_CERT_PATH", folder.path());
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
    let (lease, name) = (
        kind("coordination.k8s.io/v1", "Lease", "leases"),
        "pinger.example.com",
    );
    let is_held = |lease: &Value| lease["spec"]["holderIdentity"] != "";
    assert!(is_held(&env.get(lease, name).await.expect("a Lease")));
    assert!(process.signal("-INT"));
    env.until(lease, name, "released", |lease| !is_held(lease))
        .await;
}
