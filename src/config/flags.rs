//! The flags as they are typed, each also an environment variable. Names, defaults and
//! notation are those of a kubebuilder `main.go`, so that arguments in existing manifests
//! keep working. What they mean together is checked in the parent module.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgAction, Parser, ValueEnum};

use super::address::OptionalAddress;
use super::command::Subcommands;
use super::scaffold::ScaffoldFlags;
use crate::operators::settings::MAX_REPLICAS;
use crate::webhook::TlsVersion;
use crate::webhook::certificates::WebhookUrl;

/// Where OLM and the scaffold mount the Secret: controller-runtime's default.
pub const SERVING_CERTS: &str = "/tmp/k8s-webhook-server/serving-certs";
/// Where health is told unless a flag says otherwise; the manifests' container port is its port.
pub const HEALTH_ADDRESS: &str = ":8081";
/// Port of the webhook server unless a flag says otherwise.
pub const WEBHOOK_PORT: u16 = 9443;

/// Four Kubernetes operators in one manager: Memcached, Nginx, ElasticWeb, HelloWorld.
#[derive(Debug, Parser)]
#[command(
    name = "manager",
    version,
    // As in Go: when a kustomize patch appends an argument that is already there, the last wins.
    args_override_self = true,
    // The flags below are those of the process that runs; each subcommand has its own.
    args_conflicts_with_subcommands = true,
    max_term_width = 100
)]
pub(super) struct Flags {
    #[command(subcommand)]
    pub(super) subcommand: Option<Subcommands>,

    /// Address of /metrics, e.g. ":8443"; "0" turns it off.
    #[arg(long, env, hide_env_values = true, value_name = "ADDRESS", default_value = "0")]
    pub(super) metrics_bind_address: OptionalAddress,

    /// Serve /metrics over HTTPS, to clients that are authorized to get the nonResourceURL
    /// /metrics; false serves plain HTTP to anybody.
    #[arg(long, env, hide_env_values = true, value_name = "BOOL", default_value = "true",
          num_args = 0..=1, require_equals = true, default_missing_value = "true",
          action = ArgAction::Set, value_parser = go_bool)]
    pub(super) metrics_secure: bool,

    /// Folder of the certificate and key of /metrics; without it they are made in memory.
    #[arg(long, env, hide_env_values = true, value_name = "FOLDER", default_value = "")]
    pub(super) metrics_cert_path: OsString,

    /// File of the certificate chain in that folder.
    #[arg(long, env, hide_env_values = true, value_name = "FILE", default_value = "tls.crt")]
    pub(super) metrics_cert_name: OsString,

    /// File of the key in that folder.
    #[arg(long, env, hide_env_values = true, value_name = "FILE", default_value = "tls.key")]
    pub(super) metrics_cert_key: OsString,

    /// Address of /healthz and /readyz; "0" turns them off.
    #[arg(
        long,
        env,
        hide_env_values = true,
        value_name = "ADDRESS",
        default_value = HEALTH_ADDRESS
    )]
    pub(super) health_probe_bind_address: OptionalAddress,

    /// Let one of several replicas reconcile: the one that holds the Lease
    /// quartet-operator.example.com.
    #[arg(long, env, hide_env_values = true, value_name = "BOOL", default_value = "false",
          num_args = 0..=1, require_equals = true, default_missing_value = "true",
          action = ArgAction::Set, value_parser = go_bool)]
    pub(super) leader_elect: bool,

    /// Namespace of that Lease. Without it: POD_NAMESPACE, then the pod's own.
    #[arg(long, env, hide_env_values = true, value_name = "NAMESPACE", default_value = "")]
    pub(super) leader_election_namespace: String,

    /// Serve admission and conversion webhooks; false goes with the CRDs of
    /// config/crd-original.
    #[arg(long, env, hide_env_values = true, value_name = "BOOL", default_value = "true",
          num_args = 0..=1, require_equals = true, default_missing_value = "true",
          action = ArgAction::Set, value_parser = go_bool)]
    pub(super) enable_webhooks: bool,

    /// Port of the webhook server, on every interface; 0 lets the system choose one.
    #[arg(
        long,
        env,
        hide_env_values = true,
        value_name = "PORT",
        default_value_t = WEBHOOK_PORT
    )]
    pub(super) webhook_port: u16,

    /// Oldest version of TLS that is spoken: VersionTLS12 or VersionTLS13.
    #[arg(
        long,
        env,
        hide_env_values = true,
        value_name = "VERSION",
        default_value = "VersionTLS12"
    )]
    pub(super) tls_min_version: TlsVersion,

    /// Where the webhook server's certificate is from.
    #[arg(long, env, hide_env_values = true, value_name = "MODE", default_value = "directory")]
    pub(super) cert_mode: CertMode,

    /// Folder of the webhook server's certificate and key, with --cert-mode=directory.
    #[arg(
        long,
        env,
        hide_env_values = true,
        value_name = "FOLDER",
        default_value = SERVING_CERTS
    )]
    pub(super) webhook_cert_path: OsString,

    /// File of the certificate chain in that folder.
    #[arg(long, env, hide_env_values = true, value_name = "FILE", default_value = "tls.crt")]
    pub(super) webhook_cert_name: OsString,

    /// File of the key in that folder.
    #[arg(long, env, hide_env_values = true, value_name = "FILE", default_value = "tls.key")]
    pub(super) webhook_cert_key: OsString,

    /// Outside the cluster: https://HOST:PORT at which the API server is to call the webhook
    /// server while this process runs, with a certificate of its own. Only where the API
    /// server is on this machine.
    #[arg(long, env, hide_env_values = true, value_name = "URL")]
    pub(super) webhook_url: Option<WebhookUrl>,

    /// Register --webhook-url with an API server elsewhere, too.
    #[arg(long, env, hide_env_values = true, value_name = "BOOL", default_value = "false",
          num_args = 0..=1, require_equals = true, default_missing_value = "true",
          action = ArgAction::Set, value_parser = go_bool)]
    pub(super) webhook_url_force: bool,

    /// Kubeconfig file. Without it: KUBECONFIG, then the pod's service account, then
    /// ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,

    /// Controllers to run, separated by commas, e.g. "memcached,nginx"; "*" is all.
    #[arg(long, env, hide_env_values = true, value_name = "NAMES", default_value = "*")]
    pub(super) controllers: String,

    /// Resources of one kind that are reconciled at the same time.
    #[arg(long, env, hide_env_values = true, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(super) max_concurrent_reconciles: u16,

    /// Resources of one kind that roll out a changed default of the operator (such as a new
    /// operand image) at the same time; 0 is no limit. Changes of a resource's own spec never
    /// wait.
    #[arg(long, env, hide_env_values = true, value_name = "N", default_value_t = 10)]
    pub(super) max_concurrent_rollouts: u16,

    /// Most pods that one resource may ask for; 0 is no limit.
    #[arg(long, env, hide_env_values = true, value_name = "N", default_value_t = MAX_REPLICAS,
          value_parser = clap::value_parser!(u32).range(0..=i64::from(i32::MAX)))]
    pub(super) max_replicas: u32,

    /// Namespaces whose resources are reconciled, separated by commas; empty is all.
    #[arg(long, env, hide_env_values = true, value_name = "NAMES", default_value = "")]
    pub(super) watch_namespace: String,

    /// How log lines are written.
    #[arg(long, env, hide_env_values = true, value_name = "FORMAT", default_value = "json")]
    pub(super) log_format: LogFormat,

    /// The least severe events that are logged.
    #[arg(long, env, hide_env_values = true, value_name = "LEVEL", default_value = "info")]
    pub(super) log_level: LogLevel,

    #[command(flatten)]
    pub(super) scaffold: ScaffoldFlags,
}

/// Where the webhook server's certificate is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum CertMode {
    /// Files that somebody else writes: OLM, cert-manager.
    Directory,
    /// A Secret that the replicas share and renew; they also keep the caBundle of the webhook
    /// configuration and the CRDs.
    SelfManaged,
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One JSON object a line, for machines.
    Json,
    /// One line of text, for a terminal.
    Text,
}

/// The least severe events that are logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// What needs somebody to act.
    Error,
    /// What went wrong and is tried again.
    Warn,
    /// Each event that matters.
    Info,
    /// Each reconcile and each request.
    Debug,
    /// Everything.
    Trace,
}

/// The spellings that Go's `strconv.ParseBool` takes.
pub(super) fn go_bool(text: &str) -> Result<bool, &'static str> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("give true or false"),
    }
}
