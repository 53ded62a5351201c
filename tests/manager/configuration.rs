//! The configuration from flags, variables and a kubeconfig, and the errors for an invalid one.

use std::net::TcpListener;

use crate::process::{Kubeconfig, output};

/// Runs the manager with an invalid configuration and returns its error. No port is bound.
fn refusal(arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let output = output(arguments, environment);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(64), "{said}");
    assert!(output.stdout.is_empty());
    assert!(!said.contains("listening"), "a port was bound: {said}");
    said
}

fn printed(argument: &str) -> String {
    let output = output(&[argument], &[("LOG_LEVEL", "debug")]);
    assert_eq!(output.status.code(), Some(0));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn help_names_every_flag_and_its_variable_and_version_the_release() {
    let help = printed("--help");
    for part in [
        "--leader-elect",
        "[env: WATCH_NAMESPACE]",
        "[default: :8081]",
        "[env: ENABLE_WEBHOOKS]",
    ] {
        assert!(help.contains(part), "{part} is not in:\n{help}");
    }
    let expected = concat!("manager ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(printed("--version"), expected);
}

/// A variable with an invalid value, and a part of the error.
const VARIABLES: &str = "\
METRICS_BIND_ADDRESS=8080 | --metrics-bind-address
METRICS_SECURE=maybe | --metrics-secure
HEALTH_PROBE_BIND_ADDRESS=8081 | --health-probe-bind-address
LEADER_ELECT=maybe | --leader-elect
LEADER_ELECTION_NAMESPACE=A | --leader-election-namespace
POD_NAMESPACE=A | POD_NAMESPACE
ENABLE_WEBHOOKS=perhaps | --enable-webhooks
CONTROLLERS=no-kind | \"no-kind\"
MAX_CONCURRENT_RECONCILES=0 | --max-concurrent-reconciles
MAX_REPLICAS=-1 | --max-replicas
WATCH_NAMESPACE=Team | \"Team\"
MEMCACHED_IMAGE=a b | MEMCACHED_IMAGE
NGINX_IMAGE=a b | NGINX_IMAGE
HELLOWORLD_IMAGE=a b | HELLOWORLD_IMAGE
LOG_FORMAT=xml | --log-format
LOG_LEVEL=loud | --log-level
KUBECONFIG=/nowhere | KUBECONFIG
OTEL_EXPORTER_OTLP_ENDPOINT=collector:4318 | http";

#[test]
fn every_flag_is_also_an_environment_variable_and_an_invalid_value_exits_64() {
    for line in VARIABLES.lines() {
        let (variable, part) = line.split_once(" | ").unwrap();
        let said = refusal(&[], &[variable.split_once('=').unwrap()]);
        assert!(said.contains(part), "{line}: {said}");
    }
    let empty = Kubeconfig::for_nobody();
    std::fs::write(&empty.file, "apiVersion: v1\nkind: Config\n").unwrap();
    let nobody = Kubeconfig::for_nobody();
    let of_subcommand = ["migrate-storage", "--kubeconfig=/nowhere/config"];
    let invalid: [(&[&str], &str); 7] = [
        (&["--webhook-ports=9443"], "--webhook-ports"),
        (&["migrate-storage", "--page-size=0"], "--page-size"),
        (&of_subcommand, "/nowhere/config"),
        (&["--kubeconfig=/nowhere/config"], "No such file"),
        (&["--kubeconfig", &empty.file], &empty.file),
        (
            &["--leader-elect", "--kubeconfig", &nobody.file],
            "--leader-election-namespace=NAMESPACE",
        ),
        // A flag is before its variable.
        (&["--controllers=no-kind"], "\"no-kind\""),
    ];
    for (arguments, part) in invalid {
        let said = refusal(arguments, &[("CONTROLLERS", "")]);
        assert!(said.contains(part), "{arguments:?}: {said}");
    }
    let said = refusal(&["--controllers=no-kind"], &[("CONTROLLERS", "never-read")]);
    assert!(!said.contains("never-read"), "{said}");
}

#[test]
fn an_empty_variable_is_an_unset_one_for_every_flag() {
    let help = printed("--help");
    let variables: Vec<&str> = help
        .split("[env: ")
        .skip(1)
        .filter_map(|rest| rest.split([']', '=']).next())
        .collect();
    assert!(variables.len() > 20, "{variables:?}");
    let images = ["MEMCACHED_IMAGE", "NGINX_IMAGE", "HELLOWORLD_IMAGE"];
    let all = variables.iter().chain(&images);
    let environment: Vec<_> = all.map(|name| (*name, "")).collect();
    // The same as without any variable: only the cluster is missing.
    let said = refusal(&[], &environment);
    let missing = "set KUBECONFIG or pass --kubeconfig";
    assert!(said.contains(missing), "{said}");
}

#[test]
fn traces_that_cannot_be_exported_as_configured_exit_64_and_bind_no_port() {
    let kubeconfig = Kubeconfig::for_nobody();
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://127.0.0.1:4318");
    for file in ["/nowhere", &kubeconfig.file] {
        let certificate = ("OTEL_EXPORTER_OTLP_CERTIFICATE", file);
        let said = refusal(
            &["--kubeconfig", &kubeconfig.file],
            &[endpoint, certificate],
        );
        let reason = format!("cannot use the certificates of {file} for traces");
        assert!(said.contains(&reason), "{said}");
    }
    // The SDK warns of what it does not support.
    for (variable, value) in [
        ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
    ] {
        let said = refusal(&[], &[endpoint, (variable, value)]);
        let warning = said.lines().find(|line| line.contains("WARN"));
        let warning = warning.expect("a warning");
        assert!(warning.contains(variable), "{warning}");
        let off = ("OTEL_SDK_DISABLED", "TRUE");
        let said = refusal(&[], &[endpoint, (variable, value), off]);
        assert!(!said.contains(variable), "{said}");
    }
}

#[test]
fn a_port_in_use_is_named_with_its_flag() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let kubeconfig = Kubeconfig::for_nobody();
    let health = format!("--health-probe-bind-address={address}");
    let output = output(&["--kubeconfig", &kubeconfig.file, &health], &[]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    let is_named = said.contains(&address) && said.contains("--health-probe-bind-address");
    assert!(is_named, "{said}");
}
