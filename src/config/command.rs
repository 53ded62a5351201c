//! The command line: runs the operators, or one subcommand. Parses arguments only; no I/O.

use std::ffi::OsString;

use clap::builder::Resettable;
use clap::parser::ValueSource;
use clap::{CommandFactory as _, FromArgMatches as _};

use super::check::{Config, ConfigError};
use super::flags::{Flags, MigrateStorage, Subcommands};
use super::values::BOOL;

/// The validated command.
#[derive(Clone)]
pub enum Command {
    /// Run the operators until the process is stopped: the command line without a subcommand.
    Run(Box<Config>),
    /// Rewrite objects that are stored in an older version.
    MigrateStorage(MigrateStorage),
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
            let flag = if flag.get_value_names().is_some_and(|names| names == [BOOL]) {
                flag.num_args(0..=1)
                    .require_equals(true)
                    .default_missing_value("true")
            } else {
                flag
            };
            // Treats an empty variable as unset, as in a manifest whose value was left blank.
            let value = flag.get_env().and_then(std::env::var_os);
            if value.is_some_and(|value| value.is_empty()) {
                flag.env(Resettable::Reset)
            } else {
                flag
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
            Some(Subcommands::MigrateStorage(options)) => Ok(Self::MigrateStorage(options)),
        }
    }
}
