//! The flags as they are typed, each also an environment variable. Names, defaults and
//! notation are those of a kubebuilder `main.go`, so that arguments in existing manifests
//! keep working. What they mean together is checked in the parent module.

use std::path::PathBuf;

use clap::{ArgAction, Parser, ValueEnum};

use super::address::OptionalAddress;
use super::command::Errand;
use crate::operators::settings::MAX_REPLICAS;

/// Four Kubernetes operators in one manager: Memcached, Nginx, ElasticWeb, HelloWorld.
#[derive(Debug, Parser)]
#[command(
    name = "manager",
    version,
    // As in Go: when a kustomize patch appends an argument that is already there, the last wins.
    args_override_self = true,
    // The flags below are those of the process that runs; each errand has its own.
    args_conflicts_with_subcommands = true,
    max_term_width = 100
)]
pub(super) struct Flags {
    #[command(subcommand)]
    pub(super) errand: Option<Errand>,

    /// Address of /metrics, e.g. ":8080"; "0" turns it off.
    #[arg(
        long,
        env,
        hide_env_values = true,
        value_name = "ADDRESS",
        default_value = "0"
    )]
    pub(super) metrics_bind_address: OptionalAddress,

    /// Serve /metrics over HTTPS with authentication. Not in this version: with a metrics
    /// address, pass --metrics-secure=false.
    #[arg(long, env, hide_env_values = true, value_name = "BOOL", default_value = "true",
          num_args = 0..=1, require_equals = true, default_missing_value = "true",
          action = ArgAction::Set, value_parser = go_bool)]
    pub(super) metrics_secure: bool,

    /// Address of /healthz and /readyz; "0" turns them off.
    #[arg(
        long,
        env,
        hide_env_values = true,
        value_name = "ADDRESS",
        default_value = ":8081"
    )]
    pub(super) health_probe_bind_address: OptionalAddress,

    /// Let one of several replicas reconcile. Not in this version: only false is accepted.
    #[arg(long, env, hide_env_values = true, value_name = "BOOL", default_value = "false",
          num_args = 0..=1, require_equals = true, default_missing_value = "true",
          action = ArgAction::Set, value_parser = go_bool)]
    pub(super) leader_elect: bool,

    /// Serve admission and conversion webhooks. Not in this version: only false is accepted.
    #[arg(long, env, hide_env_values = true, value_name = "BOOL", default_value = "false",
          num_args = 0..=1, require_equals = true, default_missing_value = "true",
          action = ArgAction::Set, value_parser = go_bool)]
    pub(super) enable_webhooks: bool,

    /// Kubeconfig file. Without it: KUBECONFIG, then the pod's service account, then
    /// ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,

    /// Controllers to run, separated by commas, e.g. "memcached,nginx"; "*" is all.
    #[arg(
        long,
        env,
        hide_env_values = true,
        value_name = "NAMES",
        default_value = "*"
    )]
    pub(super) controllers: String,

    /// Resources of one kind that are reconciled at the same time.
    #[arg(long, env, hide_env_values = true, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(super) max_concurrent_reconciles: u16,

    /// Most pods that one resource may ask for; 0 is no limit.
    #[arg(long, env, hide_env_values = true, value_name = "N", default_value_t = MAX_REPLICAS,
          value_parser = clap::value_parser!(u32).range(0..=i64::from(i32::MAX)))]
    pub(super) max_replicas: u32,

    /// Namespaces whose resources are reconciled, separated by commas; empty is all.
    #[arg(
        long,
        env,
        hide_env_values = true,
        value_name = "NAMES",
        default_value = ""
    )]
    pub(super) watch_namespace: String,

    /// How log lines are written.
    #[arg(
        long,
        env,
        hide_env_values = true,
        value_name = "FORMAT",
        default_value = "json"
    )]
    pub(super) log_format: LogFormat,

    /// The least severe events that are logged.
    #[arg(
        long,
        env,
        hide_env_values = true,
        value_name = "LEVEL",
        default_value = "info"
    )]
    pub(super) log_level: LogLevel,
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
fn go_bool(text: &str) -> Result<bool, &'static str> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("give true or false"),
    }
}
