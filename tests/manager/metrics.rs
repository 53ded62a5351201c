//! The metrics of a new process: access to them, and that they are the documented ones.

use std::thread;
use std::time::Duration;

use crate::process::{Kubeconfig, Running, STOP_DEADLINE, free_port, manager};
use testkit::{Limit, http};

use crate::metrics_list;

/// Starts a manager without an API server, with all its servers, over TLS. The proxy of the environment is
/// not for the API server.
fn start_all_servers(kubeconfig: &Kubeconfig) -> Running {
    let mut command = manager();
    command.args(["--kubeconfig", &kubeconfig.file, "--webhook-port=0"]);
    command.args([
        "--health-probe-bind-address=127.0.0.1:0",
        "--metrics-bind-address=127.0.0.1:0",
    ]);
    command.env("ENABLE_WEBHOOKS", "true");
    command.env("HTTPS_PROXY", "http://proxy.example.com:3128");
    Running::start(command)
}

#[test]
fn while_the_api_server_is_down_metrics_are_denied_and_one_log_line_says_why() {
    let kubeconfig = Kubeconfig::for_server(&format!("https://127.0.0.1:{}", free_port()));
    let mut running = start_all_servers(&kubeconfig);
    let address = running.address_of("metrics");
    let ask = |headers: &[(&str, &str)]| http::get_tls(&address, "/metrics", headers);
    assert_eq!(ask(&[]).0, 401);
    let token = [("Authorization", "Bearer some-token")];
    for _ in 0..2 {
        let (code, body) = ask(&token);
        assert_eq!(code, 503, "{body}");
        assert!(!body.contains("process_"), "{body}");
    }
    let line = running.log_line(&["cannot review access to the metrics"]);
    assert!(line.contains("refused"), "{line}");
    running.signal("-TERM");
    running.wait();
    let rest = running.rest_of_log();
    assert!(!rest.contains("cannot find out"), "{rest}");
    assert!(!rest.contains("some-token") && !line.contains("some-token"));
}

/// Metrics that only exist with --leader-elect or --metrics-secure, or after their first event.
const NOT_AT_THE_START: [&str; 5] = [
    "leader_election_master_status",
    "leader_election_other_flags",
    "leader_election_slowpath",
    "quartet_operator_admission_decisions",
    "quartet_operator_metrics_certificate_not_after_timestamp_seconds",
];

#[test]
fn exported_and_documented_metrics_are_the_same() {
    let kubeconfig = Kubeconfig::for_server(&format!("https://127.0.0.1:{}", free_port()));
    let mut command = manager();
    command.args([
        "--kubeconfig",
        &kubeconfig.file,
        "--webhook-port=0",
        "--metrics-secure=false",
    ]);
    command.args([
        "--health-probe-bind-address=127.0.0.1:0",
        "--metrics-bind-address=127.0.0.1:0",
    ]);
    command.env("ENABLE_WEBHOOKS", "true");
    let mut running = Running::start(command);
    let address = running.address_of("metrics");
    let mut limit = Limit::new(STOP_DEADLINE);
    loop {
        let (_, scrape) = http::get(&address, "/metrics");
        let missing = Vec::from_iter(metrics_list::assert_listed(&scrape));
        if missing == NOT_AT_THE_START {
            return;
        }
        // The first requests to the API server take a moment.
        assert!(!limit.is_over(), "missing: {missing:?}");
        thread::sleep(Duration::from_millis(20));
    }
}
