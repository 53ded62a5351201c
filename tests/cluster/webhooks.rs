//! Two versions of every kind on a real API server, which calls the manager's webhooks: objects
//! written in one version are read in the other, and invalid ones are rejected.

use std::process::Output;
use std::time::Duration;

use serde_json::{Value, json};

use crate::private::{self, Private};
use testkit::{DEADLINE, DEPLOYMENT, Limit, TestEnv};

/// Starts a cluster with both versions of the CRDs and a manager that serves their webhooks.
pub(crate) async fn test_env(test: &str, flags: &[&str]) -> (Private, TestEnv) {
    test_env_with(test, flags, &[]).await
}

/// Like [`test_env`], with more variables in the manager's environment.
pub(crate) async fn test_env_with(
    test: &str,
    flags: &[&str],
    environment: &[(&str, &str)],
) -> (Private, TestEnv) {
    let private = private::cluster().await;
    let mut env = TestEnv::on(private.cluster.environment(), test).await;
    let crds = concat!(env!("CARGO_MANIFEST_DIR"), "/config/crd");
    succeeds(&env, &["apply", "--server-side", "-k", crds]);
    let port = devcluster::free_port().expect("a port");
    let (port, url) = (
        format!("--webhook-port={port}"),
        format!("--webhook-url=https://127.0.0.1:{port}"),
    );
    let own = ["--enable-webhooks=true", &port, &url];
    env.start_manager_with(&[&own, flags].concat(), environment);
    let mut limit = Limit::new(DEADLINE);
    while !env
        .kubectl(&["get", "memcacheds.v1alpha1.cache.example.com"])
        .status
        .success()
        || !env
            .kubectl(&["get", "validatingwebhookconfigurations", CONFIGURATION])
            .status
            .success()
    {
        assert!(!limit.is_over(), "no webhooks: {}", env.log());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    (private, env)
}

const CONFIGURATION: &str = "quartet-operator-validating-webhook-configuration";
const SPOKE: &str = "memcacheds.v1alpha1.cache.example.com";
const HUB: &str = "memcacheds.v1.cache.example.com";

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

fn read(env: &TestEnv, resource: &str, name: &str) -> Value {
    let json = succeeds(env, &["get", resource, name, "--output=json"]);
    serde_json::from_str(&json).expect("JSON")
}

#[tokio::test]
async fn objects_written_in_one_version_are_read_in_the_other_without_loss() {
    let (_private, env) = test_env("two-versions", &[]).await;
    for file in
        std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/config/samples")).expect("samples")
    {
        let path = file.expect("a file").path();
        if path.is_file() && !path.ends_with("kustomization.yaml") {
            succeeds(&env, &["apply", "-f", path.to_str().expect("a path")]);
        }
    }
    assert_eq!(
        read(&env, HUB, "memcached-sample")["spec"],
        json!({"replicas": 3})
    );
    let before = read(&env, HUB, "memcached-v1-sample")["spec"].clone();
    assert!(
        before["memory"].is_number(),
        "the sample has fields that the original version lacks: {before}"
    );
    let spoke = read(&env, SPOKE, "memcached-v1-sample");
    assert_eq!(spoke["spec"], json!({"size": before["replicas"]}));

    // An edit through the original version keeps the fields that it does not have.
    succeeds(
        &env,
        &[
            "patch",
            SPOKE,
            "memcached-v1-sample",
            "--type=merge",
            "-p",
            r#"{"spec":{"size":2}}"#,
        ],
    );
    let mut expected = before.clone();
    expected["replicas"] = json!(2);
    assert_eq!(read(&env, HUB, "memcached-v1-sample")["spec"], expected);
    // An edit through the new version is visible in the original one.
    succeeds(
        &env,
        &[
            "patch",
            HUB,
            "memcached-sample",
            "--type=merge",
            "-p",
            r#"{"spec":{"replicas":1,"memory":128}}"#,
        ],
    );
    assert_eq!(
        read(&env, SPOKE, "memcached-sample")["spec"],
        json!({"size": 1})
    );
    let deployment = env
        .until(
            DEPLOYMENT,
            "memcached-sample",
            "has one pod with 128 MiB",
            |child| {
                child["status"]["readyReplicas"] == 1
                    && child["spec"]["template"].to_string().contains("\"128\"")
            },
        )
        .await;
    assert_eq!(deployment["spec"]["replicas"], 1);
    for resource in [HUB, SPOKE] {
        let list = succeeds(&env, &["get", resource]);
        assert!(
            list.contains("memcached-sample") && list.contains("memcached-v1-sample"),
            "{list}"
        );
    }
}

#[tokio::test]
async fn the_webhook_rejects_what_the_schema_cannot_in_the_fields_of_the_version() {
    let (_private, mut env) = test_env("refused", &[]).await;
    let sample = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/config/samples/cache_v1alpha1_memcached.yaml"
    );
    succeeds(&env, &["apply", "-f", sample]);
    for (arguments, words) in [
        (
            vec!["scale", "memcached", "memcached-sample", "--replicas=5000"],
            "spec.replicas: Invalid value: 5000",
        ),
        (
            vec![
                "patch",
                SPOKE,
                "memcached-sample",
                "--type=merge",
                "-p",
                r#"{"spec":{"size":2000}}"#,
            ],
            "spec.size: Invalid value: 2000",
        ),
        (
            vec![
                "patch",
                HUB,
                "memcached-sample",
                "--type=merge",
                "-p",
                r#"{"spec":{"replicas":2000}}"#,
            ],
            "spec.replicas: Invalid value: 2000",
        ),
        (
            vec![
                "patch",
                SPOKE,
                "memcached-sample",
                "--type=merge",
                "-p",
                r#"{"spec":{"size":-1}}"#,
            ],
            "spec.size: Invalid value: -1",
        ),
        // The command of the original tutorials, which would otherwise change nothing without a
        // message.
        (
            vec![
                "patch",
                "memcached",
                "memcached-sample",
                "--type=merge",
                "-p",
                r#"{"spec":{"size":5}}"#,
            ],
            "spec.size: Forbidden: use spec.replicas",
        ),
    ] {
        let said = refused(&env, &arguments);
        println!("{said}");
        assert!(said.contains(words), "{said}");
    }
    assert_eq!(read(&env, SPOKE, "memcached-sample")["spec"]["size"], 3);

    // When the manager stops, it restores what the URL replaced.
    let exit = env.stop_manager().expect("it ran");
    assert_eq!(exit.code, Some(0), "{}", exit.log);
    let left = env.kubectl(&["get", "validatingwebhookconfigurations", CONFIGURATION]);
    assert!(!left.status.success(), "{}", text(&left));
}
