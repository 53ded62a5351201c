//! While the API server is down, the manager runs, retries, logs, handles signals and stops.

use std::net::TcpListener;
use std::time::Duration;

use testkit::{Limit, Manager, http};

use crate::process::{Kubeconfig, STOP_DEADLINE, ended_by, manager};

#[tokio::test]
async fn while_the_api_server_is_down_it_runs_retries_and_stops_on_sigterm() {
    let kubeconfig = Kubeconfig::for_nobody();
    let running = kubeconfig.start(&["--metrics-secure=false"], &[]);
    for seconds in ["\"retry_seconds\":1", "\"retry_seconds\":2"] {
        running
            .logged(&["cannot reach the API server", "refused", seconds])
            .await;
    }
    for path in ["/healthz", "/readyz", "/readyz/shutdown"] {
        let answer = running.get("health probes", path).await;
        assert_eq!(answer, (200, "ok".to_owned()), "{path}");
    }
    let (status, body) = running.get("metrics", "/metrics").await;
    assert_eq!(status, 200);
    for part in [
        "quartet_operator_build_info{",
        "process_cpu_seconds_total ",
        "code=\"<error>\",method=\"GET\"",
    ] {
        assert!(body.contains(part), "{part} is not in:\n{body}");
    }

    let (code, log) = ended_by(running, "-TERM").await;
    assert_eq!(code, Some(0));
    assert!(log.contains("\"SIGTERM\"") && log.contains("\"stopped\""));
    for line in log.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let time = line["timestamp"].as_str().unwrap();
        let is_utc = time.ends_with('Z') && time.parse::<jiff::Timestamp>().is_ok();
        assert!(is_utc, "{time}");
        let is_whole = line["message"].is_string() && line["level"].is_string();
        assert!(is_whole, "{line}");
    }
}

#[tokio::test]
async fn an_api_server_that_never_responds_does_not_delay_the_stop() {
    // The kernel accepts connections, and no process serves them.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("https://{}", silent.local_addr().unwrap());
    let kubeconfig = Kubeconfig::for_server(&server);
    // Of a terminal: Ctrl-C, and its end.
    for signal in ["-INT", "-HUP"] {
        let running = kubeconfig.start(&[], &[]);
        running.logged(&["\"starting\"", &server]).await;
        assert_eq!(running.get("health probes", "/healthz").await.1, "ok");
        assert_eq!(ended_by(running, signal).await.0, Some(0), "{signal}");
    }
}

/// As the first process of a container, it gets only the signals that it handles.
#[tokio::test]
async fn a_migration_of_storage_handles_signals_and_says_what_to_do() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("https://{}", silent.local_addr().unwrap());
    let kubeconfig = Kubeconfig::for_server(&server);
    let mut command = manager();
    command.args(["migrate-storage", "--kubeconfig", &kubeconfig.file]);
    let running = Manager::spawn(command);
    let _connection = silent.accept().unwrap();
    let (code, log) = ended_by(running, "-TERM").await;
    assert_eq!(code, Some(1));
    assert!(log.contains("stopped by SIGTERM; run this again"), "{log}");
}

#[tokio::test]
async fn a_credential_plugin_that_hangs_does_not_delay_the_stop() {
    let kubeconfig = Kubeconfig::for_nobody();
    let begun = format!("{}-plugin", kubeconfig.file);
    let script = serde_json::json!(format!("echo $$ >'{begun}'; exec sleep 600"));
    let plugin = format!(
        "exec: {{apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, \
         command: /bin/sh, args: [\"-c\", {script}]}}"
    );
    let text = std::fs::read_to_string(&kubeconfig.file).unwrap();
    std::fs::write(&kubeconfig.file, text.replace("token: secret", &plugin)).unwrap();
    let running = kubeconfig.start(&[], &[]);
    let mut limit = Limit::new(STOP_DEADLINE);
    let plugin = loop {
        let text = std::fs::read_to_string(&begun).unwrap_or_default();
        if text.ends_with('\n') {
            break text;
        }
        limit.pause(|| "the plugin does not run").await;
    };
    let (code, log) = ended_by(running, "-TERM").await;
    assert_eq!(code, Some(0));
    assert!(log.contains("stopped before the start"), "{log}");
    // It outlives the manager.
    let mut kill = std::process::Command::new("kill");
    let _ = kill.args(plugin.lines()).status();
}

#[tokio::test]
async fn signals_change_what_is_logged() {
    const CHANGED: &str = "log level changed";
    let kubeconfig = Kubeconfig::for_nobody();
    let running = kubeconfig.start(&[], &[]);
    let health = running.address_of("health probes").await;
    assert!(running.signal("-USR1"));
    running.logged(&[CHANGED, "\"debug\""]).await;
    let request = ["\"message\":\"requesting\"", "\"http.method\":\"GET\""];
    running
        .logged(&[&["\"level\":\"DEBUG\""][..], &request].concat())
        .await;
    // A line that was being written may appear within a second; the second signal marks its end.
    for times in [2, 3] {
        assert!(running.signal("-USR2"));
        let mut limit = Limit::new(STOP_DEADLINE);
        while running.log().matches(CHANGED).count() < times {
            limit.pause(|| running.log()).await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(http::get(&health, "/healthz").0, 200);
    let (_, log) = ended_by(running, "-TERM").await;
    let (_, rest) = log.rsplit_once(CHANGED).expect("the last change");
    assert!(rest.contains("\"info\"") && rest.contains("\"stopped\""));
    assert!(!rest.contains("\"level\":\"DEBUG\""), "{rest}");
}
