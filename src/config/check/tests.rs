//! Tests of the result of a command line, and of the errors of an invalid one. `tests/manager`
//! tests environment variables with the real binary.

mod servers;

use clap::{CommandFactory as _, Parser as _};

use super::*;
use crate::config::{Command, MigrateStorage};

impl Config {
    /// The environment variables of the flags, for the test of the manifests.
    pub(crate) fn variables() -> BTreeSet<String> {
        let command = Flags::command();
        let named = command.get_arguments().filter_map(|flag| flag.get_env());
        named
            .map(|name| name.to_string_lossy().into_owned())
            .collect()
    }
}

fn command(arguments: &[&str]) -> Result<Command, ConfigError> {
    Command::from_arguments(["manager"].iter().chain(arguments).copied())
}

fn load(arguments: &[&str]) -> Result<Config, ConfigError> {
    match command(arguments)? {
        Command::Run(config) => Ok(*config),
        Command::MigrateStorage(_) => panic!("{arguments:?} is a subcommand"),
    }
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
    load(arguments).err().expect("must be rejected").to_string()
}

#[test]
fn the_defaults_are_those_of_the_scaffold() {
    let config = load(&[]).unwrap();
    assert_eq!(config.metrics_address, None);
    assert_eq!(config.metrics_security, MetricsSecurity::SelfSigned);
    assert_eq!(
        config.health_address,
        Some(BindAddress {
            host: None,
            port: 8081
        })
    );
    assert_eq!(config.operators.len(), OPERATORS.len());
    assert_eq!(config.settings, Settings::default());
    assert_eq!(config.max_concurrent_reconciles, 5);
    assert_eq!(config.max_concurrent_rollouts, 10);
    assert!(config.watch_namespaces.is_empty());
    assert_eq!(
        (config.log_format, config.log_level),
        (LogFormat::Json, LevelFilter::INFO)
    );
}

#[test]
fn booleans_are_spelled_as_in_go() {
    for spelling in ["0", "f", "F", "false", "FALSE", "False"] {
        assert!(
            load(&[&format!("--leader-elect={spelling}")]).is_ok(),
            "{spelling}"
        );
    }
    assert!(rejection(&["--leader-elect=maybe"]).contains("give true or false"));
}

#[test]
fn a_bare_boolean_is_true_and_does_not_swallow_the_next_argument() {
    assert!(load(&["--leader-elect"]).unwrap().leader_election.is_some());
    let config = load(&["--leader-elect", "--metrics-secure=false"]);
    assert!(config.unwrap().leader_election.is_some());
}

#[test]
fn the_namespace_of_the_lease_is_given_by_the_flag_before_the_pod() {
    let namespace = |flag: &str, pod: Option<&str>| {
        let flag = format!("--leader-election-namespace={flag}");
        let flags = Flags::try_parse_from(["manager", "--leader-elect=true", &flag]).unwrap();
        let election = leader_election(&flags, pod.map(str::to_owned));
        election.map(|election| election.unwrap().namespace)
    };
    assert_eq!(
        namespace("one", Some("two")).unwrap().as_deref(),
        Some("one")
    );
    assert_eq!(namespace("", Some("two")).unwrap().as_deref(), Some("two"));
    assert_eq!(namespace("", Some("")).unwrap(), None);
    assert_eq!(namespace("", None).unwrap(), None);
    for bad in [namespace("a/b", None), namespace("", Some("A"))] {
        let message = bad.unwrap_err().to_string();
        assert!(message.contains("--leader-election-namespace"), "{message}");
    }
    assert_eq!(load(&[]).unwrap().leader_election, None);
}

#[test]
fn the_last_of_two_equal_flags_wins() {
    let config = load(&[
        "--max-replicas=1",
        "--max-replicas=2",
        "--leader-elect",
        "--leader-elect=false",
    ]);
    assert_eq!(config.unwrap().settings.max_replicas, 2);
}

#[test]
fn a_rejected_value_is_named_with_its_flag() {
    for (argument, part) in [
        (
            "--health-probe-bind-address=8081",
            ":port for every interface",
        ),
        ("--metrics-bind-address=", ":port for every interface"),
        ("--max-concurrent-reconciles=0", "0 is not in 1..=1000"),
        ("--max-replicas=-1", "-1 is not in 0..=2147483647"),
        ("--max-replicas=many", "invalid digit"),
        ("--log-format=xml", "possible values: json, text"),
        (
            "--log-level=loud",
            "possible values: error, warn, info, debug, trace",
        ),
    ] {
        let message = rejection(&[argument]);
        let (flag, _) = argument.split_once('=').unwrap();
        assert!(
            message.contains(flag) && message.contains(part),
            "{argument}: {message}"
        );
    }
}

#[test]
fn flags_that_do_not_exist_are_rejected() {
    assert!(rejection(&["--webhook-ports=9443"]).contains("--webhook-ports"));
    assert!(rejection(&["surplus"]).contains("surplus"));
}

#[test]
fn controllers_are_selected_by_name_in_the_order_of_the_list() {
    assert_eq!(
        controllers(&["--controllers=nginx, memcached"]),
        ["memcached", "nginx"]
    );
    assert_eq!(
        controllers(&["--controllers=*,nginx"]).len(),
        OPERATORS.len()
    );
    let message = rejection(&["--controllers=memcached,another"]);
    assert!(
        message.contains("\"another\"") && message.contains("memcached, nginx"),
        "{message}"
    );
    assert!(matches!(
        load(&["--controllers=,"]),
        Err(ConfigError::NoController)
    ));
}

#[test]
fn namespaces_are_a_list_and_each_must_be_a_label() {
    let config = load(&["--watch-namespace=team-a, team-b,"]).unwrap();
    assert_eq!(
        config.watch_namespaces,
        ["team-a", "team-b"].map(str::to_owned).into()
    );
    let long = "a".repeat(64);
    for name in ["Team", "-a", "a-", "a.b", "a b", &long] {
        assert!(
            rejection(&["--watch-namespace", name]).contains(name),
            "{name}"
        );
    }
}

#[test]
fn a_blank_image_is_the_default_and_one_with_a_blank_in_it_is_rejected() {
    let digest = "registry.example.com:5000/memcached@sha256:0123456789abcdef";
    let environment = |name: &str| match name {
        "MEMCACHED_IMAGE" => Some(digest.into()),
        "NGINX_IMAGE" => Some("".into()),
        _ => None,
    };
    let named = images(environment).expect("is valid");
    assert_eq!(named, [("MEMCACHED_IMAGE", digest.to_owned())].into());
    let rejected = images(|_| Some("nginx 1.28".into())).expect_err("no image has a blank");
    assert!(
        rejected
            .to_string()
            .contains("_IMAGE: give an image reference"),
        "{rejected}"
    );
}

fn migrate_storage(arguments: &[&str]) -> Result<MigrateStorage, ConfigError> {
    let arguments: Vec<_> = ["migrate-storage"]
        .iter()
        .chain(arguments)
        .copied()
        .collect();
    match command(&arguments)? {
        Command::MigrateStorage(options) => Ok(options),
        Command::Run(_) => panic!("{arguments:?} would run the operators"),
    }
}

#[test]
fn migrate_storage_is_a_subcommand_with_flags_of_its_own() {
    let defaults = MigrateStorage {
        dry_run: false,
        kubeconfig: None,
        page_size: 500,
    };
    assert_eq!(migrate_storage(&[]).unwrap(), defaults);
    let given = migrate_storage(&["--dry-run", "--page-size=7", "--kubeconfig", "admin.conf"]);
    let expected = MigrateStorage {
        dry_run: true,
        kubeconfig: Some("admin.conf".into()),
        page_size: 7,
    };
    assert_eq!(given.unwrap(), expected);
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
        let rejected = command(arguments).err();
        assert!(
            matches!(&rejected, Some(ConfigError::Flags(error)) if error.exit_code() == 2),
            "{arguments:?}"
        );
    }
}

#[test]
fn the_flags_of_a_scaffold_are_accepted_with_their_meaning_or_a_warning() {
    let logs = |arguments: &[&str]| {
        let config = load(arguments).unwrap();
        (config.log_format, config.log_level)
    };
    let (json, text) = (LogFormat::Json, LogFormat::Text);
    assert_eq!(logs(&["--zap-devel"]), (text, LevelFilter::DEBUG));
    assert_eq!(logs(&["--zap-devel=false"]), (json, LevelFilter::INFO));
    let devel = [
        "--zap-devel=true",
        "--zap-encoder=json",
        "--zap-log-level=info",
    ];
    assert_eq!(logs(&devel), (json, LevelFilter::INFO));
    for (level, means) in [
        ("debug", LevelFilter::DEBUG),
        ("5", LevelFilter::DEBUG),
        ("error", LevelFilter::ERROR),
        ("panic", LevelFilter::ERROR),
    ] {
        assert_eq!(logs(&[&format!("--zap-log-level={level}")]), (json, means));
    }
    let ours = ["--log-level=warn", "--log-format=json", "--zap-devel"];
    assert_eq!(logs(&ours), (json, LevelFilter::WARN));
    assert!(rejection(&["--zap-log-level=loud"]).contains("give debug, info"));
    let ignored = ["--zap-stacktrace-level=error", "--zap-time-encoding=epoch"];
    let config = load(&ignored).unwrap();
    assert_eq!(
        config.ignored_flags,
        ["--zap-stacktrace-level", "--zap-time-encoding"]
    );
}
