//! The real binary without a cluster: what it says about a bad configuration, and that it
//! lives and stops in good order while the API server is away.
// Waits for another process, whose time cannot be paused, on a thread of its own.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

#[path = "support/https.rs"]
mod https;
#[path = "support/metrics_list.rs"]
mod metrics_list;
#[path = "support/plain_http.rs"]
mod plain_http;

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Five times the 8.5 s in which the manager promises to stop.
const STOP_DEADLINE: Duration = Duration::from_millis(5 * 8500);

/// The manager with an environment of its own: none but what a test gives it.
fn manager() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_manager"));
    command.env_clear().stdin(Stdio::null());
    // Port 9443 cannot be bound by several at once; tests of the webhooks choose another.
    command.env("ENABLE_WEBHOOKS", "false");
    command
}

fn output(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    manager()
        .args(arguments)
        .envs(environment.iter().copied())
        .output()
        .unwrap()
}

/// Runs the manager with a configuration it must refuse; returns what it says.
fn refusal(arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let output = output(arguments, environment);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(64), "{said}");
    assert!(output.stdout.is_empty());
    said
}

/// A port that nobody listens on.
fn free_port() -> u16 {
    devcluster::free_port().unwrap()
}

/// A kubeconfig for an API server at `server`, removed with its folder when dropped.
struct Kubeconfig {
    folder: PathBuf,
    file: String,
}

impl Kubeconfig {
    fn for_server(server: &str) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("manager-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("kubeconfig");
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: test\n\
             clusters: [{{name: test, cluster: {{server: \"{server}\"}}}}]\n\
             contexts: [{{name: test, context: {{cluster: test, user: test}}}}]\n\
             users: [{{name: test, user: {{token: secret}}}}]\n"
        );
        std::fs::write(&file, text).unwrap();
        Self {
            file: file.to_str().unwrap().to_owned(),
            folder,
        }
    }
}

impl Drop for Kubeconfig {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A running manager, killed when dropped.
struct Running {
    process: Child,
    /// Lines of its log, from a thread that ends with it.
    lines: Receiver<String>,
}

impl Running {
    fn start(mut command: Command) -> Self {
        let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
        let log = BufReader::new(process.stderr.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || {
            let mut lines = log.lines().map_while(Result::ok);
            lines.all(|line| sender.send(line).is_ok())
        });
        Self { process, lines }
    }

    /// Reads log lines up to the first that has all `parts`, and returns it.
    fn log_line(&mut self, parts: &[&str]) -> String {
        let mut read = Vec::new();
        loop {
            let Ok(line) = self.lines.recv_timeout(STOP_DEADLINE) else {
                panic!("no line with {parts:?} in:\n{}", read.join("\n"));
            };
            if parts.iter().all(|part| line.contains(part)) {
                return line;
            }
            read.push(line);
        }
    }

    /// The address at which it serves `purpose`, from its log. Lines come in order, so the
    /// one for health probes has to be asked for before that for metrics.
    fn address_of(&mut self, purpose: &str) -> String {
        let line = self.log_line(&["\"listening\"", &format!("\"purpose\":\"{purpose}\"")]);
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        line["address"].as_str().unwrap().to_owned()
    }

    fn signal(&self, name: &str) {
        let id = self.process.id().to_string();
        assert!(
            Command::new("kill")
                .args([name, &id])
                .status()
                .unwrap()
                .success()
        );
    }

    fn wait(&mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                println!("stopped after {:?}", began.elapsed());
                return status;
            }
            assert!(
                began.elapsed() < STOP_DEADLINE,
                "still running after {STOP_DEADLINE:?}"
            );
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// What it wrote after the last line that was read, up to its end.
    fn rest_of_log(&mut self) -> String {
        self.lines.iter().collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A manager whose API server is not there, with both servers on free ports.
fn start_without_api_server(kubeconfig: &Kubeconfig) -> Running {
    let mut command = manager();
    command.args(["--kubeconfig", &kubeconfig.file, "--metrics-secure=false"]);
    command.args([
        "--health-probe-bind-address=127.0.0.1:0",
        "--metrics-bind-address=127.0.0.1:0",
    ]);
    Running::start(command)
}

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
fn a_bad_flag_exits_64_and_is_named() {
    assert!(refusal(&["--max-replicas=-1"], &[]).contains("--max-replicas"));
    assert!(refusal(&["--webhook-port=none"], &[]).contains("--webhook-port"));
    assert!(refusal(&["--webhook-ports=9443"], &[]).contains("--webhook-ports"));
    assert!(refusal(&["migrate-storage", "--page-size=0"], &[]).contains("--page-size"));
    let nowhere = ["migrate-storage", "--kubeconfig=/nowhere/config"];
    assert!(refusal(&nowhere, &[]).contains("/nowhere/config"));
    let namespace = "--leader-election-namespace=A";
    assert!(refusal(&[namespace], &[]).contains("\"A\""));
    let selector = "--watch-label-selector=shard=a b";
    assert!(refusal(&[selector], &[]).contains("\"shard=a b\": a value of a label"));
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
        ("CONTROLLERS", "redis", "\"redis\""),
        (
            "MAX_CONCURRENT_RECONCILES",
            "0",
            "--max-concurrent-reconciles",
        ),
        ("MAX_REPLICAS", "-1", "--max-replicas"),
        ("WATCH_NAMESPACE", "Team", "\"Team\""),
        (
            "WATCH_LABEL_SELECTOR",
            "a in b",
            "--watch-label-selector: \"a in b\"",
        ),
        ("MEMCACHED_IMAGE", "a b", "MEMCACHED_IMAGE"),
        ("NGINX_IMAGE", "a b", "NGINX_IMAGE"),
        ("HELLOWORLD_IMAGE", "a b", "HELLOWORLD_IMAGE"),
        ("LOG_FORMAT", "xml", "--log-format"),
        ("LOG_LEVEL", "loud", "--log-level"),
        ("KUBECONFIG", "/nowhere", "KUBECONFIG"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318", "http"),
        ("OTEL_TRACES_EXPORTER", "jaeger", "otlp or none"),
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
    let environment: Vec<_> = variables.iter().map(|name| (*name, "")).collect();
    // Everything is as without any: it is the cluster that is missing.
    let said = refusal(&[], &environment);
    assert!(
        said.contains("set KUBECONFIG or pass --kubeconfig"),
        "{said}"
    );
}

#[test]
fn a_manifest_of_a_scaffold_starts_with_only_its_image_changed() {
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
    manager.log_line(&["\"--zap-stacktrace-level\"", "has no effect"]);
    manager.log_line(&["\"--zap-time-encoding\"", "has no effect"]);
    let health = manager.address_of("health probes");
    assert_eq!(plain_http::get(&health, "/healthz").0, 200);
}

#[test]
fn traces_that_cannot_be_exported_as_configured_exit_64_and_bind_no_port() {
    let kubeconfig = Kubeconfig::for_server(&format!("https://127.0.0.1:{}", free_port()));
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://127.0.0.1:4318");
    for (variable, value, part) in [
        (
            "OTEL_EXPORTER_OTLP_TIMEOUT",
            "soon",
            "OTEL_EXPORTER_OTLP_TIMEOUT",
        ),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere", "/nowhere"),
        (
            "OTEL_EXPORTER_OTLP_CERTIFICATE",
            &kubeconfig.file,
            "certificates in PEM",
        ),
    ] {
        let said = refusal(
            &["--kubeconfig", &kubeconfig.file],
            &[endpoint, (variable, value)],
        );
        assert!(said.contains(part), "{variable}={value}: {said}");
        assert!(!said.contains("listening"), "{said}");
    }
}

#[test]
fn a_leader_election_whose_lease_is_nowhere_exits_64_with_the_way_out() {
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
    let said = refusal(&["--controllers=ftp"], &[("CONTROLLERS", "redis")]);
    assert!(
        said.contains("\"ftp\"") && !said.contains("redis"),
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
fn a_kubeconfig_that_is_not_there_is_named() {
    let said = refusal(&["--kubeconfig=/nowhere/config"], &[]);
    assert!(
        said.contains("/nowhere/config") && said.contains("No such file"),
        "{said}"
    );
}

#[test]
fn a_kubeconfig_without_a_cluster_is_refused() {
    let kubeconfig = Kubeconfig::for_server("https://127.0.0.1:6443");
    std::fs::write(&kubeconfig.file, "apiVersion: v1\nkind: Config\n").unwrap();
    let said = refusal(&["--kubeconfig", &kubeconfig.file], &[]);
    assert!(said.contains(&kubeconfig.file), "{said}");
}

#[test]
fn a_port_that_is_taken_is_named_with_its_flag() {
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

#[test]
fn while_the_api_server_is_away_it_lives_retries_and_stops_on_sigterm() {
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
        assert_eq!(
            plain_http::get(&health, path),
            (200, "ok".to_owned()),
            "{path}"
        );
    }
    let (status, body) = plain_http::get(&metrics, "/metrics");
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
fn an_api_server_that_never_answers_does_not_hold_up_the_stop() {
    // The kernel accepts connections that nobody will ever serve.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("https://{}", silent.local_addr().unwrap());
    let kubeconfig = Kubeconfig::for_server(&server);
    let mut running = start_without_api_server(&kubeconfig);
    let health = running.address_of("health probes");
    running.log_line(&["\"starting\"", &server]);
    assert_eq!(plain_http::get(&health, "/healthz").1, "ok");
    running.signal("-INT");
    assert_eq!(running.wait().code(), Some(0));
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

/// A manager whose API server is not there, with every server it has, over TLS.
fn start_all_servers(kubeconfig: &Kubeconfig) -> Running {
    let mut command = manager();
    command.args(["--kubeconfig", &kubeconfig.file, "--webhook-port=0"]);
    command.args([
        "--health-probe-bind-address=127.0.0.1:0",
        "--metrics-bind-address=127.0.0.1:0",
    ]);
    command.env("ENABLE_WEBHOOKS", "true");
    Running::start(command)
}

#[test]
fn while_the_api_server_is_away_nobody_gets_the_metrics_and_the_log_says_why_once() {
    let kubeconfig = Kubeconfig::for_server(&format!("https://127.0.0.1:{}", free_port()));
    let mut running = start_all_servers(&kubeconfig);
    let address = running.address_of("metrics");
    let ask = |headers: &[(&str, &str)]| https::get(&address, "/metrics", headers);
    assert_eq!(ask(&[]).code, 401);
    let token = [("Authorization", "Bearer some-token")];
    for _ in 0..2 {
        let answer = ask(&token);
        assert_eq!(answer.code, 503, "{}", answer.body);
        assert!(!answer.body.contains("process_"), "{}", answer.body);
    }
    let line = running.log_line(&["cannot review access to the metrics"]);
    assert!(line.contains("TokenReview"), "{line}");
    running.signal("-TERM");
    running.wait();
    let rest = running.rest_of_log();
    assert!(!rest.contains("cannot find out"), "{rest}");
    assert!(!rest.contains("some-token") && !line.contains("some-token"));
}

/// What appears with --leader-elect or --metrics-secure only, or when it first happens.
const NOT_AT_THE_START: [&str; 9] = [
    "leader_election_master_status",
    "leader_election_slowpath",
    "quartet_operator_admission_decisions",
    "quartet_operator_conversion_data_left_out",
    "quartet_operator_conversions",
    "quartet_operator_metrics_certificate_not_after_timestamp_seconds",
    "quartet_operator_rewritten_applies",
    "quartet_operator_trace_spans",
    "quartet_operator_undecodable_objects",
];

#[test]
fn every_metric_is_in_the_documented_list_and_every_one_of_the_list_is_there() {
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
    let began = Instant::now();
    loop {
        let (_, scrape) = plain_http::get(&address, "/metrics");
        let missing = Vec::from_iter(metrics_list::assert_listed(&scrape));
        if missing == NOT_AT_THE_START {
            return;
        }
        // The first requests to the API server are not over at once.
        assert!(began.elapsed() < STOP_DEADLINE, "missing: {missing:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn signals_change_what_is_logged() {
    let kubeconfig = Kubeconfig::for_server(&format!("https://127.0.0.1:{}", free_port()));
    let mut running = start_without_api_server(&kubeconfig);
    running.address_of("metrics");
    running.signal("-USR1");
    running.log_line(&["log level changed", "Debug"]);
    running.log_line(&["\"level\":\"DEBUG\""]);
    running.signal("-USR2");
    running.log_line(&["log level changed", "Info"]);
    // What was being written at that moment has a second for it; the next signal marks its end.
    thread::sleep(Duration::from_secs(1));
    running.signal("-USR2");
    running.log_line(&["log level changed", "Info"]);
    running.signal("-TERM");
    running.wait();
    let rest = running.rest_of_log();
    assert_eq!(rest.matches("\"level\":\"DEBUG\"").count(), 0, "{rest}");
}
