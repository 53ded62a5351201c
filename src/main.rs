//! The process: parses the command line and runs the command.
//!
//! Exit codes: 0 after a clean stop or a finished subcommand; 64 (`EX_USAGE`) for an invalid
//! configuration; 1 if a part of the process failed or did not stop in time, or if the subcommand
//! failed.

use std::io::{self, Write as _};
use std::process::ExitCode;

use quartet_operator::config::{Command, ConfigError};
use quartet_operator::{manager, migration};

#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

fn main() -> ExitCode {
    let command = match Command::from_process() {
        Ok(command) => command,
        Err(ConfigError::Flags(answer)) if answer.exit_code() == 0 => {
            // A closed pipe, e.g. of `head`, is not an error.
            let _ = answer.print();
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            let _ = writeln!(io::stderr(), "{}", manager::error_report(&error).trim_end());
            return ExitCode::from(manager::EXIT_USAGE);
        }
    };
    match command {
        Command::Run(config) => match manager::run(*config) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => ExitCode::from(error.exit_code()),
        },
        Command::MigrateStorage(options) => match migration::run(&options) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                let _ = writeln!(io::stderr(), "{}", manager::error_report(&error));
                ExitCode::from(error.exit_code())
            }
        },
    }
}
