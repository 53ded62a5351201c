//! A kubeconfig with a credential plugin: how often it runs, and that one that hangs delays no stop.

use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::process::{Kubeconfig, Running, STOP_DEADLINE, free_port, manager};
use testkit::Limit;

/// A kubeconfig whose plugin adds its process ID to the returned file, and then runs `script`.
fn with_plugin(script: &str) -> (Kubeconfig, String) {
    let kubeconfig = Kubeconfig::for_server(&format!("https://127.0.0.1:{}", free_port()));
    let runs = format!("{}-runs", kubeconfig.file);
    let script = serde_json::json!(format!("echo $$ >>'{runs}'; {script}"));
    let plugin = format!(
        "exec: {{apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, \
         command: /bin/sh, args: [\"-c\", {script}]}}"
    );
    let text = std::fs::read_to_string(&kubeconfig.file).unwrap();
    let text = text.replace("token: secret", &plugin);
    std::fs::write(&kubeconfig.file, text).unwrap();
    (kubeconfig, runs)
}

#[test]
fn a_plugin_that_hangs_does_not_delay_the_stop() {
    for (argument, code, line) in [
        (
            "--health-probe-bind-address=127.0.0.1:0",
            0,
            "stopped before the start",
        ),
        ("migrate-storage", 1, "stopped by SIGTERM"),
    ] {
        let (kubeconfig, runs) = with_plugin("exec sleep 600");
        let mut command = manager();
        command.args([argument, "--kubeconfig", &kubeconfig.file]);
        let mut running = Running::start(command);
        let mut limit = Limit::new(STOP_DEADLINE);
        let plugin = loop {
            let text = std::fs::read_to_string(&runs).unwrap_or_default();
            if text.ends_with('\n') {
                break text;
            }
            assert!(!limit.is_over(), "the plugin does not run");
            thread::sleep(Duration::from_millis(20));
        };
        running.signal("-TERM");
        assert_eq!(running.wait().code(), Some(code));
        let log = running.rest_of_log();
        assert!(log.contains(line), "{log}");
        // It outlives the manager.
        let _ = Command::new("kill").args(plugin.lines()).status();
    }
}

#[test]
fn a_plugin_runs_three_times_at_the_start() {
    let (kubeconfig, runs) = with_plugin(
        r#"echo '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
        "status": {"token": "t", "expirationTimestamp": "2999-01-01T00:00:00Z"}}'"#,
    );
    let mut command = manager();
    command.args(["--kubeconfig", &kubeconfig.file, "--leader-elect"]);
    command.args([
        "--leader-election-namespace=default",
        "--health-probe-bind-address=127.0.0.1:0",
    ]);
    let mut running = Running::start(command);
    running.log_line(&["running the credential plugin", "/bin/sh"]);
    running.log_line(&["taking part in the leader election"]);
    running.signal("-TERM");
    assert_eq!(running.wait().code(), Some(0));
    let runs = std::fs::read_to_string(&runs).unwrap();
    // kube runs it for TLS, for the token, and for the expiry of a certificate.
    assert_eq!(runs.lines().count(), 3, "{runs}");
}
