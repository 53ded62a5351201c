//! The flags as given; most can also be set by an environment variable. Names, defaults and
//! notation are those of a kubebuilder `main.go`, so that arguments of existing manifests keep
//! working. The parent module validates their combination.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use tracing::level_filters::LevelFilter;

use super::address::OptionalAddress;
use super::scaffold::ScaffoldFlags;
use super::values::{BOOL, CertMode, GoBool, LogFormat, log_level};
use quartet_webhook::TlsVersion;
use quartet_workload::MAX_REPLICAS;

/// Where OLM and the scaffold mount the certificate Secret: controller-runtime's default.
pub const SERVING_CERTS: &str = "/tmp/k8s-webhook-server/serving-certs";
/// Default address of the health endpoints. The container port of the manifests has the same
/// number.
pub const HEALTH_ADDRESS: &str = ":8081";
/// Default port of the webhook server.
pub const WEBHOOK_PORT: u16 = 9443;

/// Four Kubernetes operators in one manager: Memcached, Nginx, ElasticWeb, HelloWorld.
#[derive(Debug, Parser)]
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
pub(super) struct Flags {
    #[command(subcommand)]
    pub(super) subcommand: Option<Subcommands>,

    /// Address of /metrics, e.g. ":8443"; "0" disables it.
    #[arg(long, env, value_name = "ADDRESS", default_value = "0")]
    pub(super) metrics_bind_address: OptionalAddress,

    /// Serve /metrics over HTTPS, to clients that are authorized to get the nonResourceURL
    /// /metrics; false serves plain HTTP without access control.
    #[arg(long, env, value_name = BOOL, default_value = "true")]
    pub(super) metrics_secure: GoBool,

    /// Directory of the certificate and key of /metrics. Default: a certificate generated in
    /// memory.
    #[arg(long, env, value_name = "FOLDER", default_value = "")]
    pub(super) metrics_cert_path: OsString,

    /// File name of the certificate chain in that directory.
    #[arg(long, env, value_name = "FILE", default_value = "tls.crt")]
    pub(super) metrics_cert_name: OsString,

    /// File name of the key in that directory.
    #[arg(long, env, value_name = "FILE", default_value = "tls.key")]
    pub(super) metrics_cert_key: OsString,

    /// Address of /healthz and /readyz; "0" disables them.
    #[arg(long, env, value_name = "ADDRESS", default_value = HEALTH_ADDRESS)]
    pub(super) health_probe_bind_address: OptionalAddress,

    /// Enable leader election: of several replicas, only the holder of the Lease
    /// quartet-operator.example.com reconciles.
    #[arg(long, env, value_name = BOOL, default_value = "false")]
    pub(super) leader_elect: GoBool,

    /// Namespace of that Lease. Default: POD_NAMESPACE, then the namespace of the pod.
    #[arg(long, env, value_name = "NAMESPACE", default_value = "")]
    pub(super) leader_election_namespace: String,

    /// Serve admission and conversion webhooks. Use false only with the CRDs of
    /// config/crd-original, or beside another manager that serves them.
    #[arg(long, env, value_name = BOOL, default_value = "true")]
    pub(super) enable_webhooks: GoBool,

    /// Port of the webhook server, on all interfaces; 0 lets the system choose one.
    #[arg(long, env, value_name = "PORT", default_value_t = WEBHOOK_PORT)]
    pub(super) webhook_port: u16,

    /// Minimum TLS version: VersionTLS12 or VersionTLS13.
    #[arg(long, env, value_name = "VERSION", default_value = "VersionTLS12")]
    pub(super) tls_min_version: TlsVersion,

    /// Source of the webhook server's certificate.
    #[arg(long, env, value_name = "MODE", default_value = "directory")]
    pub(super) cert_mode: CertMode,

    /// Directory of the webhook server's certificate and key, with --cert-mode=directory.
    #[arg(long, env, value_name = "FOLDER", default_value = SERVING_CERTS)]
    pub(super) webhook_cert_path: OsString,

    /// File name of the certificate chain in that directory.
    #[arg(long, env, value_name = "FILE", default_value = "tls.crt")]
    pub(super) webhook_cert_name: OsString,

    /// File name of the key in that directory.
    #[arg(long, env, value_name = "FILE", default_value = "tls.key")]
    pub(super) webhook_cert_key: OsString,

    /// Kubeconfig file. Default: KUBECONFIG, then the pod's service account, then ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,

    /// Controllers to run, separated by commas, e.g. "memcached,nginx"; "*" means all.
    #[arg(long, env, value_name = "NAMES", default_value = "*")]
    pub(super) controllers: String,

    /// Maximum number of concurrent reconciles of one kind.
    #[arg(long, env, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(super) max_concurrent_reconciles: u16,

    /// Maximum number of resources of one kind that roll out a changed default of the operator
    /// (such as a new operand image) at the same time; 0 means no limit. Does not limit changes
    /// of a resource's own spec.
    #[arg(long, env, value_name = "N", default_value_t = 10)]
    pub(super) max_concurrent_rollouts: u16,

    /// Maximum number of pods of one resource; 0 means no limit.
    #[arg(long, env, value_name = "N", default_value_t = MAX_REPLICAS,
          value_parser = clap::value_parser!(u32).range(0..=i64::from(i32::MAX)))]
    pub(super) max_replicas: u32,

    /// Namespaces whose resources are reconciled, separated by commas; empty means all.
    #[arg(long, env, value_name = "NAMES", default_value = "")]
    pub(super) watch_namespace: String,

    /// Format of log lines.
    #[arg(long, env, value_name = "FORMAT", default_value = "json")]
    pub(super) log_format: LogFormat,

    /// Minimum severity of logged events.
    #[arg(long, env, value_name = "LEVEL", default_value = "info", value_parser = log_level())]
    pub(super) log_level: LevelFilter,

    #[command(flatten)]
    pub(super) scaffold: ScaffoldFlags,
}

/// The subcommands, as given.
#[derive(Debug, Subcommand)]
pub(super) enum Subcommands {
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
