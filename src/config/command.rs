//! The command line: runs the operators, or one subcommand. Parses arguments only; no I/O.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::Resettable;
use clap::parser::ValueSource;
use clap::{Args, CommandFactory as _, FromArgMatches as _, Subcommand};

use super::flags::{BOOL, Flags};
use super::{Config, ConfigError, given};

/// The validated command.
#[derive(Clone)]
pub enum Command {
    /// Run the operators until the process is stopped: the command line without a subcommand.
    Run(Box<Config>),
    /// Rewrite objects that are stored in an older version.
    MigrateStorage(MigrateStorage),
}

/// `manager migrate-storage`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrateStorage {
    /// Count the objects to rewrite, without writing.
    pub dry_run: bool,
    /// A kubeconfig file. Takes precedence over `KUBECONFIG` and the pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// Number of objects in one list request, 1 to 10 000.
    pub page_size: u32,
}

/// The subcommands, as given.
#[derive(Debug, Subcommand)]
pub(super) enum Subcommands {
    /// Rewrite every resource in the storage version of its CRD, then remove older versions from
    /// status.storedVersions.
    ///
    /// Run it as the last step of an upgrade, after you apply the CRDs of config/crd. It changes
    /// only how objects are stored. You can stop it and start it again at any time. It needs RBAC
    /// rules to list and get the resources, to get the CRDs, and to patch the status of both.
    MigrateStorage(MigrateStorageFlags),
}

#[derive(Debug, Args)]
pub(super) struct MigrateStorageFlags {
    /// Count the resources to rewrite, without writing.
    #[arg(long)]
    dry_run: bool,

    /// Kubeconfig file. Default: KUBECONFIG, then the pod's service account, then ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Number of resources in one list request.
    #[arg(long, value_name = "N", default_value_t = 500,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    page_size: u32,
}

impl Command {
    /// Parses the command line and the environment of this process.
    ///
    /// # Errors
    /// [`ConfigError`]: the first error, or `--help` or `--version`.
    pub fn from_process() -> Result<Self, ConfigError> {
        Self::from_arguments(std::env::args_os())
    }

    /// Like [`Command::from_process`], with the given command line, whose first argument is the
    /// name of the program. Absent flags are still read from the environment.
    ///
    /// # Errors
    /// As [`Command::from_process`].
    pub fn from_arguments(
        arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    ) -> Result<Self, ConfigError> {
        let command = Flags::command().mut_args(|flag| {
            // `--help` shows no values of the environment, which would differ between machines.
            let flag = flag.hide_env_values(true);
            let is_boolean = flag.get_value_names().is_some_and(|names| names == [BOOL]);
            let flag = match is_boolean {
                true => flag
                    .num_args(0..=1)
                    .require_equals(true)
                    .default_missing_value("true"),
                false => flag,
            };
            // Treats an empty variable as unset, as in a manifest whose value was left blank.
            let value = flag.get_env().and_then(std::env::var_os);
            match value.is_some_and(|value| value.is_empty()) {
                true => flag.env(Resettable::Reset),
                false => flag,
            }
        });
        let matches = command.try_get_matches_from(arguments)?;
        let mut flags = Flags::from_arg_matches(&matches)?;
        let is_typed = |id| matches.value_source(id) == Some(ValueSource::CommandLine);
        if !is_typed("log_format") {
            flags.log_format = flags.scaffold.log_format().unwrap_or(flags.log_format);
        }
        if !is_typed("log_level") {
            flags.log_level = flags.scaffold.log_level().unwrap_or(flags.log_level);
        }
        match flags.subcommand.take() {
            None => Ok(Self::Run(Box::new(Config::check(flags)?))),
            Some(Subcommands::MigrateStorage(flags)) => Ok(Self::MigrateStorage(MigrateStorage {
                dry_run: flags.dry_run,
                kubeconfig: given(flags.kubeconfig),
                page_size: flags.page_size,
            })),
        }
    }
}
