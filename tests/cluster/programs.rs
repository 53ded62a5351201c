//! Whole programs of others beside the manager, built from their modules: each file of `tests/programs` is a
//! script, and its comment says what is right. `make test-e2e` runs them on a node.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tokio::task::spawn_blocking;

use crate::webhooks;
use testkit::{TestEnv, bash_line};

async fn run(program: &str) {
    let (turn, env) = webhooks::test_env(program, &[]).await;
    let mut other = TestEnv::on(turn.cluster.environment(), "other").await;
    other.start_manager(&[]);
    let ports = [(); 3].map(|()| devcluster::free_port().expect("a port").to_string());
    let line = format!("set -x; . tests/programs/{program}.sh");
    let mut command = Command::new("setpriv");
    command
        .args(bash_line(Duration::from_secs(1200), &line))
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")))
        .envs(env.variables())
        .env("NAMESPACE", &env.namespace)
        .env("OTHER", &other.namespace)
        .env("PORTS", ports.join(" "));
    let output = spawn_blocking(move || command.output()).await;
    let output = output.expect("no panic").expect("bash runs");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(output.status.success(), "{text}\n{}", env.log());
}

#[tokio::test]
#[ignore = "it waits for minutes: make test-programs"]
async fn flux_rolls_a_folder_forward_and_back_and_nothing_flaps() {
    run("flux").await;
}

#[tokio::test]
#[ignore = "likewise"]
async fn velero_restores_a_namespace_with_its_children_and_pods() {
    run("velero").await;
}
