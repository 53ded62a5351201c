//! The configuration from flags, variables and a kubeconfig, and the errors for an invalid one.

use std::net::TcpListener;

use crate::process::{Kubeconfig, Running, free_port, manager, output, refusal};
use testkit::http;

#[test]
fn help_names_every_flag_and_its_variable_and_exits_0() {
    let output = output(&["--help"], &[("LOG_LEVEL", "debug")]);
    let help = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0));
    for part in [
        "--leader-elect",
        "[env: WATCH_NAMESPACE]",
        "[default: :8081]",
        "[env: ENABLE_WEBHOOKS]",
    ] {
        assert!(help.contains(part), "{part} is not in:\n{help}");
    }
}

#[test]
fn version_is_printed_on_standard_output() {
    let output = output(&["--version"], &[]);
    let expected = concat!("manager ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn an_invalid_flag_exits_64_and_is_named() {
    assert!(refusal(&["--max-replicas=-1"], &[]).contains("--max-replicas"));
    assert!(refusal(&["--webhook-port=none"], &[]).contains("--webhook-port"));
    assert!(refusal(&["--webhook-ports=9443"], &[]).contains("--webhook-ports"));
    assert!(refusal(&["migrate-storage", "--page-size=0"], &[]).contains("--page-size"));
    let nowhere = ["migrate-storage", "--kubeconfig=/nowhere/config"];
    assert!(refusal(&nowhere, &[]).contains("/nowhere/config"));
    let namespace = "--leader-election-namespace=A";
    assert!(refusal(&[namespace], &[]).contains("\"A\""));
}

#[test]
fn every_flag_is_also_an_environment_variable() {
    for (variable, value, part) in [
        ("METRICS_BIND_ADDRESS", "8080", "--metrics-bind-address"),
        ("METRICS_SECURE", "maybe", "--metrics-secure"),
        (
            "HEALTH_PROBE_BIND_ADDRESS",
            "8081",
            "--health-probe-bind-address",
        ),
        ("LEADER_ELECT", "maybe", "--leader-elect"),
        (
            "LEADER_ELECTION_NAMESPACE",
            "A",
            "--leader-election-namespace",
        ),
        ("POD_NAMESPACE", "A", "POD_NAMESPACE"),
        ("ENABLE_WEBHOOKS", "perhaps", "--enable-webhooks"),
        ("CONTROLLERS", "no-kind", "\"no-kind\""),
        (
            "MAX_CONCURRENT_RECONCILES",
            "0",
            "--max-concurrent-reconciles",
        ),
        ("MAX_REPLICAS", "-1", "--max-replicas"),
        ("WATCH_NAMESPACE", "Team", "\"Team\""),
        ("MEMCACHED_IMAGE", "a b", "MEMCACHED_IMAGE"),
        ("NGINX_IMAGE", "a b", "NGINX_IMAGE"),
        ("HELLOWORLD_IMAGE", "a b", "HELLOWORLD_IMAGE"),
        ("LOG_FORMAT", "xml", "--log-format"),
        ("LOG_LEVEL", "loud", "--log-level"),
        ("KUBECONFIG", "/nowhere", "KUBECONFIG"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318", "http"),
    ] {
        let said = refusal(&[], &[(variable, value)]);
        assert!(said.contains(part), "{variable}={value}: {said}");
    }
}

#[test]
fn an_empty_variable_is_an_unset_one_for_every_flag() {
    let help = output(&["--help"], &[]);
    let help = String::from_utf8(help.stdout).unwrap();
    let variables: Vec<&str> = help
        .split("[env: ")
        .skip(1)
        .filter_map(|rest| rest.split([']', '=']).next())
        .collect();
    assert!(variables.len() > 20, "{variables:?}");
    let images = ["MEMCACHED_IMAGE", "NGINX_IMAGE", "HELLOWORLD_IMAGE"];
    let environment: Vec<_> = variables
        .iter()
        .chain(&images)
        .map(|name| (*name, ""))
        .collect();
    // The same as without any variable: only the cluster is missing.
    let said = refusal(&[], &environment);
    assert!(
        said.contains("set KUBECONFIG or pass --kubeconfig"),
        "{said}"
    );
}

#[test]
fn a_scaffolded_manifest_works_with_only_its_image_changed() {
    let kubeconfig = Kubeconfig::for_server(&format!("https://127.0.0.1:{}", free_port()));
    let mut command = manager();
    command.args(["--kubeconfig", &kubeconfig.file]).args([
        "--health-probe-bind-address=127.0.0.1:0",
        "--metrics-bind-address=127.0.0.1:0",
        "--leader-elect=false",
        "--enable-http2=false",
        "--zap-devel=true",
        "--zap-encoder=json",
        "--zap-log-level=info",
        "--zap-stacktrace-level=error",
        "--zap-time-encoding=rfc3339",
    ]);
    let mut manager = Running::start(command);
    for flag in [
        "\"enable-http2\"",
        "\"zap-devel\"",
        "\"zap-encoder\"",
        "\"zap-log-level\"",
        "\"zap-stacktrace-level\"",
        "\"zap-time-encoding\"",
    ] {
        manager.log_line(&[flag, "has no effect"]);
    }
    let health = manager.address_of("health probes");
    assert_eq!(http::get(&health, "/healthz").0, 200);
}

#[test]
fn traces_that_cannot_be_exported_as_configured_exit_64_and_bind_no_port() {
    let kubeconfig = Kubeconfig::for_server(&format!("https://127.0.0.1:{}", free_port()));
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://127.0.0.1:4318");
    for file in ["/nowhere", &kubeconfig.file] {
        let said = refusal(
            &["--kubeconfig", &kubeconfig.file],
            &[endpoint, ("OTEL_EXPORTER_OTLP_CERTIFICATE", file)],
        );
        let reason = format!("cannot use the certificates of {file} for traces");
        assert!(said.contains(&reason), "{said}");
        assert!(!said.contains("listening"), "{said}");
    }
}

#[test]
fn the_sdk_warns_of_variables_for_traces_that_it_does_not_support() {
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318");
    for (variable, value) in [
        ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
    ] {
        let said = refusal(&[], &[endpoint, (variable, value)]);
        let warning = said.lines().find(|line| line.contains("WARN"));
        let warning = warning.expect("a warning");
        assert!(warning.contains(variable), "{warning}");
        assert!(said.contains("set KUBECONFIG"), "{said}");
        for off in [
            ("OTEL_SDK_DISABLED", "TRUE"),
            ("OTEL_TRACES_EXPORTER", "none"),
        ] {
            let said = refusal(&[], &[endpoint, (variable, value), off]);
            assert!(!said.contains(variable), "{said}");
        }
    }
}

#[test]
fn leader_election_without_a_namespace_exits_64_with_the_flag_to_set() {
    let kubeconfig = Kubeconfig::for_server(&format!("https://127.0.0.1:{}", free_port()));
    let said = refusal(&["--leader-elect", "--kubeconfig", &kubeconfig.file], &[]);
    assert!(
        said.contains("--leader-election-namespace=NAMESPACE") && said.contains("POD_NAMESPACE"),
        "{said}"
    );
    assert!(!said.contains("listening"), "{said}");
}

#[test]
fn a_flag_wins_over_its_variable() {
    let said = refusal(&["--controllers=no-kind"], &[("CONTROLLERS", "never-read")]);
    assert!(
        said.contains("\"no-kind\"") && !said.contains("never-read"),
        "{said}"
    );
}

#[test]
fn without_any_cluster_it_exits_64_and_says_what_to_set() {
    let said = refusal(
        &["--health-probe-bind-address=127.0.0.1:0"],
        &[("HOME", "/nowhere")],
    );
    assert!(
        said.contains("set KUBECONFIG or pass --kubeconfig"),
        "{said}"
    );
    assert!(!said.contains("listening"), "a port was bound: {said}");
}

#[test]
fn a_missing_kubeconfig_is_named() {
    let said = refusal(&["--kubeconfig=/nowhere/config"], &[]);
    assert!(
        said.contains("/nowhere/config") && said.contains("No such file"),
        "{said}"
    );
}

#[test]
fn a_kubeconfig_without_a_cluster_is_rejected() {
    let kubeconfig = Kubeconfig::for_server("https://127.0.0.1:6443");
    std::fs::write(&kubeconfig.file, "apiVersion: v1\nkind: Config\n").unwrap();
    let said = refusal(&["--kubeconfig", &kubeconfig.file], &[]);
    assert!(said.contains(&kubeconfig.file), "{said}");
}

#[test]
fn a_port_in_use_is_named_with_its_flag() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let kubeconfig = Kubeconfig::for_server("https://127.0.0.1:6443");
    let health = format!("--health-probe-bind-address={address}");
    let output = output(&["--kubeconfig", &kubeconfig.file, &health], &[]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains(&address) && said.contains("--health-probe-bind-address"),
        "{said}"
    );
}
