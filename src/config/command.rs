//! What the process was started for: to run the operators, or one subcommand of an
//! administrator. Arguments only; no I/O.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::Resettable;
use clap::parser::ValueSource;
use clap::{Args, CommandFactory as _, FromArgMatches as _, Subcommand};

use super::flags::Flags;
use super::{Config, ConfigError, given};

/// What to do, with everything that was said about it checked.
#[derive(Clone)]
pub enum Command {
    /// Run the operators until told to stop: the command line without a subcommand.
    Run(Box<Config>),
    /// Rewrite what is stored in an older version, once.
    MigrateStorage(MigrateStorage),
}

/// `manager migrate-storage`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrateStorage {
    /// Count what would be rewritten, and write nothing.
    pub dry_run: bool,
    /// A kubeconfig file that wins over `KUBECONFIG` and over the pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// Objects that are asked for at a time, 1 to 10 000.
    pub page_size: u32,
}

/// The subcommands as they are typed.
#[derive(Debug, Subcommand)]
pub(super) enum Subcommands {
    /// Rewrite every resource in the storage version of its CRD, then drop older versions
    /// from status.storedVersions.
    ///
    /// The last step of an upgrade, after the CRDs of config/crd are applied. Changes nothing
    /// but how objects are stored. It may be stopped and started again at any time. Needs
    /// the right to list and get the resources, to get the CRDs, and to patch the status of both.
    MigrateStorage(MigrateStorageFlags),
}

#[derive(Debug, Args)]
pub(super) struct MigrateStorageFlags {
    /// Count what would be rewritten, and write nothing.
    #[arg(long)]
    dry_run: bool,

    /// Kubeconfig file. Without it: KUBECONFIG, then the pod's service account, then
    /// ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Resources that are asked for at a time.
    #[arg(long, value_name = "N", default_value_t = 500,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    page_size: u32,
}

impl Command {
    /// Reads the command line and the environment of this process.
    ///
    /// # Errors
    /// [`ConfigError`]: the first thing that is wrong, or `--help` or `--version`.
    pub fn from_process() -> Result<Self, ConfigError> {
        Self::from_arguments(std::env::args_os())
    }

    /// As [`Command::from_process`] with the command line handed in, the program's name
    /// first. A flag that is not there is still looked for in the environment.
    ///
    /// # Errors
    /// As [`Command::from_process`].
    pub fn from_arguments(
        arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    ) -> Result<Self, ConfigError> {
        // An empty variable is an unset one, as in a manifest whose value was left blank.
        let command = Flags::command().mut_args(|flag| {
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
