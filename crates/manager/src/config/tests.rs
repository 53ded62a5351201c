//! Tests of the result of a command line, and of the errors of an invalid one. `tests/manager`
//! tests environment variables with the real binary.

use super::*;
use crate::tests::APPLICATION;
use quartet_operator::kinds::OPERATORS;

fn load(arguments: &[&str]) -> Result<Config, clap::Error> {
    let arguments = ["manager"].iter().chain(arguments);
    Config::parse_arguments(&APPLICATION, arguments.copied())
}

fn controllers(arguments: &[&str]) -> Vec<String> {
    let operators = load(arguments).unwrap().operators;
    operators
        .iter()
        .map(|operator| operator.kind().controller_name())
        .collect()
}

/// The error message for invalid arguments.
fn rejection(arguments: &[&str]) -> String {
    load(arguments).expect_err("must be rejected").to_string()
}

#[test]
fn the_defaults_are_those_of_the_scaffold() {
    let config = load(&[]).unwrap();
    assert_eq!(config.metrics_bind_address, "0");
    assert!(config.metrics_secure && config.metrics_files().is_none());
    assert_eq!(config.health_probe_bind_address, ":8081");
    assert_eq!(config.operators.len(), OPERATORS.len());
    assert_eq!(config.settings, Settings::default());
    assert_eq!(config.max_concurrent_reconciles, 5);
    assert_eq!(config.max_concurrent_rollouts, 10);
    assert!(config.namespaces.is_empty() && !config.leader_elect);
    let found = (config.log_format, config.log_level);
    assert_eq!(found, (LogFormat::Json, LevelFilter::INFO));
}

#[test]
fn booleans_are_spelled_as_in_go() {
    for spelling in ["0", "f", "F", "false", "FALSE", "False"] {
        let flag = format!("--metrics-secure={spelling}");
        assert!(!load(&[&flag]).unwrap().metrics_secure, "{spelling}");
    }
    for spelling in ["1", "t", "T", "true", "TRUE", "True"] {
        let flag = format!("--leader-elect={spelling}");
        assert!(load(&[&flag]).unwrap().leader_elect, "{spelling}");
    }
    assert!(rejection(&["--leader-elect=maybe"]).contains("--leader-elect"));
}

#[test]
fn a_bare_boolean_is_true_and_does_not_swallow_the_next_argument() {
    assert!(load(&["--leader-elect"]).unwrap().leader_elect);
    let config = load(&["--leader-elect", "--metrics-secure=false"]).unwrap();
    assert!(config.leader_elect && !config.metrics_secure);
}

#[test]
fn the_namespace_of_the_lease_is_a_label() {
    let flag = |name: &str| load(&["--leader-elect", "--leader-election-namespace", name]);
    assert_eq!(flag("one").unwrap().leader_election_namespace, "one");
    assert_eq!(flag("").unwrap().leader_election_namespace, "");
    let message = flag("a/b").unwrap_err().to_string();
    assert!(message.contains("--leader-election-namespace"), "{message}");
}

#[test]
fn the_last_of_two_equal_flags_wins() {
    let config = load(&[
        "--max-replicas=1",
        "--max-replicas=2",
        "--leader-elect",
        "--leader-elect=false",
    ]);
    let config = config.unwrap();
    assert_eq!(config.settings.max_replicas, 2);
    assert!(!config.leader_elect);
}

#[test]
fn a_rejected_value_is_named_with_its_flag() {
    for flag in ["--health-probe-bind-address", "--metrics-bind-address"] {
        for address in ["8081", ":http", ":65536", ""] {
            let message = rejection(&[&format!("{flag}={address}")]);
            let is_helpful = message.contains(":port for every interface");
            assert!(message.contains(flag) && is_helpful, "{message}");
        }
    }
    for (argument, part) in [
        ("--max-concurrent-reconciles=0", "0 is not in 1..=1000"),
        ("--max-replicas=-1", "-1 is not in 0..=2147483647"),
        ("--log-format=xml", "possible values: json, text"),
        ("--tls-min-version=VersionTLS11", "or VersionTLS13"),
        ("--webhook-port=65536", "65536 is not in 0..=65535"),
    ] {
        let message = rejection(&[argument]);
        let (flag, _) = argument.split_once('=').unwrap();
        let is_named = message.contains(flag) && message.contains(part);
        assert!(is_named, "{argument}: {message}");
    }
}

#[test]
fn controllers_are_selected_by_name_in_the_order_of_the_list() {
    let found = controllers(&["--controllers=nginx, memcached"]);
    assert_eq!(found, ["memcached", "nginx"]);
    let found = controllers(&["--controllers=*,nginx"]).len();
    assert_eq!(found, OPERATORS.len());
    let message = rejection(&["--controllers=memcached,another"]);
    assert!(
        message.contains("\"another\"") && message.contains("memcached, nginx"),
        "{message}"
    );
    assert!(rejection(&["--controllers=,"]).contains("selects no controller"));
}

#[test]
fn namespaces_are_a_list_and_each_must_be_a_label() {
    let config = load(&["--watch-namespace=team-a, team-b,"]).unwrap();
    let expected = ["team-a", "team-b"].map(str::to_owned).into();
    assert_eq!(config.namespaces, expected);
    let long = "a".repeat(64);
    for name in ["Team", "-a", "a-", "a.b", "a b", &long] {
        let message = rejection(&[&format!("--watch-namespace={name}")]);
        assert!(message.contains(name), "{name}");
    }
}

#[test]
fn migrate_storage_is_a_subcommand_with_flags_of_its_own() {
    let migrate_storage = |arguments: &[&str]| {
        let arguments: Vec<_> = ["migrate-storage"]
            .iter()
            .chain(arguments)
            .copied()
            .collect();
        let Some(Command::MigrateStorage(options)) = load(&arguments).unwrap().command else {
            panic!("{arguments:?} would run the operators");
        };
        options
    };
    let defaults = MigrateStorage {
        dry_run: false,
        kubeconfig: None,
        page_size: 500,
    };
    assert_eq!(migrate_storage(&[]), defaults);
    let given = migrate_storage(&["--dry-run", "--page-size=7", "--kubeconfig", "admin.conf"]);
    let expected = MigrateStorage {
        dry_run: true,
        kubeconfig: Some("admin.conf".into()),
        page_size: 7,
    };
    assert_eq!(given, expected);
}

#[test]
fn a_subcommand_with_a_flag_that_is_not_its_own_is_rejected() {
    for arguments in [
        &["migrate-storage", "--page-size=0"][..],
        &["migrate-storage", "--page-size=10001"],
        &["migrate-storage", "--max-replicas=3"],
        &["--kubeconfig=admin.conf", "migrate-storage"],
        &["migrate"],
    ] {
        let rejected = load(arguments).err();
        assert!(
            rejected.is_some_and(|error| error.exit_code() == 2),
            "{arguments:?}"
        );
    }
}

#[test]
fn the_flags_of_a_scaffold_without_effect_are_accepted_and_remembered() {
    for arguments in [
        &["--enable-http2=false"][..],
        &["--zap-stacktrace-level", "error", "--enable-http2"],
        &["--zap-time-encoding=rfc3339", "--leader-elect"],
    ] {
        let config = load(arguments).unwrap();
        let given = arguments.iter().filter_map(|it| it.strip_prefix("--"));
        let given = given.map(|flag| flag.split('=').next().unwrap());
        let given: BTreeSet<_> = given.filter(|flag| *flag != "leader-elect").collect();
        let ignored = config.ignored_flags.iter().copied();
        assert_eq!(BTreeSet::from_iter(ignored), given);
    }
    assert!(load(&[]).unwrap().ignored_flags.is_empty());
}

#[test]
fn the_log_flags_of_a_scaffold_set_format_and_level() {
    use LogFormat::{Json, Text};
    for (arguments, expected) in [
        (&["--zap-log-level=debug"][..], (Json, LevelFilter::DEBUG)),
        (&["--zap-log-level", "error"], (Json, LevelFilter::ERROR)),
        (&["--zap-log-level=panic"], (Json, LevelFilter::ERROR)),
        (&["--zap-log-level=1"], (Json, LevelFilter::DEBUG)),
        (&["--zap-log-level=5"], (Json, LevelFilter::DEBUG)),
        (&["--zap-encoder=console"], (Text, LevelFilter::INFO)),
        (&["--zap-encoder=json"], (Json, LevelFilter::INFO)),
        (&["--zap-devel"], (Text, LevelFilter::DEBUG)),
        (&["--zap-devel=true"], (Text, LevelFilter::DEBUG)),
        (&["--zap-devel=false"], (Json, LevelFilter::INFO)),
        (
            &["--zap-devel", "--zap-log-level=info"],
            (Text, LevelFilter::INFO),
        ),
        (
            &["--log-format=json", "--zap-devel"],
            (Json, LevelFilter::DEBUG),
        ),
    ] {
        let config = load(arguments).unwrap();
        let found = (config.log_format, config.log_level);
        assert_eq!(found, expected, "{arguments:?}");
        assert!(config.ignored_flags.is_empty());
    }
    assert!(rejection(&["--zap-log-level=loud"]).contains("\"debug\""));
}

#[test]
fn the_webhook_server_is_on_unless_told_otherwise() {
    let config = load(&[]).unwrap();
    assert!(config.enable_webhooks);
    assert_eq!(config.webhook_port, 9443);
    assert_eq!(config.tls_min_version, TlsVersion::Tls12);
    let flags = ["--enable-webhooks=false", "--tls-min-version=VersionTLS13"];
    let config = load(&flags).unwrap();
    assert!(!config.enable_webhooks);
    assert_eq!(config.tls_min_version, TlsVersion::Tls13);
}

#[test]
fn certificates_are_looked_for_where_controller_runtime_looks() {
    let at = |certificate: &str, key: &str| Files {
        certificate: certificate.into(),
        key: key.into(),
    };
    let config = load(&[]).unwrap();
    assert_eq!(config.cert_mode, CertMode::Directory);
    let folder = "/tmp/k8s-webhook-server/serving-certs";
    let default = at(&format!("{folder}/tls.crt"), &format!("{folder}/tls.key"));
    assert_eq!(config.webhook_files(), default);
    let config = load(&[
        "--webhook-cert-path=/certs",
        "--webhook-cert-name=a.pem",
        "--webhook-cert-key=b.pem",
        "--metrics-cert-path=/c",
        "--metrics-cert-name=a",
        "--metrics-cert-key=b",
        "--cert-mode=self-managed",
    ]);
    let config = config.unwrap();
    assert_eq!(config.cert_mode, CertMode::SelfManaged);
    assert_eq!(config.webhook_files(), at("/certs/a.pem", "/certs/b.pem"));
    assert_eq!(config.metrics_files(), Some(at("/c/a", "/c/b")));
    let config = load(&["--metrics-cert-path="]).unwrap();
    assert_eq!(config.metrics_files(), None);
}
