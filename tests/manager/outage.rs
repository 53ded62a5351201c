//! While the API server is down, the manager runs, retries, logs, handles signals and stops.

use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use crate::process::{Kubeconfig, Running, free_port, manager, start_without_api_server};
use testkit::http;

#[test]
fn while_the_api_server_is_down_it_runs_retries_and_stops_on_sigterm() {
    let kubeconfig = Kubeconfig::for_server(&format!("https://127.0.0.1:{}", free_port()));
    let mut running = start_without_api_server(&kubeconfig);
    let health = running.address_of("health probes");
    let metrics = running.address_of("metrics");
    running.log_line(&[
        "cannot reach the API server",
        "refused",
        "\"retry_seconds\":1",
    ]);
    running.log_line(&[
        "cannot reach the API server",
        "refused",
        "\"retry_seconds\":2",
    ]);

    for path in ["/healthz", "/readyz", "/readyz/shutdown"] {
        assert_eq!(http::get(&health, path), (200, "ok".to_owned()), "{path}");
    }
    let (status, body) = http::get(&metrics, "/metrics");
    assert_eq!(status, 200);
    for part in [
        "quartet_operator_build_info{",
        "process_cpu_seconds_total ",
        "code=\"<error>\",method=\"GET\"",
    ] {
        assert!(body.contains(part), "{part} is not in:\n{body}");
    }

    running.signal("-TERM");
    assert_eq!(running.wait().code(), Some(0));
    let log = running.rest_of_log();
    assert!(
        log.contains("\"SIGTERM\"") && log.contains("\"stopped\""),
        "{log}"
    );
}

#[test]
fn an_api_server_that_never_responds_does_not_delay_the_stop() {
    // The kernel accepts connections, and no process serves them.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("https://{}", silent.local_addr().unwrap());
    let kubeconfig = Kubeconfig::for_server(&server);
    // Of a terminal: Ctrl-C, and its end.
    for signal in ["-INT", "-HUP"] {
        let mut running = start_without_api_server(&kubeconfig);
        let health = running.address_of("health probes");
        running.log_line(&["\"starting\"", &server]);
        assert_eq!(http::get(&health, "/healthz").1, "ok");
        running.signal(signal);
        assert_eq!(running.wait().code(), Some(0), "{signal}");
    }
}

/// As the first process of a container, it gets only the signals that it handles.
#[test]
fn a_migration_of_storage_handles_signals_and_says_what_to_do() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("https://{}", silent.local_addr().unwrap());
    let kubeconfig = Kubeconfig::for_server(&server);
    let mut command = manager();
    command.args(["migrate-storage", "--kubeconfig", &kubeconfig.file]);
    let mut running = Running::start(command);
    let _connection = silent.accept().unwrap();
    running.signal("-TERM");
    assert_eq!(running.wait().code(), Some(1));
    let said = running.rest_of_log();
    assert!(
        said.contains("stopped by SIGTERM; run this again"),
        "{said}"
    );
}

#[test]
fn every_log_line_is_json_with_a_time_in_utc() {
    let kubeconfig = Kubeconfig::for_server(&format!("https://127.0.0.1:{}", free_port()));
    let mut running = start_without_api_server(&kubeconfig);
    running.log_line(&["\"starting\""]);
    running.signal("-TERM");
    running.wait();
    for line in running.rest_of_log().lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let time = line["timestamp"].as_str().unwrap();
        assert!(
            time.ends_with('Z') && time.parse::<jiff::Timestamp>().is_ok(),
            "{time}"
        );
        assert!(
            line["message"].is_string() && line["level"].is_string(),
            "{line}"
        );
    }
}

#[test]
fn signals_change_what_is_logged() {
    let kubeconfig = Kubeconfig::for_server(&format!("https://127.0.0.1:{}", free_port()));
    let mut running = start_without_api_server(&kubeconfig);
    running.address_of("metrics");
    running.signal("-USR1");
    running.log_line(&["log level changed", "\"debug\""]);
    running.log_line(&[
        "\"level\":\"DEBUG\"",
        "\"message\":\"requesting\"",
        "\"http.method\":\"GET\"",
    ]);
    running.signal("-USR2");
    running.log_line(&["log level changed", "\"info\""]);
    // A line that was being written may appear within a second; the next signal marks its end.
    thread::sleep(Duration::from_secs(1));
    running.signal("-USR2");
    running.log_line(&["log level changed", "\"info\""]);
    running.signal("-TERM");
    running.wait();
    let rest = running.rest_of_log();
    assert_eq!(rest.matches("\"level\":\"DEBUG\"").count(), 0, "{rest}");
}
