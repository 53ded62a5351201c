//! The validated configuration, from the flags.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use tracing::level_filters::LevelFilter;

use super::address::BindAddress;
use super::flags::{Flags, SERVING_CERTS};
use super::values::{CertMode, LogFormat};
use crate::kinds::OPERATORS;
use crate::operators::{Operator, Settings};
use quartet_certificates::Files;
use quartet_webhook::TlsVersion;

/// A valid configuration.
#[derive(Clone)]
pub struct Config {
    /// Address of `/metrics`; `None` disables it.
    pub metrics_address: Option<BindAddress>,
    /// Protocol and access control of `/metrics`.
    pub metrics_security: MetricsSecurity,
    /// Address of `/healthz` and `/readyz`; `None` disables them.
    pub health_address: Option<BindAddress>,
    /// Leader election between replicas; `None` for a single replica.
    pub leader_election: Option<LeaderElection>,
    /// Source of the webhook server's certificate.
    pub certificates: CertificateSource,
    /// Address of the webhook server (TLS); `None` disables it.
    pub webhook_address: Option<BindAddress>,
    /// Minimum TLS version.
    pub tls_min_version: TlsVersion,
    /// A kubeconfig file. Takes precedence over `KUBECONFIG` and the pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// The operators to run, at least one, in the order of [`OPERATORS`].
    pub operators: Vec<&'static dyn Operator>,
    /// Operand images and the replica limit.
    pub settings: Settings,
    /// Maximum number of concurrent reconciles of one kind, 1 to 1000.
    pub max_concurrent_reconciles: usize,
    /// Maximum number of concurrent rollouts of changed defaults of one kind; 0 means no limit.
    pub max_concurrent_rollouts: usize,
    /// Namespaces whose resources are reconciled; empty means all.
    pub watch_namespaces: BTreeSet<String>,
    /// Format of log lines.
    pub log_format: LogFormat,
    /// Minimum severity of logged events.
    pub log_level: LevelFilter,
    /// Flags that were given but have no effect.
    pub ignored_flags: Vec<&'static str>,
}

/// Settings of the leader election.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderElection {
    /// Namespace of the Lease; `None` is the namespace of the pod.
    pub namespace: Option<String>,
}

/// Protocol and access control of `/metrics`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetricsSecurity {
    /// Plain HTTP, without access control.
    Plain,
    /// TLS with a certificate that is generated in memory, for clients that the API server
    /// authorizes.
    SelfSigned,
    /// TLS with a certificate from files, for clients that the API server authorizes.
    Directory(Files),
}

/// The source of the webhook server's certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CertificateSource {
    /// Files that another program writes.
    Directory(Files),
    /// A Secret that the replicas share.
    SelfManaged,
}

/// The configuration is invalid. Each message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A flag or variable is unknown or cannot be parsed; also `--help` and `--version`.
    #[error("{0}")]
    Flags(#[from] clap::Error),
    /// A variable for an operand image is not an image reference.
    #[error("{0}: give an image reference such as registry.example.com/name:tag")]
    InvalidImage(&'static str),
    /// A name of a namespace is not valid.
    #[error(
        "{flag}: {name:?} is not the name of a namespace: at most 63 lower-case letters, digits and '-', \
         with a letter or digit at both ends"
    )]
    Namespace {
        /// The flag, or flag and variable.
        flag: &'static str,
        /// The name.
        name: String,
    },
    /// `--enable-http2`.
    #[error(
        "--enable-http2: HTTP/2 is not served: it lets a client exhaust a server (CVE-2023-44487), and \
         API servers call webhooks over HTTP/1.1; leave the flag out or give false"
    )]
    Http2,
    /// `--controllers` contains an unknown controller.
    #[error("--controllers: there is no controller {name:?}; choose from {known}, or * for all")]
    UnknownController {
        /// The unknown name.
        name: String,
        /// The valid names.
        known: String,
    },
    /// `--controllers` selects no controller.
    #[error("--controllers selects no controller; leave it out to run all of them")]
    NoController,
}

impl Config {
    pub(super) fn check(flags: Flags) -> Result<Self, ConfigError> {
        if flags.scaffold.enable_http2.0 {
            return Err(ConfigError::Http2);
        }
        let settings = Settings {
            max_replicas: flags.max_replicas,
            images: images(|name| std::env::var_os(name))?,
        };
        let webhook_address = BindAddress {
            host: None,
            port: flags.webhook_port,
        };
        Ok(Self {
            metrics_security: metrics_security(&flags),
            leader_election: leader_election(&flags, std::env::var("POD_NAMESPACE").ok())?,
            certificates: certificates(&flags),
            metrics_address: flags.metrics_bind_address.0,
            health_address: flags.health_probe_bind_address.0,
            webhook_address: flags.enable_webhooks.0.then_some(webhook_address),
            tls_min_version: flags.tls_min_version,
            kubeconfig: flags.kubeconfig,
            operators: select(&flags.controllers)?,
            settings,
            max_concurrent_reconciles: usize::from(flags.max_concurrent_reconciles),
            max_concurrent_rollouts: usize::from(flags.max_concurrent_rollouts),
            watch_namespaces: namespaces(&flags.watch_namespace)?,
            log_format: flags.log_format,
            log_level: flags.log_level,
            ignored_flags: flags.scaffold.ignored(),
        })
    }
}

/// `pod_namespace` is the value of the variable `POD_NAMESPACE`.
fn leader_election(
    flags: &Flags,
    pod_namespace: Option<String>,
) -> Result<Option<LeaderElection>, ConfigError> {
    let named = [Some(flags.leader_election_namespace.clone()), pod_namespace];
    let namespace = named.into_iter().flatten().find(|name| !name.is_empty());
    check_namespaces("--leader-election-namespace or POD_NAMESPACE", &namespace)?;
    Ok(flags.leader_elect.0.then_some(LeaderElection { namespace }))
}

fn metrics_security(flags: &Flags) -> MetricsSecurity {
    if !flags.metrics_secure.0 {
        return MetricsSecurity::Plain;
    }
    if flags.metrics_cert_path.is_empty() {
        return MetricsSecurity::SelfSigned;
    }
    let (name, key) = (&flags.metrics_cert_name, &flags.metrics_cert_key);
    MetricsSecurity::Directory(files(&flags.metrics_cert_path, name, key))
}

/// An empty name is the default one.
fn files(folder: &OsStr, certificate: &OsStr, key: &OsStr) -> Files {
    let folder = Path::new(folder);
    Files {
        certificate: folder.join(or_default(certificate, "tls.crt")),
        key: folder.join(or_default(key, "tls.key")),
    }
}

/// Returns `given`, or the default if it is empty, as in the scaffold's `--webhook-cert-path=""`.
fn or_default<'a>(given: &'a OsStr, default: &'a str) -> &'a OsStr {
    if given.is_empty() {
        OsStr::new(default)
    } else {
        given
    }
}

fn certificates(flags: &Flags) -> CertificateSource {
    match flags.cert_mode {
        CertMode::SelfManaged => CertificateSource::SelfManaged,
        CertMode::Directory => {
            let folder = or_default(&flags.webhook_cert_path, SERVING_CERTS);
            let (name, key) = (&flags.webhook_cert_name, &flags.webhook_cert_key);
            CertificateSource::Directory(files(folder, name, key))
        }
    }
}

/// The names in a comma-separated list, without the spaces of a folded YAML line.
fn names(list: &str) -> impl Iterator<Item = &str> {
    list.split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
}

fn select(list: &str) -> Result<Vec<&'static dyn Operator>, ConfigError> {
    let name = |operator: &&'static dyn Operator| operator.kind().controller_name();
    let known: Vec<_> = OPERATORS.iter().map(name).collect();
    let unknown = names(list).find(|name| *name != "*" && known.iter().all(|it| it != name));
    if let Some(name) = unknown {
        return Err(ConfigError::UnknownController {
            name: name.to_owned(),
            known: known.join(", "),
        });
    }
    let is_selected = |operator: &&'static dyn Operator| {
        names(list).any(|given| given == "*" || given == name(operator))
    };
    let selected: Vec<_> = OPERATORS.iter().copied().filter(is_selected).collect();
    if selected.is_empty() {
        return Err(ConfigError::NoController);
    }
    Ok(selected)
}

/// The operand images in the environment. An empty variable counts as unset, as in a manifest
/// whose value was left blank.
fn images(
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<BTreeMap<&'static str, String>, ConfigError> {
    let images = OPERATORS.iter().filter_map(|operator| operator.image());
    let named = images.filter_map(|image| {
        let value = variable(image.variable).filter(|value| !value.is_empty())?;
        Some((image.variable, value.into_string()))
    });
    named
        .map(|(variable, value)| match value {
            Ok(image) if !image.contains(char::is_whitespace) => Ok((variable, image)),
            _ => Err(ConfigError::InvalidImage(variable)),
        })
        .collect()
}

fn namespaces(list: &str) -> Result<BTreeSet<String>, ConfigError> {
    let names: BTreeSet<_> = names(list).map(str::to_owned).collect();
    check_namespaces("--watch-namespace (names, separated by commas)", &names)?;
    Ok(names)
}

fn check_namespaces<'a>(
    flag: &'static str,
    names: impl IntoIterator<Item = &'a String>,
) -> Result<(), ConfigError> {
    match names.into_iter().find(|name| !is_dns_label(name)) {
        Some(name) => Err(ConfigError::Namespace {
            flag,
            name: name.clone(),
        }),
        None => Ok(()),
    }
}

/// Reports whether `name` is an RFC 1123 label, as names of namespaces are.
fn is_dns_label(name: &str) -> bool {
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    bytes.len() <= 63
        && bytes.iter().all(|byte| alphanumeric(byte) || *byte == b'-')
        && bytes.first().is_some_and(alphanumeric)
        && bytes.last().is_some_and(alphanumeric)
}

#[cfg(test)]
mod tests;
