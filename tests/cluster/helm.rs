//! Helm 4 beside the operator: a chart of a user has the four kinds, in one version and in the other.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::flux::{KINDS, folder, specs};
use crate::webhooks;
use testkit::{TestEnv, built};

/// Runs Helm, in the namespace and with folders of its own.
fn helm(env: &TestEnv, line: &str) {
    let mut helm = Command::new(built("hack/helm").join("helm"));
    for kind in ["CACHE", "CONFIG", "DATA"] {
        helm.env(format!("HELM_{kind}_HOME"), charts(env).join("home"));
    }
    helm.args(line.split(' '))
        .args(["--namespace", &env.namespace, "--wait", "--timeout=60s"])
        .current_dir(charts(env))
        .env("KUBECONFIG", env.kubeconfig());
    let output = helm.output().expect("helm runs");
    println!("$ helm {line}: {output:?}");
    assert!(output.status.success(), "{line}: {output:?}\n{}", env.log());
}

fn charts(env: &TestEnv) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("charts-{}", env.namespace))
}

#[tokio::test]
async fn helm_waits_for_a_release_and_rolls_it_back_across_versions() {
    let (_turn, env) = webhooks::test_env("helm", &[]).await;
    for (is_new, name) in [(false, "original"), (true, "new")] {
        let chart = charts(&env).join(name);
        fs::create_dir_all(chart.join("templates")).expect("a folder");
        let about = format!("{{apiVersion: v2, name: shop, version: 1.0.0-{name}}}");
        fs::write(chart.join("Chart.yaml"), about).expect("written");
        let objects = folder(&env.namespace, is_new, name);
        let objects: Vec<String> = objects.iter().map(Value::to_string).collect();
        // Another test has this port.
        let objects = objects.join("\n---\n").replace("30110", "30111");
        fs::write(chart.join("templates/all.yaml"), objects).expect("written");
    }
    // Each returns when all four are ready, which `specs` asserts.
    let mut states = Vec::new();
    for line in [
        "install shop original",
        "upgrade shop new",
        "rollback shop 1",
        "rollback shop 2",
    ] {
        helm(&env, line);
        states.push(specs(&env).await);
    }
    for (before, after) in states[0].iter().zip(&states[1]) {
        assert_ne!(before, after, "the tested situation occurred");
    }
    assert_eq!(states[2], states[0]);
    assert_eq!(states[3], states[1]);
    helm(&env, "uninstall shop");
    for kind in KINDS {
        env.until_gone(kind, kind.plural).await;
    }
    fs::remove_dir_all(charts(&env)).expect("removed");
}
