//! Two versions of every kind on a real API server, which calls the manager's webhooks: objects
//! written in one version are read in the other, and invalid ones are rejected.

use std::process::Output;

use devcluster::Environment;
use quartet_operator::packaging::{self, kinds};
use serde_json::json;

use crate::private::{self, Private};
use crate::shared::{self, Turn};
use testkit::{DEADLINE, Limit, MEMCACHED, TestEnv};

/// Returns a cluster with both versions of the CRDs and a manager that serves their webhooks, with
/// these variables in its environment. The manager stops before the next turn.
pub(crate) async fn test_env(test: &str, environment: &[(&str, &str)]) -> (Turn, TestEnv) {
    let turn = shared::WEBHOOKS.turn().await;
    let env = test_env_on(turn.cluster.environment(), test, &[], environment).await;
    (turn, env)
}

/// Like [`test_env`], with a cluster that no other test uses and more flags of the manager.
pub(crate) async fn private_test_env(test: &str, flags: &[&str]) -> (Private, TestEnv) {
    let private = private::cluster().await;
    let env = test_env_on(private.cluster.environment(), test, flags, &[]).await;
    (private, env)
}

async fn test_env_on(
    cluster: Environment,
    test: &str,
    flags: &[&str],
    environment: &[(&str, &str)],
) -> TestEnv {
    let mut env = TestEnv::on(cluster, test).await;
    // A manager that stops leaves them as it found them.
    let is_new = env.api.get(CRD).await.is_err();
    if is_new {
        let crds = concat!(env!("CARGO_MANIFEST_DIR"), "/config/crd");
        succeeds(&env, &["apply", "--server-side", "-k", crds]);
    }
    let port = devcluster::free_port().expect("a port");
    let (url, port) = (
        format!("https://127.0.0.1:{port}"),
        format!("--webhook-port={port}"),
    );
    let own = ["--enable-webhooks=true", &port];
    env.start_registered(&url, &[&own, flags].concat(), environment);
    let mut limit = Limit::new(DEADLINE);
    // kubectl finds kinds in the discovery, which changes a moment after they are served.
    while !are_called(&env).await || is_new && !env.kubectl(&["get", &all()]).status.success() {
        let failure = || format!("no webhooks: {}", env.log());
        limit.pause(failure).await;
    }
    env
}

/// Reports whether the API server calls the manager to convert every kind, and to validate.
pub(crate) async fn are_called(env: &TestEnv) -> bool {
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
    let called = &crd.pointer(CLIENT).expect("it is there")["url"];
    called
        .as_str()
        .is_some_and(|called| called.starts_with(url))
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
    let names = kinds()
        .into_iter()
        .map(|kind| format!("{}.{}.{}", kind.plural, kind.spoke.name, kind.group));
    names.collect::<Vec<_>>().join(",")
}

fn text(output: &Output) -> String {
    let (out, error) = (&output.stdout, &output.stderr);
    format!(
        "{}{}",
        String::from_utf8_lossy(out),
        String::from_utf8_lossy(error)
    )
}

fn succeeds(env: &TestEnv, arguments: &[&str]) -> String {
    let output = env.kubectl(arguments);
    assert!(
        output.status.success(),
        "{arguments:?}: {}\n{}",
        text(&output),
        env.log()
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn refused(env: &TestEnv, arguments: &[&str]) -> String {
    let output = env.kubectl(arguments);
    assert!(
        !output.status.success(),
        "{arguments:?} was accepted: {}",
        text(&output)
    );
    text(&output)
}

#[tokio::test]
async fn the_webhook_rejects_what_the_schema_cannot_in_the_fields_of_the_version() {
    let (_turn, mut env) = test_env("refused", &[]).await;
    let sample = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/config/samples/cache_v1alpha1_memcached.yaml"
    );
    succeeds(&env, &["apply", "-f", sample]);
    let scale = ["scale", "memcached", "memcached-sample", "--replicas=5000"];
    let said = refused(&env, &scale);
    assert!(
        said.contains("spec.replicas: Invalid value: 5000"),
        "{said}"
    );
    for (version, field, value) in [
        (SPOKE, "size", 2000),
        (HUB, "replicas", 2000),
        (SPOKE, "size", -1),
    ] {
        let patch = json!({"spec": {field: value}}).to_string();
        let patch = [
            "patch",
            version,
            "memcached-sample",
            "--type=merge",
            "-p",
            &patch,
        ];
        let said = refused(&env, &patch);
        let words = format!("spec.{field}: Invalid value: {value}");
        assert!(said.contains(&words), "{said}");
    }
    // The command of the original tutorials: it changes nothing, and says so.
    let size = r#"{"spec":{"size":5}}"#;
    let patch = ["patch", "memcached", "memcached-sample", "--type=merge"];
    let said = env.kubectl(&[&patch[..], &["-p", size]].concat());
    let said = text(&said);
    assert!(
        said.contains(r#"Warning: unknown field "spec.size""#),
        "{said}"
    );
    assert!(said.contains("(no change)"), "{said}");
    let unchanged = env
        .get(MEMCACHED, "memcached-sample")
        .await
        .expect("it exists");
    assert_eq!(unchanged["spec"]["size"], 3);

    // At the end, what the URL replaced is restored; with a closed terminal too.
    let mut manager = env.take_manager().expect("it runs");
    assert!(manager.signal("-HUP"));
    let mut limit = Limit::new(DEADLINE);
    while manager.runs() {
        limit.pause(|| format!("it runs: {}", manager.log())).await;
    }
    assert_eq!(manager.code(), Some(0), "{}", manager.log());
    let left = env.api.get(CONFIGURATION).await;
    assert_eq!(left.expect_err("deleted").code, 404);
    let crd = env.api.get(CRD).await.expect("it exists");
    let conversion = &crd["spec"]["conversion"]["webhook"];
    assert!(
        conversion["clientConfig"]["service"].is_object(),
        "{conversion}"
    );
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
    let crd = env.api.get(CRD).await.expect("it exists");
    let client = crd.pointer(CLIENT).expect("it is there");
    assert!(
        client["service"].is_object() && client["url"].is_null(),
        "{client}"
    );
    let left = env.api.get(CONFIGURATION).await;
    assert_eq!(left.expect_err("deleted").code, 404);
}
