//! The configuration: every flag and environment variable, validated before anything starts. Names,
//! defaults and notation are those of a kubebuilder `main.go`, so that arguments of existing manifests
//! keep working. Opens no file and binds no port. The variables of OpenTelemetry are read by its SDK, see
//! `traces.rs`.
//! Used by `manager`, `migration` and `packaging`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::builder::{BoolishValueParser, Resettable};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Args, CommandFactory as _, FromArgMatches as _};
use clap::{Parser, Subcommand, ValueEnum};
use quartet_webhook::TlsVersion;
use tracing::level_filters::{LevelFilter, ParseLevelFilterError};

use crate::Application;
use quartet_certificates::Files;
use quartet_workload::{MAX_REPLICAS, Operator, Settings};

/// Default port of the webhook server.
pub const WEBHOOK_PORT: u16 = 9443;

/// The name of a boolean in `--help`.
const BOOL: &str = "BOOL";

/// Flags of a kubebuilder scaffold's `main.go` that have no effect here. They are accepted with a warning.
const IGNORED: [&str; 3] = ["enable-http2", "zap-stacktrace-level", "zap-time-encoding"];

/// A valid configuration.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "manager",
    version,
    // As in Go, the last value wins, e.g. if a kustomize patch appends an argument that exists
    // already.
    args_override_self = true,
    // The flags below apply without a subcommand; each subcommand has its own.
    args_conflicts_with_subcommands = true,
    max_term_width = 100
)]
pub struct Config {
    /// The subcommand. Without one, the operators run until the process is stopped.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Address of /metrics, e.g. ":8443"; "0" disables it.
    #[arg(long, env, value_name = "ADDRESS", default_value = "0", value_parser = address)]
    pub metrics_bind_address: String,

    /// Serve /metrics over HTTPS, to clients that are authorized to get the nonResourceURL
    /// /metrics; false serves plain HTTP without access control.
    #[arg(long, env, value_name = BOOL, default_value = "true")]
    pub metrics_secure: bool,

    /// Directory of the certificate and key of /metrics. Default: a certificate generated in
    /// memory.
    #[arg(long, env, value_name = "FOLDER", default_value = "")]
    metrics_cert_path: OsString,

    /// File name of the certificate chain in that directory.
    #[arg(long, env, value_name = "FILE", default_value = "tls.crt")]
    metrics_cert_name: PathBuf,

    /// File name of the key in that directory.
    #[arg(long, env, value_name = "FILE", default_value = "tls.key")]
    metrics_cert_key: PathBuf,

    /// Address of /healthz and /readyz; "0" disables them.
    #[arg(long, env, value_name = "ADDRESS", default_value = ":8081", value_parser = address)]
    pub health_probe_bind_address: String,

    /// Enable leader election: of several replicas, only the holder of the Lease reconciles.
    #[arg(long, env, value_name = BOOL, default_value = "false")]
    pub leader_elect: bool,

    /// Namespace of that Lease. Default: POD_NAMESPACE, then the namespace of the pod.
    #[arg(long, env, value_name = "NAMESPACE", default_value = "")]
    pub leader_election_namespace: String,

    /// Serve admission and conversion webhooks. Use false only with the CRDs of
    /// config/crd-original, or beside another manager that serves them.
    #[arg(long, env, value_name = BOOL, default_value = "true")]
    pub enable_webhooks: bool,

    /// Port of the webhook server, on all interfaces; 0 lets the system choose one.
    #[arg(long, env, value_name = "PORT", default_value_t = WEBHOOK_PORT)]
    pub webhook_port: u16,

    /// Minimum TLS version: VersionTLS12 or VersionTLS13.
    #[arg(long, env, value_name = "VERSION", default_value = "VersionTLS12")]
    pub tls_min_version: TlsVersion,

    /// Source of the webhook server's certificate.
    #[arg(long, env, value_name = "MODE", default_value = "directory")]
    pub cert_mode: CertMode,

    /// Directory of the webhook server's certificate and key, with --cert-mode=directory.
    #[arg(
        long,
        env,
        value_name = "FOLDER",
        default_value = "/tmp/k8s-webhook-server/serving-certs"
    )]
    webhook_cert_path: PathBuf,

    /// File name of the certificate chain in that directory.
    #[arg(long, env, value_name = "FILE", default_value = "tls.crt")]
    webhook_cert_name: PathBuf,

    /// File name of the key in that directory.
    #[arg(long, env, value_name = "FILE", default_value = "tls.key")]
    webhook_cert_key: PathBuf,

    /// Kubeconfig file. Default: KUBECONFIG, then the pod's service account, then ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Controllers to run, separated by commas; "*" means all.
    #[arg(long, env, value_name = "NAMES", default_value = "*")]
    controllers: String,

    /// Maximum number of concurrent reconciles of one kind.
    #[arg(long, env, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub max_concurrent_reconciles: u16,

    /// Maximum number of resources of one kind that roll out a changed default of the operator
    /// (such as a new operand image) at the same time; 0 means no limit. Does not limit changes
    /// of a resource's own spec.
    #[arg(long, env, value_name = "N", default_value_t = 10)]
    pub max_concurrent_rollouts: u16,

    /// Maximum number of pods of one resource; 0 means no limit.
    #[arg(long, env, value_name = "N", default_value_t = MAX_REPLICAS,
          value_parser = clap::value_parser!(u32).range(0..=i64::from(i32::MAX)))]
    max_replicas: u32,

    /// Namespaces whose resources are reconciled, separated by commas; empty means all.
    #[arg(long, env, value_name = "NAMES", default_value = "")]
    watch_namespace: String,

    /// The scaffold's flag for a log in text at level debug.
    #[arg(long, value_name = BOOL, default_value = "false", hide = true)]
    zap_devel: bool,

    /// Format of log lines.
    #[arg(
        long,
        env,
        value_name = "FORMAT",
        default_value = "json",
        alias = "zap-encoder",
        default_value_if("zap_devel", "true", "text")
    )]
    pub log_format: LogFormat,

    /// Minimum severity of logged events: error (needs action), warn (retried), info, debug (each
    /// reconcile and each request) or trace.
    #[arg(long, env, value_name = "LEVEL", default_value = "info", alias = "zap-log-level",
          default_value_if("zap_devel", "true", "debug"), value_parser = level)]
    pub log_level: LevelFilter,

    /// The operators to run, at least one, in the order of the application.
    #[arg(skip)]
    pub operators: Vec<&'static dyn Operator>,
    /// Operand images and the replica limit.
    #[arg(skip)]
    pub settings: Settings,
    /// Namespaces whose resources are reconciled; empty means all.
    #[arg(skip)]
    pub namespaces: BTreeSet<String>,
    /// Flags that were given but have no effect.
    #[arg(skip)]
    pub ignored_flags: Vec<&'static str>,
}

/// The subcommands.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Rewrite every resource in the storage version of its CRD, then remove older versions from
    /// status.storedVersions.
    ///
    /// Run it as the last step of an upgrade, after you apply the CRDs of config/crd. It changes
    /// only how objects are stored. You can stop it and start it again at any time. It needs RBAC
    /// rules to list the resources, to get the CRDs, and to patch the status of both.
    MigrateStorage(MigrateStorage),
}

/// `manager migrate-storage`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct MigrateStorage {
    /// Count the resources to rewrite, without writing.
    #[arg(long)]
    pub dry_run: bool,

    /// Kubeconfig file. Default: KUBECONFIG, then the pod's service account, then ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Number of resources in one list request.
    #[arg(long, value_name = "N", default_value_t = 500,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub page_size: u32,
}

/// The source of the webhook server's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CertMode {
    /// Files that another program writes, e.g. OLM or cert-manager.
    Directory,
    /// A Secret that the replicas share and renew. They also set the caBundle of the webhook
    /// configuration and of the CRDs.
    SelfManaged,
}

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One JSON object per line.
    Json,
    /// One line of text, for a terminal.
    #[value(alias = "console")]
    Text,
}

/// What clap parses.
fn command(application: &Application) -> clap::Command {
    let ignored = IGNORED.map(|name| Arg::new(name).long(name).num_args(0..=1).hide(true));
    let command = Config::command().about(application.about).args(ignored);
    command.mut_args(|flag| {
        // `--help` shows no values of the environment, which would differ between machines.
        let mut flag = flag.hide_env_values(true);
        if flag.get_value_names().is_some_and(|names| names == [BOOL]) {
            flag = flag
                .action(ArgAction::Set)
                .value_parser(BoolishValueParser::new())
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true");
        }
        // An empty variable counts as unset, as in a manifest whose value was left blank.
        match flag.get_env().and_then(std::env::var_os) {
            Some(value) if value.is_empty() => flag.env(Resettable::Reset),
            _ => flag,
        }
    })
}

impl Config {
    /// Parses a command line, whose first argument is the name of the program. Absent flags are read from
    /// the environment.
    ///
    /// # Errors
    /// The first error, with what to do; also `--help` and `--version`.
    pub fn parse_arguments(
        application: &Application,
        arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    ) -> Result<Self, clap::Error> {
        let mut command = command(application);
        let matches = command.try_get_matches_from_mut(arguments)?;
        let mut config = Self::from_arg_matches(&matches)?;
        let given = IGNORED.into_iter().filter(|name| matches.contains_id(name));
        config.ignored_flags = given.collect();
        if config.command.is_none() {
            let checked = config.check(application);
            checked.map_err(|problem| command.error(ErrorKind::ValueValidation, problem))?;
        }
        Ok(config)
    }

    /// Checks what depends on the application or on two variables.
    fn check(&mut self, application: &Application) -> Result<(), String> {
        self.operators = select(application.operators, &self.controllers)?;
        self.settings.max_replicas = self.max_replicas;
        for image in application.operators.iter().filter_map(|it| it.image()) {
            let variable = image.variable;
            let value = std::env::var_os(variable).unwrap_or_default();
            match value.into_string() {
                Ok(value) if value.is_empty() => {}
                Ok(value) if !value.contains(char::is_whitespace) => {
                    self.settings.images.insert(variable, value);
                }
                _ => {
                    return Err(format!(
                        "{variable}: give an image reference such as registry.example.com/name:tag"
                    ));
                }
            }
        }
        self.namespaces = names(&self.watch_namespace).map(str::to_owned).collect();
        if self.leader_election_namespace.is_empty() {
            self.leader_election_namespace = std::env::var("POD_NAMESPACE").unwrap_or_default();
        }
        for name in &self.namespaces {
            check_namespace("--watch-namespace (names, separated by commas)", name)?;
        }
        let flag = "--leader-election-namespace or POD_NAMESPACE";
        check_namespace(flag, &self.leader_election_namespace)
    }

    /// The certificate of the webhook server, with [`CertMode::Directory`].
    pub fn webhook_files(&self) -> Files {
        Files {
            certificate: self.webhook_cert_path.join(&self.webhook_cert_name),
            key: self.webhook_cert_path.join(&self.webhook_cert_key),
        }
    }

    /// The certificate of `/metrics`; `None`: one in memory.
    pub fn metrics_files(&self) -> Option<Files> {
        let folder = Path::new(&self.metrics_cert_path);
        (!self.metrics_cert_path.is_empty()).then(|| Files {
            certificate: folder.join(&self.metrics_cert_name),
            key: folder.join(&self.metrics_cert_key),
        })
    }
}

/// An address to listen on, in the notation of Go's `net.Listen`: `:8081` for all interfaces,
/// `127.0.0.1:8081`, `[::1]:8081`, `localhost:8081`; or `0`.
fn address(text: &str) -> Result<String, &'static str> {
    let port = text.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
    if text == "0" || matches!(port, Some(Ok(_))) {
        return Ok(text.to_owned());
    }
    Err("give host:port, :port for every interface, or 0 to turn it off")
}

/// A severity. Those of zap are also `panic`, and numbers for more than info.
fn level(text: &str) -> Result<LevelFilter, ParseLevelFilterError> {
    match text.parse() {
        Ok(1..=127_u8) => Ok(LevelFilter::DEBUG),
        _ if text == "panic" => Ok(LevelFilter::ERROR),
        _ => text.parse(),
    }
}

/// The names in a comma-separated list, without the spaces of a folded YAML line.
fn names(list: &str) -> impl Iterator<Item = &str> {
    let names = list.split(',').map(str::trim);
    names.filter(|name| !name.is_empty())
}

fn select(all: &[&'static dyn Operator], list: &str) -> Result<Vec<&'static dyn Operator>, String> {
    let known = all.iter().map(|operator| operator.kind().controller_name());
    let known: Vec<_> = known.collect();
    let is_known = |name: &str| name == "*" || known.iter().any(|known| known == name);
    if let Some(unknown) = names(list).find(|name| !is_known(name)) {
        let known = known.join(", ");
        return Err(format!(
            "--controllers: there is no controller {unknown:?}; choose from {known}, or * for all"
        ));
    }
    let selected = all.iter().zip(&known);
    let selected = selected.filter(|(_, known)| names(list).any(|it| it == "*" || it == **known));
    let selected: Vec<_> = selected.map(|(operator, _)| *operator).collect();
    if selected.is_empty() {
        return Err("--controllers selects no controller; leave it out to run all of them".into());
    }
    Ok(selected)
}

/// Rejects what is no RFC 1123 label. An empty name is that of the pod.
fn check_namespace(flag: &str, name: &str) -> Result<(), String> {
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.len() <= 63 && name.chars().all(is_allowed) && name.trim_matches('-') == name {
        return Ok(());
    }
    Err(format!(
        "{flag}: {name:?} is not the name of a namespace: at most 63 lower-case letters, digits and \
         '-', with a letter or digit at both ends"
    ))
}

#[cfg(test)]
mod tests;
