//! Two versions of every kind on a real API server, which calls the manager's webhooks: objects
//! written in one version are read in the other, and invalid ones are rejected.

use std::process::Command;

use quartet_operator::packaging::{self, kinds};
use quartet_versions::Kind;
use serde_json::json;

use crate::shared::{self, Turn};
use testkit::{DEADLINE, Limit, MEMCACHED, TestEnv};

/// Returns a cluster with both versions of the CRDs and a manager that serves their webhooks, with
/// these variables in its environment. The manager stops before the next turn.
pub(crate) async fn test_env(test: &str, environment: &[(&str, &str)]) -> (Turn, TestEnv) {
    let turn = shared::WEBHOOKS.turn().await;
    let mut env = TestEnv::on(turn.cluster.environment(), test).await;
    // A manager that stops leaves them as it found them.
    let is_new = env.api.get(CRD).await.is_err();
    if is_new {
        let config = concat!(env!("CARGO_MANIFEST_DIR"), "/config");
        succeeds(&env, &format!("apply --server-side -k {config}/crd"));
    }
    let port = devcluster::free_port().expect("a port");
    register(&mut env, port, environment).await;
    let mut limit = Limit::new(DEADLINE);
    // kubectl finds kinds in the discovery, which changes a moment after they are served.
    while is_new && !kubectl(&env, &format!("get {}", all())).0 {
        let failure = || format!("not found: {}", env.log());
        limit.pause(failure).await;
    }
    (turn, env)
}

/// Starts a manager whose webhooks the API server calls at this port, and waits until it does.
pub(crate) async fn register(env: &mut TestEnv, port: u16, environment: &[(&str, &str)]) {
    let url = format!("https://127.0.0.1:{port}");
    let port = format!("--webhook-port={port}");
    env.start_registered(&url, &["--enable-webhooks=true", &port], environment);
    let mut limit = Limit::new(DEADLINE);
    while !are_called(env).await {
        limit.pause(|| format!("no webhooks: {}", env.log())).await;
    }
}

/// Reports whether the API server calls the manager to convert every kind, and to validate.
async fn are_called(env: &TestEnv) -> bool {
    for kind in kinds() {
        let mut tried = packaging::sample(kind, &kind.spoke).expect("a sample");
        tried["metadata"] = json!({"name": "tried"});
        let (api, namespace) = (kind.api_version(&kind.spoke), &env.namespace);
        let objects = format!("/apis/{api}/namespaces/{namespace}/{}", kind.plural);
        let target = format!("{objects}?dryRun=All");
        if env.api.create(&target, &tried).await.is_err() {
            return false;
        }
    }
    let target = format!("{}?dryRun=All", env.path(MEMCACHED, ""));
    let invalid = MEMCACHED.object("tried", json!({"size": 2000}));
    let tried = env.api.create(&target, &invalid).await;
    tried.is_err_and(|refused| refused.message.contains("spec.size: Invalid value: 2000"))
}

/// Reports whether the API server is told to call this URL.
async fn is_registered(env: &TestEnv, url: &str) -> bool {
    let crd = env.api.get(CRD).await.expect("it exists");
    let called = crd.pointer(CLIENT).expect("it is there")["url"].as_str();
    called.is_some_and(|called| called.starts_with(url))
}

/// Asserts that the API server is told to call the Service again, and no webhook that validates.
async fn no_url_is_left(env: &TestEnv) {
    let crd = env.api.get(CRD).await.expect("it exists");
    let client = crd.pointer(CLIENT).expect("it is there");
    let is_restored = client["service"].is_object() && client["url"].is_null();
    assert!(is_restored, "{client}");
    let left = env.api.get(CONFIGURATION).await;
    assert_eq!(left.expect_err("deleted").code, 404);
}

const CRD: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/memcacheds.cache.example.com";
const CLIENT: &str = "/spec/conversion/webhook/clientConfig";
const CONFIGURATION: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/\
                             quartet-operator-validating-webhook-configuration";
const SPOKE: &str = "memcacheds.v1alpha1.cache.example.com";
const HUB: &str = "memcacheds.v1.cache.example.com";
/// Returns the spoke versions of all kinds, as kubectl finds them.
fn all() -> String {
    let name = |kind: &Kind| format!("{}.{}.{}", kind.plural, kind.spoke.name, kind.group);
    kinds().into_iter().map(name).collect::<Vec<_>>().join(",")
}

/// Runs kubectl as it is typed; returns whether it succeeded, and what it prints.
fn kubectl(env: &TestEnv, line: &str) -> (bool, String) {
    let output = env.kubectl(&line.split(' ').collect::<Vec<_>>());
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    (output.status.success(), text)
}

pub(crate) fn succeeds(env: &TestEnv, line: &str) -> String {
    let (succeeded, text) = kubectl(env, line);
    assert!(succeeded, "{line}: {text}\n{}", env.log());
    text
}

#[tokio::test]
async fn the_webhook_rejects_what_the_schema_cannot_in_the_fields_of_the_version() {
    let (_turn, mut env) = test_env("refused", &[]).await;
    let samples = concat!(env!("CARGO_MANIFEST_DIR"), "/config/samples");
    let apply = format!("apply -f {samples}/cache_v1alpha1_memcached.yaml");
    succeeds(&env, &apply);
    let patch = |version: &str, field: &str, value: i64| {
        let patch = format!(r#"{{"spec":{{"{field}":{value}}}}}"#);
        format!("patch {version} memcached-sample --type=merge -p {patch}")
    };
    let scale = "scale memcached memcached-sample --replicas=5000";
    for (line, field, value) in [
        (scale.to_owned(), "replicas", 5000),
        (patch(SPOKE, "size", 2000), "size", 2000),
        (patch(HUB, "replicas", 2000), "replicas", 2000),
        (patch(SPOKE, "size", -1), "size", -1),
    ] {
        let (succeeded, said) = kubectl(&env, &line);
        let words = format!("spec.{field}: Invalid value: {value}");
        assert!(!succeeded && said.contains(&words), "{said}");
    }
    // The command of the original tutorials: it changes nothing, and says so.
    let (_, said) = kubectl(&env, &patch("memcached", "size", 5));
    let warning = r#"Warning: unknown field "spec.size""#;
    let is_told = said.contains(warning) && said.contains("(no change)");
    assert!(is_told, "{said}");
    let unchanged = env.get(MEMCACHED, "memcached-sample").await;
    assert_eq!(unchanged.expect("it exists")["spec"]["size"], 3);

    // At the end, what the URL replaced is restored; with a closed terminal too.
    let mut manager = env.take_manager().expect("it runs");
    assert!(manager.signal("-HUP"));
    let mut limit = Limit::new(DEADLINE);
    while manager.runs() {
        limit.pause(|| format!("it runs: {}", manager.log())).await;
    }
    assert_eq!(manager.code(), Some(0), "{}", manager.log());
    no_url_is_left(&env).await;
}

#[tokio::test]
async fn what_a_killed_run_left_is_replaced_by_the_next_run_and_restored() {
    let (_turn, mut env) = test_env("killed", &[]).await;
    env.manager().kill();
    let left = env.api.get(CRD).await.expect("it exists");
    assert!(left.pointer(CLIENT).expect("it is there")["url"].is_string());

    let port = devcluster::free_port().expect("a port");
    let url = format!("https://127.0.0.1:{port}");
    let port = format!("--webhook-port={port}");
    env.start_registered(&url, &["--enable-webhooks=true", &port], &[]);
    let mut limit = Limit::new(DEADLINE);
    // The first manager ends soon after its parent, and answers until then.
    while !is_registered(&env, &url).await || !are_called(&env).await {
        limit.pause(|| format!("no webhooks: {}", env.log())).await;
    }
    let exit = env.stop_manager().expect("it runs");
    assert_eq!(exit.code, Some(0), "{}", exit.log);
    no_url_is_left(&env).await;
}

#[tokio::test]
async fn what_a_killed_run_left_is_restored_by_make_install() {
    let (_turn, mut env) = test_env("installed", &[]).await;
    env.manager().kill();
    let mut install = Command::new("make");
    install
        .args(["install", "KUBECTL=kubectl"])
        .env_remove("MAKEFLAGS");
    install.current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = install.envs(env.variables()).output().expect("make runs");
    assert!(output.status.success(), "{output:?}");
    no_url_is_left(&env).await;
}
