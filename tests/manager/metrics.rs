//! The metrics of a new process: access to them, and that they are the documented ones.

use testkit::{Limit, http};

use crate::metrics_list;
use crate::process::{Kubeconfig, STOP_DEADLINE, ended_by};

#[tokio::test]
async fn while_the_api_server_is_down_metrics_are_denied_and_the_log_says_why() {
    let kubeconfig = Kubeconfig::for_nobody();
    // The proxy of the environment is not for the API server.
    let proxy = ("HTTPS_PROXY", "http://proxy.example.com:3128");
    let running = kubeconfig.start(&[], &[("ENABLE_WEBHOOKS", "true"), proxy]);
    let address = running.address_of("metrics").await;
    let ask = |headers: &[(&str, &str)]| http::get_tls(&address, "/metrics", headers);
    assert_eq!(ask(&[]).0, 401);
    let token = [("Authorization", "Bearer some-token")];
    for _ in 0..2 {
        let (code, body) = ask(&token);
        assert_eq!(code, 503, "{body}");
        assert!(!body.contains("process_"), "{body}");
    }
    let denied = "cannot review access to the metrics";
    let line = running.logged(&[denied]).await;
    assert!(line.contains("refused"), "{line}");
    let (_, log) = ended_by(running, "-TERM").await;
    assert!(!log.contains("some-token"), "{log}");
}

/// Metrics that only exist with --leader-elect or --metrics-secure, or after their first event.
const NOT_AT_THE_START: [&str; 7] = [
    "controller_runtime_webhook_latency_seconds",
    "controller_runtime_webhook_requests_in_flight",
    "leader_election_master_status",
    "leader_election_other_flags",
    "leader_election_slowpath",
    "quartet_operator_admission_decisions",
    "quartet_operator_metrics_certificate_not_after_timestamp_seconds",
];

#[tokio::test]
async fn exported_and_documented_metrics_are_the_same() {
    let kubeconfig = Kubeconfig::for_nobody();
    let webhooks = [("ENABLE_WEBHOOKS", "true")];
    let running = kubeconfig.start(&["--metrics-secure=false"], &webhooks);
    let mut limit = Limit::new(STOP_DEADLINE);
    loop {
        let (_, scrape) = running.get("metrics", "/metrics").await;
        let missing = Vec::from_iter(metrics_list::assert_listed(&scrape));
        if missing == NOT_AT_THE_START {
            return;
        }
        // The first requests to the API server take a moment.
        limit.pause(|| format!("missing: {missing:?}")).await;
    }
}
